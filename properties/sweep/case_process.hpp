// One case: a scenario in a process of its own, with the k-th driver call failing.
#pragma once

#include <string>

#include <sys/types.h>

#include "scenarios.hpp"

namespace assay::sweep {

struct Case {
  const Scenario* scenario;  ///< null: making and ending everything, from loading the driver on
  const Leaf* leaf;
  Injection injection;
  std::uint64_t k;
};

/// What a case's process left in memory that it shares with its parent. Plain data.
struct CaseReport {
  std::uint64_t finished = 0;   ///< 1: the process came to its end
  std::uint64_t skipped = 0;    ///< 1: the device has no such memory
  std::uint64_t injected = 0;   ///< calls made to fail
  std::uint64_t errors = 0;     ///< operations that answered with an error
  std::uint64_t leaks = 0;      ///< live objects of the driver that nothing accounts for
  std::uint64_t diagnoses = 0;  ///< mistakes that the model saw: double frees and the like
  char what[400] = {};          ///< the first thing that was wrong, or empty
};

/// Runs the case in a forked child. **Pre** the model is loaded, but was never called.
[[nodiscard]] CaseReport run_case(const Case& which);

/// Why no case can run on the driver that the environment names.
struct Unusable {
  std::string why;         ///< empty: cases can run
  bool no_device = false;  ///< a good model, of a host without a device
  std::string model_said;  ///< lines of the model on standard error, such as a profile it refuses
};

/// Asks in a forked child, so that the model is as fresh for the cases as before.
/// **Pre** the model is loaded, but was never called.
[[nodiscard]] Unusable ask_driver();

/// "device/blocks, call 12 answers 2".
[[nodiscard]] std::string describe(const Case& which);

}  // namespace assay::sweep
