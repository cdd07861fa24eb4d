// AllocationController: who shares a block, and what happens when the last one leaves.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "assay/backing/external.hpp"
#include "assay/base/checked.hpp"
#include "assay/buffer/home.hpp"

namespace assay {

class LazyUnit;

/// One share group of a block: the owner behind `Bytes` and `UnifiedBuffer`.
///
///     root:   block |########|======|----------------|      count = handles + children
///                    handle   child  handle
///     child:  a range of its root, made when one half of a block becomes shared
///
///     origin: block of a file or device |..............|==============|......|
///     unit:   a range of it, and           its mirror: |##############|  a block of the home
///
/// A root owns a block of a source and gives it back when its last reference goes; a child owns
/// one reference to a root. A *unit* is a root whose bytes still lie in an origin, another root
/// that the host cannot reach: it owns one reference to that, and its own block, the mirror, comes
/// with the first read. The depth is two, so nothing is freed recursively.
///
/// **Invariants** a root has either only shared handles, or exclusive handles and children whose
/// ranges are pairwise disjoint. A count of one means: sole owner of this range. An origin has no
/// handles, a unit only shared ones.
/// **Threads** counting, the mark and `materialise` are safe from any thread; the rest belongs to
/// whoever holds the only reference.
class alignas(64) AllocationController {
 public:
  AllocationController(const AllocationController&) = delete;
  AllocationController& operator=(const AllocationController&) = delete;

  struct Placement {
    std::size_t size = 0;
    std::size_t alignment = 16;
    std::size_t reserve = 0;
    Init init = Init::undefined;
    bool use_slack = false;  ///< ask for all that the backing would round up to
  };

  /// A root over a new block of `home`, or null with `error` set; then nothing has changed.
  [[nodiscard]] static AllocationController* allocate(Home& home, const Placement& placement,
                                                      Error& error) noexcept;

  /// A root over a block that `source` already owns, or null with `error` set. Takes the
  /// reference over only if it succeeds.
  [[nodiscard]] static AllocationController* adopt(Ref<Source>& source, Block block,
                                                   std::size_t alignment, ExternalAccess access,
                                                   AllocationProperty property, Home& home,
                                                   Error& error) noexcept;

  /// Undoes an adoption: the node goes, the block stays with whoever handed it in. **Pre** a root
  /// whose only reference is the caller's.
  void abandon() noexcept;

  /// A child over [address, address + capacity), which takes the caller's reference to this root
  /// over; or null with `error` set, and the reference stays.
  [[nodiscard]] AllocationController* make_child(std::uint64_t address, std::size_t capacity,
                                                 Error& error) noexcept;

  /// A unit over [offset, offset + size) of an origin, which gets one more reference; its mirror
  /// will be a block of `home`. Null with `error` set: out_of_memory, not_supported for a home that
  /// the host cannot reach. Reads nothing.
  [[nodiscard]] static AllocationController* unit_of(AllocationController& origin,
                                                     std::size_t offset, std::size_t size,
                                                     std::size_t alignment, Home& home,
                                                     Error& error) noexcept;

  // --- of a unit. **Pre** is_unit()
  [[nodiscard]] bool is_unit() const noexcept { return (flags_ & unit_flag) != 0; }
  /// Reads the origin into the mirror, unless that is done. Exactly one thread reads; those that
  /// come meanwhile sleep, and share what becomes of it. **Errors** those of the home's backing and
  /// of the source; then nothing has changed and a later call tries again.
  [[nodiscard]] Result<void> materialise() noexcept;
  /// Reads a part of the origin's range straight into `to`. **Pre** inside the unit.
  [[nodiscard]] Result<void> read_origin(std::size_t offset, std::span<std::byte> to) noexcept;
  [[nodiscard]] AllocationController& origin() const noexcept;
  [[nodiscard]] std::size_t offset_in_origin() const noexcept;
  /// Changes the length and raises the mirror's alignment. **Pre** sole owner, not resident, and
  /// the range is the origin's and nobody else's to lose.
  void reshape(std::size_t size, std::size_t alignment) noexcept;
  /// Makes the mirror an ordinary block and lets the origin go. **Pre** sole owner, resident.
  void own_mirror() noexcept;

  /// Is there a block that the host can look at?
  [[nodiscard]] bool is_resident() const noexcept { return address() != 0; }

  void retain() noexcept {
    const auto before = count_.fetch_add(1, std::memory_order_relaxed);
    ASSAY_CONTRACT(before < count_max, "too many handles of one block");
  }
  /// Drops one reference; the last one wipes what was written and releases the block.
  void release() noexcept {
    // A sole owner needs no atomic subtraction: nobody else could add a reference now.
    if (count_.load(std::memory_order_acquire) == 1 ||
        count_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      destroy();
    }
  }
  [[nodiscard]] bool unique() const noexcept { return count_.load(std::memory_order_acquire) == 1; }

