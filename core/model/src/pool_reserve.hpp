// PoolReserve: the bytes that a pool holds of its device, and who may have them next.
//
//   reserved   | in use | free, left by a free in a stream (pieces) | free for anybody (fresh) |
//
// Addresses are not reused (see arena.hpp), so this is bookkeeping alone: pieces are bytes, and
// fragmentation is not modelled.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "stream_queue.hpp"

namespace assay::cuda::model {

/// Which free bytes an allocation may take, besides those that its own stream freed before.
struct ReusePolicy {
  bool event_order = true;     ///< REUSE_FOLLOW_EVENT_DEPENDENCIES
  bool opportunistic = true;   ///< REUSE_ALLOW_OPPORTUNISTIC
  bool internal_order = true;  ///< REUSE_ALLOW_INTERNAL_DEPENDENCIES
};

/// **Threads** under the lock of pool.cpp; what takes an order, under the scheduler's too.
class PoolReserve {
 public:
  static constexpr std::uint64_t step_bytes = 32ULL << 20;       ///< it grows by multiples of this
  static constexpr std::uint64_t least_step_bytes = 2ULL << 20;  ///< or this, where room is short

  struct Limits {
    std::uint64_t bytes_max = 0;
    std::function<bool(std::uint64_t bytes)> charge;  ///< takes them of the device; false: no room
  };

  /// Takes `bytes`, of what is free or by growing. May add marks that the allocation has to wait
  /// for. False, and nothing changed, beyond the limits.
  bool take(std::uint64_t bytes, const ReusePolicy& policy, const StreamOrder& order,
            const Limits& limits, std::vector<StreamMark>& after);
  /// A free at that point leaves `bytes`.
  void leave(std::uint64_t bytes, StreamPoint freed);
  /// Frees that are complete and that the host has seen leave their bytes to anybody.
  void settle(const StreamOrder& host);
  /// Gives free bytes back while at least `keep` remain reserved; returns how many.
  std::uint64_t shrink_to(std::uint64_t keep);

  /// Gives everything back, in use or not.
  std::uint64_t clear();

  [[nodiscard]] std::uint64_t reserved() const noexcept { return reserved_; }
  [[nodiscard]] std::uint64_t high() const noexcept { return high_; }
  void reset_high() noexcept { high_ = reserved_; }

 private:
  struct Piece {
    std::uint64_t bytes;
    StreamPoint freed;
  };
  bool grow(std::uint64_t missing, const Limits& limits);

  std::vector<std::uint64_t> chunks_;  ///< as they were taken, and are given back
  std::vector<Piece> pieces_;
  std::uint64_t fresh_ = 0;
  std::uint64_t reserved_ = 0;
  std::uint64_t high_ = 0;
};

}  // namespace assay::cuda::model
