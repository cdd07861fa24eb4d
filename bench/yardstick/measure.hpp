// Measuring a row: operation and yardstick in turns, in windows of a fraction of a millisecond.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "row.hpp"
#include "statistics.hpp"

namespace assay::yardstick {

struct Settings {
  std::size_t windows = 101;
  std::chrono::nanoseconds window{300'000};
  /// Rows whose windows cannot be that short take fewer of them, to stay below this.
  std::chrono::nanoseconds row_time{3'000'000'000};
  unsigned tries = 4;  ///< a disturbed row is measured again, so often at most
  bool smoke = false;  ///< verify and count; the times mean nothing
};

/// What the operation's windows cost besides time, for one operation.
struct Counters {
  double operations = 0;  ///< how many were counted
  double copied = 0;      ///< payload bytes
  double page_faults = 0;
  double cpu_ns = 0;  ///< of the measuring thread, with what is prepared and undone
};

/// What became of a row: an error, a reason to skip it, or figures.
struct Outcome {
  std::string error;
  std::string skipped;
  Comparison comparison;
  Counters counters;
  Verdict verdict = Verdict::checked;
  std::size_t windows = 0;
  unsigned tries = 0;

  [[nodiscard]] bool measured() const noexcept { return error.empty() && skipped.empty(); }
};

/// Prepares, verifies, measures and judges one row. A failing operation, a wrong answer or a
/// violated counter is an error, whatever the times were. **Pre** the caller is pinned; `cpus` is
/// how many a row can have.
[[nodiscard]] Outcome run_row(const Row& row, const Settings& settings, std::size_t cpus);

}  // namespace assay::yardstick