  [[nodiscard]] bool is_child() const noexcept { return (flags_ & child_flag) != 0; }
  [[nodiscard]] bool immutable() const noexcept { return (flags_ & immutable_flag) != 0; }
  /// A whole block that its last handle may write: neither child nor unit, and not immutable.
  [[nodiscard]] bool plain() const noexcept {
    return (flags_ & (child_flag | immutable_flag | unit_flag)) == 0;
  }
  [[nodiscard]] bool wipes() const noexcept { return (flags_ & wipe_flag) != 0; }
  /// The block came with its source, not from the home's backing.
  [[nodiscard]] bool foreign() const noexcept { return (flags_ & foreign_flag) != 0; }
  [[nodiscard]] AllocationController& root() noexcept { return is_child() ? *parent_ : *this; }
  [[nodiscard]] const AllocationController& root() const noexcept {
    return is_child() ? *parent_ : *this;
  }

  /// Frees the child's node and hands its reference to the root to the caller. **Pre** a child
  /// whose only reference is the caller's.
  AllocationController* dissolve() noexcept;

  /// Where the range begins; 0 for a unit that is not resident.
  [[nodiscard]] std::uint64_t address() const noexcept {
    return address_.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  /// End of the usable range: what was asked for, without what the backing rounded up.
  [[nodiscard]] std::uint64_t end() const noexcept {
    return address() + (is_child() ? capacity_ : requested_);
  }

  // Facts of the root; also right when asked of a child.
  [[nodiscard]] Home& home() const noexcept { return *root().home_; }
  /// Where the bytes are now: the origin's source until a unit is resident.
  [[nodiscard]] Source& source() const noexcept;
  [[nodiscard]] Block block() const noexcept { return {root().address(), root().capacity_}; }
  [[nodiscard]] AllocationProperty property() const noexcept;
  /// Bytes of memory that this root keeps: its block, and an origin's on a device.
  [[nodiscard]] std::size_t retained_bytes() const noexcept;
  [[nodiscard]] std::size_t alignment() const noexcept {
    return std::size_t{1} << root().alignment_log2_;
  }
  /// Alignment that `address` has for sure: the block's own and what the offset leaves of it.
  [[nodiscard]] std::size_t alignment_at(std::uint64_t address) const noexcept;
  /// Alignment of the blocks that forks and clones of this one get.
  [[nodiscard]] std::size_t fork_alignment() const noexcept {
    return root().foreign() ? root().home_->alignment() : alignment();
  }

  /// Notes that bytes up to `address` were written, so that the wipe reaches them.
  void written_up_to(std::uint64_t address) noexcept {
    if (wipes()) root().raise_mark(address);
  }
  /// As written_up_to, wiped or not: growth that zeroes asks for the mark too. **Pre** a root.
  void raise_mark(std::uint64_t address) noexcept;
  /// Offset below which bytes may have been written. **Pre** a root.
  [[nodiscard]] std::size_t mark() const noexcept { return mark_.load(std::memory_order_relaxed); }

  /// Bytes below this were asked of the backing; those above belong to it, or are not there yet.
  [[nodiscard]] std::size_t requested() const noexcept { return requested_; }
  [[nodiscard]] std::size_t reserve() const noexcept {
    return (flags_ & (child_flag | unit_flag)) != 0 ? 0 : reserve_;
  }
  /// Grows the block, without moving it if so asked. **Pre** a root whose only user is the caller.
  /// False with `error` set if the backing cannot; then nothing has changed.
  bool grow(std::size_t size, Init init, MayMove may_move, Error& error) noexcept;

 private:
  static constexpr std::uint32_t count_max = std::uint32_t{1} << 31;
  static constexpr std::uint8_t child_flag = 1;
  static constexpr std::uint8_t immutable_flag = 2;
  static constexpr std::uint8_t wipe_flag = 4;
  static constexpr std::uint8_t foreign_flag = 8;
  static constexpr std::uint8_t asked_zero_flag = 16;
  static constexpr std::uint8_t born_zero_flag = 32;  ///< zero whole, slack included
  static constexpr std::uint8_t unit_flag = 64;

  AllocationController(std::uint8_t flags, std::size_t alignment, AllocationProperty property,
                       Block block, Home* home, Source* source) noexcept;
  ~AllocationController() = default;
  static void* node() noexcept;
  void free_node() noexcept;
  void destroy() noexcept;
  void release_block(Block block, Release& release, std::size_t written) noexcept;
  [[nodiscard]] static AllocationProperty property_of(const Source& source) noexcept;
  [[nodiscard]] Request request() const noexcept;

  std::atomic<std::uint32_t> count_{1};
  std::uint8_t flags_;
  std::uint8_t alignment_log2_;
  AllocationProperty property_;
  union {
    AllocationController* parent_;  // of a child: a counted reference to the root
    std::size_t reserve_;           // of a root
    LazyUnit* unit_;                // of a unit: owned
  };
  std::atomic<std::uint64_t> address_;
  std::size_t capacity_;
  Home* home_;      // of a root: counted
  Source* source_;  // of a root: counted if foreign, else the home's backing; never changes
  std::atomic<std::size_t> mark_{0};
  std::size_t requested_ = 0;
};
static_assert(sizeof(AllocationController) == node_pool::small_node);

/// What went wrong where no caller was left to tell. Process-wide, never reset.
struct ReleaseIncidents {
  std::uint64_t failed_wipes = 0;
  std::uint64_t failed_frees = 0;
};
[[nodiscard]] ReleaseIncidents release_incidents() noexcept;

}  // namespace assay
