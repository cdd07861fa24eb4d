// slab_pool: carves blocks out of larger ones, and uses freed ones again at once.
#pragma once

#include <array>
#include <mutex>

#include "assay/backing/backing.hpp"
#include "assay/base/fork_safe_mutex.hpp"

namespace assay {

namespace detail {
struct SlabChunk;

/// The pool's chunks by address: a sorted array, so that any address finds the chunk it lies in.
class SlabTable {
 public:
  SlabTable() = default;
  ~SlabTable();
  SlabTable(const SlabTable&) = delete;
  SlabTable& operator=(const SlabTable&) = delete;

  /// Makes room for one more chunk for as long as it is not dismissed; false if out of memory.
  [[nodiscard]] bool admit() noexcept;
  void dismiss() noexcept { --admitted_; }
  void insert(SlabChunk* chunk) noexcept;  ///< **Pre** it was admitted
  void erase(SlabChunk* chunk) noexcept;
  [[nodiscard]] SlabChunk* find(std::uint64_t address) const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] SlabChunk* at(std::size_t index) const noexcept { return chunks_[index]; }

 private:
  [[nodiscard]] std::size_t first_above(std::uint64_t address) const noexcept;

  SlabChunk** chunks_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
  std::size_t admitted_ = 0;
};
}  // namespace detail

/// Pool over any upstream.
///
///     up to 32 KiB     a chunk of 128 KiB, cut into slots of one size class
///     up to 1 MiB      a chunk of one slot of the class
///     larger, or aligned above a page,
///     or with a stream on a device's memory: straight to the upstream, with its exact size
///
/// Classes lie an eighth of a power of two apart, so a slot is at most 1.125 times its request (a
/// request aligned to more than that step takes the next class that is a multiple of it). Within a
/// class the slot freed last is used first. Chunks that are free as a whole are cached up to a
/// bound, are cut again for other classes, and go back on `trim` and when the upstream refuses.
/// Where not even that makes room for a chunk, the exact size is asked for.
///
/// Zero: what is known to read zero (fresh from an upstream with `zeroed_fresh`, or freed with
/// `known_zero`) is never zeroed again; Init::undefined zeroes nothing.
///
/// **Invariants** no bookkeeping lies in a payload. No lock is held while the upstream runs.
/// **Threads** as the upstream; one lock guards the pool. A child of fork may go on using it.
class SlabPool final : public Adaptor {
 public:
  struct Options {
    std::size_t cached_max = std::size_t{64} << 20;  ///< bytes of wholly free chunks to keep
  };

  /// What the pool did, beyond `usage()`.
  struct Figures {
    std::uint64_t chunks = 0;                ///< held from the upstream, direct blocks included
    std::uint64_t cached_bytes = 0;          ///< in chunks without a live block
    std::uint64_t upstream_allocations = 0;  ///< calls, refused ones included
    std::uint64_t upstream_frees = 0;
    std::uint64_t failed_frees = 0;   ///< of which the upstream's free failed
    std::uint64_t failed_bytes = 0;   ///< lost by them; `reserved_bytes` still counts them
    std::uint64_t refused_frees = 0;  ///< frees of what is not a live block: nothing was done
    std::uint64_t zeroed_bytes = 0;   ///< written to serve Init::zero at allocation
  };

  /// **Pre** an upstream is given.
  [[nodiscard]] static Ref<SlabPool> make(Ref<Backing> upstream);
  [[nodiscard]] static Ref<SlabPool> make(Ref<Backing> upstream, const Options& options);
  ~SlabPool() override;

  [[nodiscard]] Figures figures() const noexcept;

 private:
  static constexpr std::size_t class_count = 112;
  struct Slot {
    detail::SlabChunk* chunk = nullptr;
    std::uint64_t address = 0;
    std::size_t size = 0;
    bool zero = false;  ///< the whole slot reads zero
  };

  SlabPool(Ref<Backing> upstream, const Options& options) noexcept;
  Block do_allocate(const Request& request, Error& error) noexcept override;
  Freed do_deallocate(Block block, const Release& release) noexcept override;
  [[nodiscard]] std::size_t do_footprint(const Request& request) const noexcept override;
  [[nodiscard]] std::size_t do_charge(const Request& request) const noexcept override;
  [[nodiscard]] std::size_t do_held_by(Block block) const noexcept override;
  [[nodiscard]] Usage do_usage() const noexcept override;
  Block do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                  Error& error) noexcept override;
  Result<std::size_t> do_trim(std::size_t keep_bytes) noexcept override;

  static SourceInfo pool_info(const Backing& upstream) noexcept;
  [[nodiscard]] bool is_direct(const Request& request) const noexcept;

  // All of these want the lock.
  Slot take(std::size_t class_index, bool zero) noexcept;
  Slot take_from(detail::SlabChunk* chunk, bool zero) noexcept;
  detail::SlabChunk* recut(std::size_t class_index) noexcept;
  void put_back(detail::SlabChunk* chunk, std::uint64_t address, bool known_zero) noexcept;
  void list(detail::SlabChunk* chunk) noexcept;
  void unlist(detail::SlabChunk* chunk) noexcept;
  detail::SlabChunk* unlink_free_chunks(std::size_t keep_bytes) noexcept;
  void forget(detail::SlabChunk* chunk) noexcept;

  // These take it, and none may be held; a Lock passed in is not locked.
  using Lock = std::unique_lock<ForkSafeMutex>;
  Slot grow(std::size_t class_index, const Request& request, Error& error) noexcept;
  bool obtain(detail::SlabChunk* chunk, Lock& lock, Error& error) noexcept;
  bool obtain_or_trim(detail::SlabChunk* chunk, Lock& lock, Error& error) noexcept;
  Freed give_back(detail::SlabChunk* chunk, bool known_zero) noexcept;
  std::size_t give_back_all(detail::SlabChunk* first) noexcept;
  Block allocate_direct(const Request& request, const Request& passed_on, Error& error) noexcept;
  bool zero_slot(const Slot& slot, Error& error) noexcept;
  void describe_refusal(const Request& request, Error& error) const noexcept;
  Block resize_direct(detail::SlabChunk* chunk, Block block, const Request& from, const Request& to,
                      MayMove may_move, Error& error) noexcept;
  Block resize_by_moving(Block block, const Request& from, const Request& to,
                         Error& error) noexcept;
  bool zero_range(Block block, std::size_t from, std::size_t to, Error& error) noexcept;

  const Options options_;
  const std::size_t page_;
  mutable ForkSafeMutex mutex_;
  detail::SlabTable table_;
  std::array<detail::SlabChunk*, class_count> with_room_{};  ///< freed into last, first
  std::uint64_t live_blocks_ = 0;
  std::uint64_t live_bytes_ = 0;
  std::uint64_t reserved_bytes_ = 0;
  Figures figures_;
};

}  // namespace assay
