// What the user of assay-replay asked for.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "assay/harness/replay_engine.hpp"

namespace assay::replay {

// Exit codes, as every assay program has them.
inline constexpr int exit_good = 0;
inline constexpr int exit_bad = 1;
inline constexpr int exit_usage = 2;
inline constexpr int exit_incomplete = 4;
inline constexpr int exit_internal = 70;
inline constexpr int exit_nothing_ran = 77;

struct Options {
  std::string trace;
  std::vector<std::string> subjects;  ///< empty: the default ones
  harness::Touch touch = harness::Touch::first;
  std::uint32_t repeat = 3;
  harness::Scale scale;
  harness::PlanThreads threads = harness::PlanThreads::recorded;
  bool strict = false;
  bool allow_large = false;
  bool json = false;
  bool list_subjects = false;
  std::string for_timing;  ///< an option that was given and means nothing to a counterexample
  std::string out;
  std::chrono::seconds timeout{120};
};

[[nodiscard]] constexpr std::string_view name_of(harness::Touch touch) noexcept {
  switch (touch) {
    case harness::Touch::none: return "none";
    case harness::Touch::first: return "first";
    case harness::Touch::all: return "all";
  }
  return "";
}

}  // namespace assay::replay
