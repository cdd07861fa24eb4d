// Sequences: random memory operations on slots, their contents held against a host mirror.
#pragma once

#include <cstdint>
#include <string>

namespace assay::conformance {

struct DriverChoice;

struct SequencePlan {
  std::uint64_t count = 0;
  std::uint64_t seed = 1;
  double budget_s = 60;
};

/// Runs the sequences in this process. Prints the seed and the steps of the first that fails.
/// Returns 0 all held, 1 one failed, 77 nothing could run.
int run_sequences(const SequencePlan& plan, const std::string& driver_path);

/// Runs them in a child process with a limit, so that a crash or a hang is a failure that names the
/// seed. Returns what run_sequences returns.
int start_sequences(const SequencePlan& plan, const DriverChoice& driver);

}  // namespace assay::conformance
