// The book of live memory, as the exports change it.
#pragma once

#include "memory.hpp"
#include "rules.hpp"

namespace assay::cuda::model {

/// Gives out memory. `out` is set on success only. Errors: 2 beyond the capacity, or where the
/// system has no more.
Status allocate(Kind kind, std::size_t size, unsigned flags, ContextRecord& context,
                const Site& site, AllocationRef& out) noexcept;

/// The same for memory that does not end with a context and whose bytes somebody else charges: a
/// pool for what it holds. Pre: kind is managed, pinned or pooled.
Status allocate_uncharged(Kind kind, std::size_t size, unsigned flags, Device device,
                          const Site& site, AllocationRef& out,
                          std::shared_ptr<PoolBlock> pooled = nullptr) noexcept;

/// Enters an allocation made elsewhere, without a block of the arena: gives it its id.
void enter_allocation(const AllocationRef& allocation, const Site& site);

/// An id for memory that is no allocation, from the same numbers as BUFFER_ID.
[[nodiscard]] std::uint64_t new_memory_id() noexcept;

/// Writes a pattern in which no byte is zero, so that nobody takes fresh memory for zeroed. Large
/// memory is filled at both ends only: touching every page would be the cost of a large allocation.
void fill_fresh(std::byte* alias, std::size_t size, std::uint64_t id) noexcept;

/// What was freed there is of no account any more: the addresses begin anew.
void forget_history(Range range) noexcept;

/// Takes that very allocation out, as take_out() does. False if it was gone before.
bool take_out(const AllocationRef& allocation, const Site& site) noexcept;

/// Bytes of device memory that are no allocation's: a pool's reserve, physical memory of a handle.
/// False beyond the capacity.
[[nodiscard]] bool charge_device(Device device, std::uint64_t bytes) noexcept;
void credit_device(Device device, std::uint64_t bytes) noexcept;

/// Enters registered host memory. Errors: 712 for an overlap, 2.
Status register_host(Range range, unsigned flags, ContextRecord& context,
                     const Site& site) noexcept;

/// Takes the allocation that begins at `address` and is of one of the kinds out of the book; its
/// view closes. Null if there is none.
AllocationRef take_out(std::uint64_t address, std::initializer_list<Kind> kinds,
                       const Site& site) noexcept;

/// Live memory of any kind, registered memory included, that shares a byte with the range.
[[nodiscard]] AllocationRef first_overlap(Range range) noexcept;

struct MemoryUse {
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
};
[[nodiscard]] MemoryUse memory_use(Kind kind) noexcept;
[[nodiscard]] std::vector<AllocationRef> live_allocations();

/// Bytes that a device may hold: the profile's, or what the control table has set (0: the
/// profile's).
[[nodiscard]] std::uint64_t capacity_bytes() noexcept;
void set_capacity_bytes(std::uint64_t bytes) noexcept;
/// The same for pinned memory.
void set_host_capacity_bytes(std::uint64_t bytes) noexcept;
[[nodiscard]] std::uint64_t device_bytes_in_use(Device device) noexcept;

}  // namespace assay::cuda::model
