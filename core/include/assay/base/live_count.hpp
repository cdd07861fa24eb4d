// LiveCount: how many blocks and bytes are out, without a contended counter.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace assay {

/// Striped counter of live blocks and bytes.
///
/// The first threads of a process have a stripe each, which they alone write; all later ones share
/// the last. **Threads** add and remove from any thread; a total read while others run is
/// approximate, read at rest it is exact. **Cost** two plain additions on the thread's own line;
/// two atomic ones on the shared line.
class LiveCount {
 public:
  struct Total {
    std::uint64_t blocks;
    std::uint64_t bytes;
  };

  void add(std::size_t bytes) noexcept { change(1, bytes); }
  void remove(std::size_t bytes) noexcept { change(~std::uint64_t{0}, ~std::uint64_t{bytes} + 1); }
  void resize(std::size_t from, std::size_t to) noexcept {
    change(0, std::uint64_t{to} - std::uint64_t{from});
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
  static constexpr std::uint32_t stripe_count = 8;
  static constexpr std::uint32_t shared_stripe = stripe_count - 1;
  struct alignas(64) Stripe {
    std::atomic<std::uint64_t> blocks{0};
    std::atomic<std::uint64_t> bytes{0};
  };
  static inline constinit std::atomic<std::uint32_t> threads_{0};
  static inline constinit thread_local std::uint32_t stripe_of_thread_ = stripe_count;  // none yet

  static std::uint32_t claim_stripe() noexcept {
    const std::uint32_t number = threads_.fetch_add(1, std::memory_order_relaxed);
    stripe_of_thread_ = number < shared_stripe ? number : shared_stripe;
    return stripe_of_thread_;
  }

  void change(std::uint64_t blocks, std::uint64_t bytes) noexcept {
    std::uint32_t mine = stripe_of_thread_;
    if (mine == stripe_count) [[unlikely]]
      mine = claim_stripe();
    Stripe& stripe = stripes_[mine];
    if (mine == shared_stripe) {
      stripe.blocks.fetch_add(blocks, std::memory_order_relaxed);
      stripe.bytes.fetch_add(bytes, std::memory_order_relaxed);
    } else {  // nobody else writes here
      constexpr auto relaxed = std::memory_order_relaxed;
      stripe.blocks.store(stripe.blocks.load(relaxed) + blocks, relaxed);
      stripe.bytes.store(stripe.bytes.load(relaxed) + bytes, relaxed);
    }
  }

  std::array<Stripe, stripe_count> stripes_;
};

}  // namespace assay
