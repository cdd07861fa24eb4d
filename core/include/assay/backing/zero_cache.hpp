// zero_cache: keeps freed blocks for the next request, and knows which of them read zero.
#pragma once

#include <array>
#include <mutex>

#include "assay/backing/backing.hpp"
#include "assay/base/fork_safe_mutex.hpp"

namespace assay {

namespace detail {
struct CachedBlock;

/// Records of blocks by the address of the block: a hash table that grows while memory is there.
class BlockTable {
 public:
  BlockTable() = default;
  ~BlockTable();
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  void insert(CachedBlock* record) noexcept;  ///< **Pre** no other record has its address
  void erase(CachedBlock* record) noexcept;   ///< **Pre** it was inserted
  [[nodiscard]] CachedBlock* find(std::uint64_t address) const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint64_t capacities() const noexcept;  ///< of all of them, added up

 private:
  static constexpr std::size_t first_buckets = 64;
  [[nodiscard]] CachedBlock** bucket_of(std::uint64_t address) const noexcept;
  void grow() noexcept;

  std::array<CachedBlock*, first_buckets> first_{};
  CachedBlock** buckets_ = first_.data();
  std::size_t bucket_count_ = first_buckets;  ///< a power of two
  std::size_t size_ = 0;
};
}  // namespace detail

/// A bounded cache of freed blocks, of those that are known to read zero and of the others.
///
///     below `block_min` (64 KiB), above 16 MiB,
///     with a reserve,
///     or with a stream on a device's memory    straight to the upstream
///     else                                     a cached block of the size's class, or a new one
///
/// malloc is fast for the small ones; above 16 MiB the system's huge pages are, and a block held
/// back would weigh too much. Classes lie an eighth of a power of two apart, so what is held for a
/// block is at most 1.125 times its request; the capacity handed out is what the upstream would
/// give for the request alone. When a refusal stands even with an empty cache, the exact size is
/// asked for.
///
/// **Zero** Init::zero takes a block that reads zero, else zeroes another one by hand up to 1 MiB,
/// else asks the upstream: zeroing costs a pass over all of it, a fresh block one fault for each
/// page that its holder touches. Init::undefined takes the others first, so that those that read
/// zero are there for who needs them. A block reads zero when it was freed with `known_zero`;
/// nobody else keeps that state.
///
/// The block freed last is used first, the oldest goes back first when the bound is met. All of
/// them go back, and the request is tried again, when the upstream refuses.
///
/// **Invariants** no bookkeeping lies in a payload. No lock is held while the upstream runs.
/// **Threads** as the upstream; one lock guards the cache. A child of fork may go on using it.
class ZeroCache final : public Adaptor {
 public:
  static constexpr std::size_t class_min = 256;                    ///< smallest class there is
  static constexpr std::size_t block_max = std::size_t{16} << 20;  ///< largest request it keeps
  static constexpr std::size_t zeroed_by_hand_max = std::size_t{1} << 20;

  struct Options {
    std::size_t cached_max = std::size_t{64} << 20;  ///< bytes of free blocks to keep
    std::size_t block_min = std::size_t{64}
                            << 10;  ///< smallest request it keeps: class_min or more
  };

  /// What the cache did, beyond `usage()`.
  struct Figures {
    std::uint64_t cached_blocks = 0;
    std::uint64_t cached_bytes = 0;
    std::uint64_t cached_zero_bytes = 0;  ///< of which are known to read zero
    std::uint64_t hits = 0;               ///< requests served by a cached block
    std::uint64_t zero_hits = 0;          ///< of which asked for zero and cost no pass
    std::uint64_t misses = 0;             ///< requests of a size that it keeps, from the upstream
    std::uint64_t zeroed_bytes = 0;       ///< written to serve Init::zero from another block
    std::uint64_t failed_frees = 0;       ///< of blocks that it gave back
    std::uint64_t refused_frees = 0;      ///< frees of what is not a live block: nothing was done
  };

  /// **Pre** an upstream is given.
  [[nodiscard]] static Ref<ZeroCache> make(Ref<Backing> upstream);
  [[nodiscard]] static Ref<ZeroCache> make(Ref<Backing> upstream, const Options& options);
  ~ZeroCache() override;

  [[nodiscard]] Figures figures() const noexcept;

 private:
  using Record = detail::CachedBlock;
  using Lock = std::unique_lock<ForkSafeMutex>;
  static constexpr std::size_t class_count = 129;
  enum Kind : std::uint8_t { other, reads_zero, kinds };

  ZeroCache(Ref<Backing> upstream, const Options& options) noexcept;
  Block do_allocate(const Request& request, Error& error) noexcept override;
  Freed do_deallocate(Block block, const Release& release) noexcept override;
  [[nodiscard]] std::size_t do_footprint(const Request& request) const noexcept override;
  [[nodiscard]] std::size_t do_charge(const Request& request) const noexcept override;
  [[nodiscard]] std::size_t do_held_by(Block block) const noexcept override;
  [[nodiscard]] Usage do_usage() const noexcept override;
  Block do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                  Error& error) noexcept override;
  Result<std::size_t> do_trim(std::size_t keep_bytes) noexcept override;

  static SourceInfo cache_info(const Backing& upstream) noexcept;
  [[nodiscard]] bool keeps(const Request& request) const noexcept;
  [[nodiscard]] Request of_class(const Request& request) const noexcept;

  // All of these want the lock.
  Record* take(const Request& request, std::size_t class_index, std::size_t capacity) noexcept;
  void admit(Record* record, std::size_t capacity) noexcept;
  void dismiss(Record* record) noexcept;
  void put(Record* record) noexcept;
  void unlink(Record* record) noexcept;
  Record* unlink_oldest(std::size_t keep_bytes) noexcept;

  // These take it, and none may be held.
  Block allocate_below(const Request& request, Error& error) noexcept;
  Block allocate_new(const Request& request, std::size_t capacity, Error& error) noexcept;
  Block resize_below(Block block, const Request& from, const Request& to, MayMove may_move,
                     Error& error) noexcept;
  Freed give_back(Record* record) noexcept;
  std::size_t give_back_all(std::size_t keep_bytes) noexcept;
  bool zero_range(Block block, std::size_t from, std::size_t to, Error& error) noexcept;
  Block resize_into_class(Block block, const Request& from, const Request& to, MayMove may_move,
                          Error& error) noexcept;
  Block resize_inside(Record* record, Lock& lock, const Request& from, const Request& to,
                      Error& error) noexcept;
  Block resize_record(Record* record, Lock& lock, const Request& from, const Request& to,
                      MayMove may_move, Error& error) noexcept;

  const Options options_;
  mutable ForkSafeMutex mutex_;
  detail::BlockTable table_;
  std::array<std::array<Record*, kinds>, class_count> free_{};  ///< freed last, first
  Record* oldest_ = nullptr;
  Record* newest_ = nullptr;
  std::uint64_t slack_bytes_ = 0;  ///< of live blocks, beyond the capacities handed out
  Figures figures_;
};

}  // namespace assay
