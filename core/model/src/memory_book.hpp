// The book of live memory, as the exports change it.
#pragma once

#include "memory.hpp"
#include "rules.hpp"

namespace assay::cuda::model {

/// Gives out memory. `out` is set on success only. Errors: 2 beyond the capacity, or where the
/// system has no more.
Status allocate(Kind kind, std::size_t size, unsigned flags, ContextRecord& context,
                const Site& site, AllocationRef& out) noexcept;

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
