// Pools of stream-ordered memory, and the place of their blocks in stream order.
//
// **Locks** the lock of pool.cpp is taken after the scheduler's and before that of memory.cpp.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "memory_book.hpp"
#include "pool_reserve.hpp"
#include "rules.hpp"
#include "stream_queue.hpp"

namespace assay::cuda::model {

/// **Threads** constant but for `access`, which is atomic, and what says so.
struct Pool {
  static constexpr std::size_t device_max = 8;

  MemPool handle = nullptr;
  bool is_default = false;
  AllocationType type = AllocationType::pinned;
  Location location{LocationType::device, 0};
  Kind kind = Kind::pooled;  ///< of its memory
  Device device = 0;         ///< whose capacity it takes
  std::uint64_t bytes_max = 0;
  Site created;
  std::array<std::atomic<AccessFlags>, device_max> access{};  ///< by device

  // Under the lock of pool.cpp.
  bool destroyed = false;
  Site destroyed_by;
  ReusePolicy policy;
  Site access_set;  ///< the last call that set access
  std::uint64_t release_threshold = 0;
  PoolReserve reserve;
  std::uint64_t used = 0;
  std::uint64_t used_high = 0;
  std::uint64_t blocks = 0;  ///< given out, and those whose free has not run
  std::uint64_t going = 0;   ///< of those, freed by the program
};
using PoolPointer = std::shared_ptr<Pool>;

/// The last use of a block in one stream.
struct PoolUse {
  StreamPoint at;
  Site site;
};

/// Of an allocation that a pool gave out. Under the lock of pool.cpp, but for `pool`.
struct PoolBlock {
  PoolPointer pool;
  std::uint64_t bytes = 0;  ///< of the pool's reserve
  StreamPoint allocated;
  bool freed = false;  ///< by the program; the memory goes when the free runs
  StreamPoint freed_at;
  Site freed_by;
  std::vector<PoolUse> uses;
};

// --- Pools ---

/// Null if the handle is none of a live pool.
[[nodiscard]] PoolPointer find_pool(MemPool handle) noexcept;
[[nodiscard]] PoolPointer make_pool(const MemPoolProps& properties, const Site& site);
/// Its current places go back to the default pool. False if it is a default pool, or gone.
bool destroy_pool(MemPool handle, const Site& site) noexcept;

/// Of a location and a type of memory: the default pool, made at the first use, and the current
/// one.
[[nodiscard]] PoolPointer default_pool(Location location, AllocationType type);
[[nodiscard]] PoolPointer current_pool(Location location, AllocationType type);
void set_current_pool(const PoolPointer& pool);

/// Gives free reserve back while at least `keep` bytes remain. What the host has not seen freed is
/// not free.
void trim_pool(Pool& pool, std::uint64_t keep);
/// After a synchronise: every pool gives back what exceeds its release threshold.
void release_unused_reserve() noexcept;

/// An attribute as 64 bits, also where the driver's type is int. False: unknown.
[[nodiscard]] bool get_pool_attribute(Pool& pool, MemPoolAttribute attribute, std::uint64_t& value);
[[nodiscard]] bool set_pool_attribute(Pool& pool, MemPoolAttribute attribute, std::uint64_t value);

// --- Blocks ---

/// Errors: 2; those of the stream are checked before.
Status allocate_pooled(const PoolPointer& pool, std::size_t size, const QueuePointer& queue,
                       const Site& site, AllocationRef& out);
/// In stream order. Errors: 1, freed before.
Status free_pooled(const AllocationRef& allocation, const QueuePointer& queue, const Site& site);
/// By cuMemFree, at once. Errors: 1, freed before.
Status free_pooled_now(const AllocationRef& allocation, const Site& site);

/// Memory that a pool gave out and that was freed of late: what a stale pointer still reaches.
[[nodiscard]] AllocationRef find_stale(std::uint64_t address) noexcept;

/// May the device use it so? True of memory that is no pool's.
[[nodiscard]] bool pool_permits(const Allocation& allocation, Device device, bool write) noexcept;
/// Descriptors that are checked. All at once, for the pool's memory of now and later.
void set_pool_access(Pool& pool, const AccessDesc* wanted, std::size_t count, const Site& site);
/// Which call set the access to that pool's memory; call 0: none.
[[nodiscard]] Site pool_access_set(const Allocation& allocation) noexcept;

/// An operation is being enqueued: is it in its place between the allocation and the free of the
/// blocks that it uses? Called under the scheduler's lock.
void check_pool_order(const Operation& operation, const StreamOrder& order) noexcept;

struct PoolCounts {
  std::uint64_t pools = 0;  ///< made by the program; one destroyed counts while it has blocks
  /// Freed by the program, though the free has not run.
  std::array<MemoryUse, kind_count> going{};
};
[[nodiscard]] PoolCounts pool_counts() noexcept;
/// Has the program freed it, so that it is no leak?
[[nodiscard]] bool is_going(const Allocation& allocation) noexcept;
[[nodiscard]] std::vector<std::string> live_pool_lines();

}  // namespace assay::cuda::model
