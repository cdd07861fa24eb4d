// Scenarios: what programs do with the backings over a driver, in a few dozen driver calls each.
#pragma once

#include <span>
#include <string_view>

#include "assay/backing/backing.hpp"
#include "assay/cuda/stream.hpp"
#include "judge.hpp"

namespace assay::sweep {

/// A backing over a context that is swept, or a mutant that the sweep must catch.
struct Leaf {
  std::string_view name;
  Result<Ref<Backing>> (*make)(Ref<cuda::PrimaryContext> context);
  std::string_view flaw{};      ///< of a mutant
  std::string_view scenario{};  ///< of a mutant: where it must be caught
  std::size_t limit = 0;        ///< bytes that it may give out, or 0
};
[[nodiscard]] std::span<const Leaf> leaves() noexcept;
[[nodiscard]] std::span<const Leaf> mutants() noexcept;
[[nodiscard]] std::span<const Leaf> pool_mutants() noexcept;
[[nodiscard]] std::span<const Leaf> virtual_mutants() noexcept;

/// Where a scenario runs. `stream` is made before any call fails.
struct World {
  Ref<cuda::PrimaryContext> context;
  Ref<cuda::Stream> stream;
  Ref<Backing> leaf;
  Judge& judge;
  std::size_t limit = 0;

  [[nodiscard]] bool host_access() const noexcept { return leaf->can(Capabilities::host_access); }
};

struct Scenario {
  std::string_view name;
  bool of_host_memory;  ///< needs host access
  void (*run)(World& world);
};
[[nodiscard]] std::span<const Scenario> scenarios() noexcept;

}  // namespace assay::sweep
