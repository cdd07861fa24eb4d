// Replays a plan on a backing and measures it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "assay/backing/backing.hpp"
#include "assay/harness/replay_plan.hpp"

namespace assay::harness {

/// Which bytes a replay writes after each allocation and growth.
enum class Touch : std::uint8_t { none, first, all };  // all: one byte a page

struct ReplayOptions {
  Touch touch = Touch::first;
  std::uint32_t repeat = 3;
  /// Whose figures tell what is granted and reserved at the peak.
  enum class Figures : std::uint8_t {
    usage,          ///< the backing's own
    malloc_family,  ///< malloc_usable_size, and the growth of the process's writable mappings
    process,        ///< that growth only: what is granted cannot be known
  } figures = Figures::usage;
};

/// Latency of one operation's calls over all timed repetitions, in nanoseconds.
struct CallTimes {
  std::uint64_t count = 0;  ///< calls of one repetition
  double p50_ns = 0;
  double p99_ns = 0;
  double p999_ns = 0;
  double max_ns = 0;
  bool below_timer = false;  ///< p50 is less than three times what the clock itself costs
};

struct ReplayPeak {
  std::uint64_t requested_bytes = 0;
  std::optional<std::uint64_t> granted_bytes;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t resident_bytes = 0;
};

/// What one subject did. Unless `problem` is empty no time in it may be reported.
struct ReplayRun {
  std::string problem;
  std::vector<double> times_s{};  ///< one a repetition, without the clock between calls
  CallTimes allocate{};
  CallTimes deallocate{};
  CallTimes resize{};
  ReplayPeak peak{};
  std::uint64_t failed_allocations = 0;  ///< over all repetitions
  double timer_cost_ns = 0;
};

/// Replays `plan` on `backing`: once to verify (alignment, capacity, touched bytes, nothing live
/// at the end) and to read the footprint at the peak, `repeat` times as a whole, `repeat` times
/// with a clock around every call. Calls are made in recorded global order by as many threads as
/// the plan has: each waits for its turn, so a thread frees what another allocated but two never
/// call at once. Leftovers are freed after each repetition, outside its time. The latency of a
/// call excludes the touching of its bytes; a repetition's time includes it.
/// **Pre** the backing has no live block. The caller does nothing else in this process meanwhile.
[[nodiscard]] ReplayRun replay(const PlanView& plan, Backing& backing,
                               const ReplayOptions& options);

}  // namespace assay::harness
