// ReplayPlan: a trace turned into steps that need no look-up, ready to be timed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "assay/base/result.hpp"
#include "assay/harness/trace.hpp"

namespace assay::harness {

/// An exact factor for sizes, so that no rounding error of floating point moves one.
struct Scale {
  std::uint64_t numerator = 1;
  std::uint64_t denominator = 1;

  /// Reads "1/8", "0.125" or "2"; nothing unless it is above 0, at most 1024, of at most nine
  /// digits a part.
  [[nodiscard]] static std::optional<Scale> parse(std::string_view text) noexcept;
  /// `size` times the factor, rounded down; at least 1 unless `size` is 0, at most 2^64 - 1.
  [[nodiscard]] std::uint64_t of(std::uint64_t size) const noexcept;
  [[nodiscard]] double value() const noexcept {
    return static_cast<double>(numerator) / static_cast<double>(denominator);
  }
};

/// One call to make. Sizes are scaled, ids are slots, what must not be called is gone.
struct ReplayStep {
  std::uint64_t size = 0;       ///< of the request; fill, check: of the range; trim: bytes to keep
  std::uint64_t other = 0;      ///< resize: size before; fill, check: offset
  std::uint64_t alignment = 0;  ///< of the block
  std::uint64_t stream = 0;     ///< small number by first appearance; 0 is no stream
  std::uint32_t slot = 0;
  TraceOperation operation = TraceOperation::allocate;
  Init init = Init::undefined;
};

/// A block that the trace never freed.
struct Leftover {
  std::uint64_t size = 0;
  std::uint64_t alignment = 0;
  std::uint64_t stream = 0;
  std::uint32_t slot = 0;
  Init init = Init::undefined;
};

/// What a replay needs, wherever the arrays lie.
///
/// **Invariants** thread t makes the calls `order[thread_begin[t] .. thread_begin[t + 1]]` of
/// `steps`, ascending; together the threads make every call once.
struct PlanView {
  std::span<const ReplayStep> steps;  ///< in recorded global order
  std::span<const std::uint32_t> order;
  std::span<const std::uint32_t> thread_begin;
  std::span<const Leftover> leftovers;
  std::uint32_t slots = 0;
  std::uint64_t peak_step = 0;  ///< the first step after which most bytes are live
  std::uint64_t peak_requested = 0;

  [[nodiscard]] std::uint32_t threads() const noexcept {
    return static_cast<std::uint32_t>(thread_begin.size()) - 1;
  }
};

/// What owns the arrays of a view.
struct ReplayPlan {
  std::vector<ReplayStep> steps;
  std::vector<std::uint32_t> order;
  std::vector<std::uint32_t> thread_begin;
  std::vector<Leftover> leftovers;
  std::uint32_t slots = 0;
  std::uint64_t peak_step = 0;
  std::uint64_t peak_requested = 0;

  [[nodiscard]] PlanView view() const noexcept {
    return {steps, order, thread_begin, leftovers, slots, peak_step, peak_requested};
  }
};

enum class PlanThreads : std::uint8_t { recorded, one };

/// Precomputes a replay. Left out: operations on ids that are not live, what failed when it was
/// recorded, and all that concerns blocks of 0 bytes: an empty block is no call; a resize from 0
/// is an allocation and one to 0 a free. **Pre** fewer than 2^32 events; no id is allocated while
/// it is live.
[[nodiscard]] ReplayPlan plan_replay(const Trace& trace, Scale scale, PlanThreads threads);

/// Writes the plan to an open file, for map_plan in a child. **Errors** io.
Result<void> store_plan(const PlanView& plan, int fd);
/// Maps a stored plan for as long as the process lives; nothing is allocated. **Errors** io, parse.
Result<PlanView> map_plan(int fd);

}  // namespace assay::harness
