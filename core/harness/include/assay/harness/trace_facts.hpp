// TraceFacts: what a trace holds, counted before anything is replayed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "assay/harness/trace.hpp"

namespace assay::harness {

/// Live bytes after one event.
struct TimelinePoint {
  std::uint64_t event = 0;  ///< position in the trace, from 0
  std::uint64_t live_bytes = 0;
};

/// Counts of one trace. Only what succeeded when it was recorded changes what is live. Sums that
/// pass 2^64 - 1 stay there.
struct TraceFacts {
  std::uint64_t rows = 0;
  std::uint64_t allocations = 0;  ///< that succeeded, those of 0 bytes included
  std::uint64_t frees = 0;        ///< every free, unknown ones included
  std::uint64_t resizes = 0;
  std::uint64_t unknown_frees = 0;   ///< of ids that are not live
  std::uint64_t unknown_others = 0;  ///< resizes, fills and checks of ids that are not live
  std::uint64_t zero_size = 0;       ///< allocations of, and resizes to, 0 bytes
  std::uint64_t failed = 0;          ///< allocations (and resizes) that failed when recorded
  std::uint64_t live_at_end = 0;     ///< blocks, those of 0 bytes included
  std::uint64_t live_bytes_at_end = 0;
  std::uint64_t peak_live_bytes = 0;
  std::uint64_t peak_event = 0;  ///< the first event after which the peak is live
  std::uint32_t threads = 0;     ///< distinct ones
  std::uint32_t streams = 0;
  std::optional<std::uint64_t> first_unknown;   ///< event: an operation on an id that is not live
  std::optional<std::uint64_t> first_leftover;  ///< event: the first allocation never freed
};

[[nodiscard]] TraceFacts facts_of(const Trace& trace);

/// Live bytes over the trace in at most `points_max` points, the peak and the last among them.
/// **Pre** points_max >= 4.
[[nodiscard]] std::vector<TimelinePoint> timeline_of(const Trace& trace, std::size_t points_max);

}  // namespace assay::harness
