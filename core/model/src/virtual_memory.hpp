// Virtual memory management: reservations of addresses, physical memory, mappings of one to other.
//
//   program's addresses   |       reservation, PROT_NONE        |
//   alias, for the model  | mapping | mapping |    PROT_NONE    |   windows of one memory file
//   memory file           ... | physical | ... | physical | ...     a physical may be mapped twice
//
// The aliases of adjacent mappings are adjacent, so that one copy may run over them. What is
// unmapped stays in the alias until something else is mapped there or the reservation ends: work
// that runs at that moment in another thread finds its bytes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "memory_book.hpp"
#include "stream_access.hpp"

namespace assay::cuda::model {

/// Memory of cuMemCreate. It is in use until the last handle and the last mapping are gone; its
/// pages go back to the system with the last pointer.
///
/// **Threads** the counts and `retained` under the lock of virtual_memory.cpp; the rest is
/// constant.
struct Physical {
  AllocationHandle handle = 0;  ///< never reused
  std::size_t size = 0;
  AllocationProp properties{};
  Device device = 0;
  std::uint64_t id = 0;      ///< MEMORY_BLOCK_ID
  std::uint64_t offset = 0;  ///< in the memory file
  Site created;
  unsigned references = 1;  ///< of the handle
  unsigned mappings = 0;
  Site retained;  ///< the last cuMemRetainAllocationHandle

  Physical() = default;
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;
  ~Physical();
};

/// A range of addresses. Its alias lives as long as any pointer to it.
struct Reservation {
  Range range;
  std::byte* alias = nullptr;
  Site reserved;

  Reservation() = default;
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation();
};

/// What an Allocation of Kind::mapped stands for.
struct Mapping {
  static constexpr std::size_t devices_max = 8;

  std::shared_ptr<Physical> physical;
  std::shared_ptr<Reservation> reservation;
  std::array<std::atomic<AccessFlags>, devices_max> access{};  ///< by device; none at first

  /// The last cuMemSetAccess: call 0 before the first.
  void note_access_set(const Site& site);
  [[nodiscard]] Site access_set() const;

 private:
  mutable std::mutex mutex_;
  Site access_set_;
};

/// Every function: **Errors** as the driver answers them, rules of virtual_rules.def; on error
/// nothing has changed. **Threads** any; the lock of virtual_memory.cpp is taken before that of
/// memory.cpp, and no lock of the stream engine is taken while it is held.

/// Pre: size in pages, alignment 0 or a power of two.
Status reserve_addresses(std::size_t size, std::size_t alignment, const Site& site,
                         std::uint64_t& address) noexcept;
Status free_addresses(Range range, const Site& site) noexcept;

/// Pre: the arguments are checked.
Status create_physical(std::size_t size, const AllocationProp& properties, const Site& site,
                       AllocationHandle& handle) noexcept;
Status release_handle(AllocationHandle handle, const Site& site) noexcept;
Status retain_handle(std::uint64_t address, const Site& site, AllocationHandle& handle) noexcept;
Status properties_of(AllocationHandle handle, AllocationProp& properties) noexcept;

/// Pre: address and size are multiples of the granularity.
Status map_physical(Range range, AllocationHandle handle, const Site& site) noexcept;
Status unmap_range(Range range, const Site& site) noexcept;
/// Pre: the descriptors are checked.
Status set_access(Range range, std::span<const AccessDesc> descriptors, const Site& site) noexcept;

/// What the device may do with mapped memory.
[[nodiscard]] AccessFlags access_of(const Mapping& mapping, Device device) noexcept;
[[nodiscard]] bool permits(const Allocation& allocation, Device device, Access access) noexcept;

/// The mappings of one reservation that cover the range, in order; empty if there is a hole, or
/// the range begins in other memory.
[[nodiscard]] std::vector<AllocationRef> mappings_over(Range range);

/// Null if the address was not reserved.
[[nodiscard]] std::shared_ptr<const Reservation> find_reservation(std::uint64_t address) noexcept;
/// history_of(), and for addresses that are reserved but have no history, by which call.
[[nodiscard]] std::string history_with_reservations(std::uint64_t address);

[[nodiscard]] MemoryUse reservation_use() noexcept;
[[nodiscard]] MemoryUse physical_use() noexcept;
/// One line for each reservation and each physical memory, with its sites: for the report.
[[nodiscard]] std::vector<std::string> live_virtual_objects();

}  // namespace assay::cuda::model
