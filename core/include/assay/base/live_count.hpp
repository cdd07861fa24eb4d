// LiveCount: how many blocks and bytes are out, without a contended counter.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace assay {

/// Striped counter of live blocks and bytes.
///
/// **Threads** add and remove from any thread; a total read while others run is approximate, read
/// at rest it is exact. **Cost** two relaxed atomic additions on the thread's own line.
class LiveCount {
 public:
  struct Total {
    std::uint64_t blocks;
    std::uint64_t bytes;
  };

  void add(std::size_t bytes) noexcept {
    Stripe& mine = stripe();
    mine.blocks.fetch_add(1, std::memory_order_relaxed);
    mine.bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
  void remove(std::size_t bytes) noexcept {
    Stripe& mine = stripe();
    mine.blocks.fetch_sub(1, std::memory_order_relaxed);
    mine.bytes.fetch_sub(bytes, std::memory_order_relaxed);
  }
  void resize(std::size_t from, std::size_t to) noexcept {
    stripe().bytes.fetch_add(to - from, std::memory_order_relaxed);
  }
  [[nodiscard]] Total total() const noexcept {
    Total sum{0, 0};  // single stripes may be "negative": unsigned wrap-around cancels out
    for (const Stripe& one : stripes_) {
      sum.blocks += one.blocks.load(std::memory_order_relaxed);
      sum.bytes += one.bytes.load(std::memory_order_relaxed);
    }
    return sum;
  }

 private:
  static constexpr std::size_t stripe_count = 8;
  struct alignas(64) Stripe {
    std::atomic<std::uint64_t> blocks{0};
    std::atomic<std::uint64_t> bytes{0};
  };
  static inline std::atomic<std::uint32_t> next_thread{0};

  Stripe& stripe() noexcept {
    thread_local const std::uint32_t mine = next_thread.fetch_add(1, std::memory_order_relaxed);
    return stripes_[mine % stripe_count];
  }

  std::array<Stripe, stripe_count> stripes_;
};

}  // namespace assay
