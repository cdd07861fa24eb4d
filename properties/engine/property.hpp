// Property: one statement that must hold for every allocator whose capabilities fit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rapidcheck/Gen.h>

#include "assay/harness/child_server.hpp"

namespace assay::properties {

using harness::Case;
using harness::CaseRun;
using harness::ChildFacts;
using harness::Command;
using harness::Operation;
using harness::Outcome;
using harness::Status;

using Commands = std::vector<Command>;

/// A case in which the property does not hold.
struct Violation {
  std::uint32_t step = 0;  ///< command that shows it, or one past the last
  std::string what;        ///< without addresses, so that two runs say the same
};

struct Property {
  std::string_view id;
  std::string_view goal;    ///< one sentence
  std::uint32_t needs = 0;  ///< capabilities; without them the cell is n/a
  /// Random command lists.
  rc::Gen<Commands> (*commands)() = nullptr;
  /// Does it hold in this case? Asked of every run, also of one that crashed half way.
  std::optional<Violation> (*judge)(const Case& which, const CaseRun& run) = nullptr;
  /// Lists that are run before any random one; may be null.
  std::vector<Commands> (*examples)() = nullptr;
  /// Sets what else a case needs, such as limits, before it runs; may be null. `index` counts the
  /// cases of a cell from 0, examples first.
  void (*prepare)(const ChildFacts& facts, std::uint32_t index, Case& which) = nullptr;
  /// Why it cannot be asked of this subject, or empty; may be null.
  std::string (*not_applicable)(const ChildFacts& facts) = nullptr;
};

/// Every property, in the order of properties/manifest.def.
[[nodiscard]] std::span<const Property* const> properties() noexcept;

/// The property of that id, or null.
[[nodiscard]] const Property* find_property(std::string_view id) noexcept;

}  // namespace assay::properties
