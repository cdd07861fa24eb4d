// The memory that the model has given out or registered, and its bytes.
//
//   program's address   PROT_NONE (device) or read-write (managed, pinned)   0x7f10 0000 0000
//                          \  one memfd, mapped twice
//   alias, for the model   read-write, always                               0x7e80 0000 0000
//
// A freed range keeps its address and becomes PROT_NONE; its pages go back to the system.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "arena.hpp"
#include "context.hpp"
#include "site.hpp"

namespace assay::cuda::model {

/// `pooled` is device memory given out in stream order; `mapped` is memory mapped by hand.
enum class Kind : std::uint8_t { device, managed, pinned, registered, pooled, mapped };
inline constexpr std::size_t kind_count = 6;
[[nodiscard]] const char* name_of(Kind kind) noexcept;

struct Range {
  std::uint64_t address = 0;
  std::size_t size = 0;
};
[[nodiscard]] constexpr bool overlap(Range a, Range b) noexcept {
  return a.address < b.address + b.size && b.address < a.address + a.size;
}

struct PoolBlock;  // pool.hpp: a place in stream order
struct Mapping;    // virtual_memory.hpp: which physical memory, and who may use it

/// A live piece of memory. Whoever holds a reference may read and write through `alias`, also after
/// the program has freed it.
///
/// **Threads** constant but for the atomics; `attach_*` belong to the stream engine, under its
/// lock.
struct Allocation {
  std::uint64_t address = 0;  ///< where the host finds it (device memory: faults)
  std::size_t size = 0;       ///< as asked, the only bytes that copies may touch
  Kind kind = Kind::device;
  unsigned flags = 0;                ///< of the call that made it, DEVICEMAP added
  ContextRecord* context = nullptr;  ///< with which it ends; null: memory of pools, mappings
  Device device = 0;                 ///< on which, or in whose context, it was made
  std::uint64_t id = 0;              ///< BUFFER_ID: never reused
  std::uint64_t device_address = 0;  ///< what GetDevicePointer gives
  std::byte* alias = nullptr;        ///< its bytes, for the model
  Site allocated;
  Block block;               ///< the arena's, given back at the end; capacity 0: none of its
  std::uint64_t charge = 0;  ///< bytes that it takes of its device's or the host's capacity
  std::shared_ptr<PoolBlock> pooled;  ///< of any memory that a pool gave out, managed memory too
  std::shared_ptr<Mapping> mapped;    ///< of Kind::mapped
  std::atomic<bool> sync_memops{false};
  // Managed memory, where host and device may not use it at once.
  unsigned attach_flags = mem_attach_global;  ///< GLOBAL, HOST or SINGLE
  Stream attach_stream = nullptr;             ///< of SINGLE

  Allocation() = default;
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  ~Allocation();

  [[nodiscard]] bool contains(std::uint64_t at) const noexcept {
    return at - address < size || at - device_address < size;
  }
};
using AllocationRef = std::shared_ptr<Allocation>;

/// May the host read and write it at its address?
[[nodiscard]] bool host_reaches(const Allocation& allocation) noexcept;

/// The live allocation or registration in which `address` lies, by its host or its device address.
/// **Cost** O(log n). **Threads** any; the lock of memory.cpp is taken last and calls nothing out.
[[nodiscard]] AllocationRef find_allocation(std::uint64_t address) noexcept;

/// The one that holds the whole range; null too if the range runs over its end.
[[nodiscard]] AllocationRef find_range(Range range) noexcept;

/// The model's pointer to a byte of a live allocation. Pre: `allocation.contains(address)`.
[[nodiscard]] inline std::byte* alias_of(const Allocation& allocation,
                                         std::uint64_t address) noexcept {
  const std::uint64_t offset = address - allocation.address < allocation.size
                                   ? address - allocation.address
                                   : address - allocation.device_address;
  return allocation.alias + offset;
}

/// What is known of an address that is not live: "freed by cuMemFree_v2 (call 9, ...)", or "never
/// given out". For diagnoses.
[[nodiscard]] std::string history_of(std::uint64_t address);
inline constexpr std::string_view never_given_out = "never given out";

/// Opens or closes the program's view of a managed allocation (where CONCURRENT_MANAGED_ACCESS is
/// 0). Closing a page that another live allocation shares closes it for both.
void set_host_access(const Allocation& allocation, bool open) noexcept;

/// Every live managed allocation.
[[nodiscard]] std::vector<AllocationRef> managed_allocations();

/// Are all pages of a host range mapped now? For registered memory and pageable copies.
[[nodiscard]] bool is_mapped(std::uint64_t address, std::size_t size) noexcept;

/// Frees all that was allocated or registered in a context that has ended.
void free_memory_of(const ContextRecord& context) noexcept;

/// Effects of device work on managed pages, called by operations when they run.
/// Prefetch moves the pages (but for the last of several: residency is not the last prefetch).
void apply_prefetch(Range range, Location destination) noexcept;
/// A device reads or writes the range: pages come to it, unless advice says otherwise.
void note_device_access(Range range, Device device, bool write) noexcept;

}  // namespace assay::cuda::model
