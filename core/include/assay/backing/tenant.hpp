// Tenant: one account of memory, with a limit that is never passed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "assay/base/checked.hpp"
#include "assay/base/ref.hpp"

namespace assay {

/// Who memory is charged to. Only a Quota charges and credits: nobody can give back what it did
/// not take.
///
///     limit = 100        charged = 70             room = 30
///     | live 50 | pending 8 | quarantined 12 | ............ |
///
/// **Invariants** charged never exceeds the limit that stood when it was raised, and what fits is
/// never refused: `room` is one atomic number that admission lowers by compare-exchange and
/// set_limit shifts, so no charge is admitted by a limit that is no longer true.
/// **Threads** safe from any thread.
class Tenant final : public Counted {
 public:
  /// The limit of a tenant that has none: no sum of blocks reaches it.
  static constexpr std::uint64_t unlimited = size_max;

  struct Account {
    std::uint64_t limit = 0;
    std::uint64_t charged = 0;      ///< bytes counted against the limit, the two below included
    std::uint64_t pending = 0;      ///< given back, held until device work is done
    std::uint64_t quarantined = 0;  ///< given back, but the native free failed: lost
    std::uint64_t peak = 0;         ///< largest `charged` so far
  };

  [[nodiscard]] static Ref<Tenant> make(std::uint64_t limit = unlimited);

  /// The figures, each exact; taken together they are consistent while nothing runs.
  [[nodiscard]] Account account() const noexcept;

  /// Changes the limit at once; one above `unlimited` is `unlimited`. Lowered below what is
  /// charged, it refuses new charges and takes nothing back.
  void set_limit(std::uint64_t limit) noexcept;

  /// Takes bytes out of quarantine and credits them, once somebody has really got them back.
  /// **Pre** at most `account().quarantined`.
  void reclaim(std::uint64_t bytes) noexcept;

 private:
  friend class Quota;

  explicit Tenant(std::uint64_t limit) noexcept;
  /// Takes room for `bytes`; false and no change if there is too little.
  [[nodiscard]] bool charge(std::uint64_t bytes) noexcept;
  /// For bytes that an upstream granted past its own footprint and that cannot be given back.
  void charge_beyond_limit(std::uint64_t bytes) noexcept;
  void credit(std::uint64_t bytes) noexcept;
  void hold_pending(std::uint64_t bytes) noexcept;
  void complete_pending(std::uint64_t bytes) noexcept;
  void quarantine(std::uint64_t bytes) noexcept;
  void record(std::uint64_t bytes) noexcept;
  [[nodiscard]] std::uint64_t room() const noexcept;

  std::atomic<std::int64_t> room_;  ///< limit - charged; below zero after the limit was lowered
  std::atomic<std::uint64_t> limit_;
  std::atomic<std::uint64_t> charged_{0};  ///< raised after room_ fell, lowered before it rises
  std::atomic<std::uint64_t> pending_{0};
  std::atomic<std::uint64_t> quarantined_{0};
  std::atomic<std::uint64_t> peak_{0};
};

}  // namespace assay
