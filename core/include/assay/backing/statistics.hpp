// statistics: counts what passes through, without a contended counter.
#pragma once

#include <array>
#include <atomic>

#include "assay/backing/backing.hpp"

namespace assay {

/// Counts calls, blocks and bytes of its upstream.
///
/// Counters are striped over threads. A high-water mark of a striped count cannot be exact: the sum
/// of the stripes' own marks is reported, which is never below the true one. Precision::exact
/// keeps one shared count besides, at the price of contention, and its mark is exact.
///
/// **Threads** as the upstream. A snapshot is exact at rest; while calls run, each of its figures
/// lies between what was true when it started and when it ended.
class Statistics final : public Adaptor {
 public:
  enum class Precision : bool { striped, exact };

  struct Snapshot {
    std::uint64_t allocations = 0;  ///< that succeeded
    std::uint64_t frees = 0;        ///< whatever became of them
    std::uint64_t resizes = 0;      ///< that succeeded
    std::uint64_t failed_allocations = 0;
    std::uint64_t failed_resizes = 0;
    std::uint64_t failed_frees = 0;   ///< of `frees`, those whose native free failed
    std::uint64_t refused_frees = 0;  ///< calls beside `frees`, of what was no live block
    std::uint64_t pending_frees = 0;
    std::uint64_t live_blocks = 0;
    std::uint64_t live_bytes = 0;        ///< capacity
    std::uint64_t peak_live_blocks = 0;  ///< exact, or an upper bound: see `peaks_exact`
    std::uint64_t peak_live_bytes = 0;
    bool peaks_exact = false;
    std::uint64_t requested_bytes = 0;  ///< asked for by all allocations so far
    std::uint64_t granted_bytes = 0;    ///< capacity of all allocations so far
    /// Allocations by size asked for: [i] counts sizes from 2^i to 2^(i+1) - 1.
    std::array<std::uint64_t, 64> sizes{};
  };

  /// **Pre** an upstream is given.
  [[nodiscard]] static Ref<Statistics> make(Ref<Backing> upstream,
                                            Precision precision = Precision::striped);
  ~Statistics() override;

  [[nodiscard]] Snapshot snapshot() const noexcept;

 private:
  static constexpr std::size_t stripe_count = 8;
  using Counter = std::atomic<std::uint64_t>;
  struct Live {
    std::atomic<std::int64_t> now{0};  // a stripe that frees another's blocks falls below zero
    std::atomic<std::int64_t> peak{0};
    void add(std::int64_t change) noexcept;
  };
  struct alignas(64) Stripe {
    Counter allocations{0}, frees{0}, resizes{0}, failed_allocations{0}, failed_resizes{0},
        failed_frees{0}, refused_frees{0}, pending_frees{0}, requested{0}, granted{0};
    Live blocks, bytes;
    std::array<Counter, 64> sizes{};
  };

  Statistics(Ref<Backing> upstream, Precision precision) noexcept;
  Block do_allocate(const Request& request, Error& error) noexcept override;
  Freed do_deallocate(Block block, const Release& release) noexcept override;
  Block do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                  Error& error) noexcept override;

  Stripe& stripe() noexcept;
  void change_live(Stripe& mine, std::int64_t blocks, std::int64_t bytes) noexcept;

  const bool exact_;
  std::array<Stripe, stripe_count> stripes_;
  struct alignas(64) {
    Live blocks, bytes;
  } shared_;  ///< only kept if exact
};

}  // namespace assay
