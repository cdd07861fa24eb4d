#include "virtual_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "arena.hpp"
#include "immortal.hpp"
#include "mutants.hpp"
#include "profile.hpp"
#include "rules.hpp"
#include "stream_engine.hpp"
#include "virtual_pages.hpp"

namespace assay::cuda::model {

namespace {

constexpr std::size_t history_max = 1 << 16;
constexpr AllocationHandle handle_tag = AllocationHandle{0x5c} << 56;

/// What remains of a handle without references.
struct Released {
  std::size_t size = 0;
  Site created;
  Site released;
};

struct State {
  std::mutex mutex;
  std::map<std::uint64_t, std::shared_ptr<Reservation>> reservations;  ///< by address
  std::map<AllocationHandle, std::shared_ptr<Physical>> physicals;     ///< in use
  std::map<AllocationHandle, Released> released;                       ///< the latest
  std::uint64_t handles = 0;                                           ///< given out
};
State& state() {
  static Immortal<State> the_state;
  return *the_state;
}

bool fill_window(const Physical& physical) {
  std::byte* const at = show_window(physical.offset, physical.size, nullptr);
  if (at == nullptr) return false;
  fill_fresh(at, physical.size, physical.id);
  munmap(at, physical.size);
  return true;
}

// --- The table: the lock is held ---

std::shared_ptr<Reservation> reservation_at(const State& all, std::uint64_t address) {
  const auto after = all.reservations.upper_bound(address);
  if (after == all.reservations.begin()) return nullptr;
  const auto& [begin, reservation] = *std::prev(after);
  return address - begin < reservation->range.size ? reservation : nullptr;
}

std::shared_ptr<Physical> find_physical(const State& all, AllocationHandle handle) {
  const auto found = all.physicals.find(handle);
  return found == all.physicals.end() || found->second->references == 0 ? nullptr : found->second;
}

/// Gives its bytes back to the capacity once nothing holds it.
void forget_unused(State& all, const Physical& physical) {
  if (physical.references != 0 || physical.mappings != 0) return;
  if (!ASSAY_MODEL_BROKEN("physical_credits_capacity")) {
    credit_device(physical.device, physical.size);
  }
  all.physicals.erase(physical.handle);
}

bool ends_before_it_begins(Range range) {
  return range.address + range.size < range.address;
}

/// Whole mappings of one reservation that make up the range exactly; empty if it is none.
std::vector<AllocationRef> whole_mappings(Range range) {
  std::vector<AllocationRef> found = mappings_over(range);
  if (found.empty()) return {};
  const Allocation& last = *found.back();
  const bool whole = found.front()->address == range.address &&
                     last.address + last.size == range.address + range.size;
  return whole ? found : std::vector<AllocationRef>{};
}

/// "physical memory of 4096 bytes, made by ..., released by ...", or that it never was a handle.
std::string describe_handle(const State& all, AllocationHandle handle) {
  const auto gone = all.released.find(handle);
  if (gone == all.released.end()) return "a handle that was never given out";
  const Released& before = gone->second;
  return "physical memory of " + std::to_string(before.size) + " bytes, made by " +
         describe(before.created) + ", released by " + describe(before.released);
}

Status refuse_handle(const State& all, AllocationHandle handle) {
  return refuse(Rule::handle_dead, Status::invalid_value, "uses " + describe_handle(all, handle));
}

std::string describe_reservation(const State& all, std::uint64_t address) {
  const std::shared_ptr<Reservation> reservation = reservation_at(all, address);
  if (reservation == nullptr) return "nothing is reserved there";
  const Range& range = reservation->range;
  return describe_range(range.address, range.size) + ", reserved by " +
         describe(reservation->reserved);
}

/// Of a range that is not made up of whole mappings.
Status refuse_range(Rule rule, const char* does, Range range) {
  return refuse(rule, Status::invalid_value,
                does + describe_range(range.address, range.size) +
                    ", which is not whole mappings side by side: it begins " +
                    history_of(range.address));
}

/// Pre: the lock is not held, which work that is finished here may want.
void look_for_work(Rule rule, Range range, const char* does, const Site& site) {
  finish_sync_forms(range);
  const std::optional<PendingWork> work = pending_work(range);
  if (!work) return;
  diagnose(rule, describe(site) + does + describe_range(range.address, range.size) +
                     " in use by unfinished " + work->name + " of " + describe(work->site));
}

}  // namespace

Physical::~Physical() {
  if (size != 0) give_back_window(offset, size);
}

Reservation::~Reservation() {
  if (alias != nullptr) munmap(alias, range.size);
  if (range.size != 0) keep_closed(range);
}

void Mapping::note_access_set(const Site& site) {
  const std::scoped_lock lock(mutex_);
  access_set_ = site;
}

Site Mapping::access_set() const {
  const std::scoped_lock lock(mutex_);
  return access_set_;
}

// --- Reservations ---

Status reserve_addresses(std::size_t size, std::size_t alignment, const Site& site,
                         std::uint64_t& address) noexcept try {
  if (size > address_range_max) return answer(Rule::memory_system, Status::out_of_memory);
  auto made = std::make_shared<Reservation>();
  const std::size_t least = profile().granularity_bytes;
  const std::uint64_t taken = take_aligned(size, std::max(alignment, least));
  if (taken == 0) return answer(Rule::memory_system, Status::out_of_memory);
  made->range = {taken, size};
  made->alias = static_cast<std::byte*>(pointer_at(take_addresses(size)));
  if (made->alias == nullptr) return answer(Rule::memory_system, Status::out_of_memory);
  made->reserved = site;
  forget_history(made->range);
  State& all = state();
  const std::scoped_lock lock(all.mutex);
  all.reservations.emplace(taken, made);
  address = taken;
  return Status::success;
} catch (const std::bad_alloc&) {
  return answer(Rule::memory_system, Status::out_of_memory);
}

Status free_addresses(Range range, const Site& site) noexcept {
  State& all = state();
  std::shared_ptr<Reservation> gone;  // ends after the lock
  {
    const std::scoped_lock lock(all.mutex);
    const auto found = all.reservations.find(range.address);
    if (found == all.reservations.end() || found->second->range.size != range.size) {
      return refuse(Rule::reservation_unknown, Status::invalid_value,
                    "frees " + describe_range(range.address, range.size) +
                        ", which was not reserved so: " + describe_reservation(all, range.address));
    }
    if (const AllocationRef mapping = first_overlap(range); mapping != nullptr) {
      return refuse(Rule::reservation_mapped, Status::invalid_value,
                    "frees " + describe_range(range.address, range.size) +
                        ", still mapped: " + history_of(mapping->address));
    }
    gone = std::move(found->second);
    all.reservations.erase(found);
  }
  look_for_work(Rule::reservation_in_flight, range, " frees the reservation ", site);
  return Status::success;
}

std::shared_ptr<const Reservation> find_reservation(std::uint64_t address) noexcept {
  State& all = state();
  const std::scoped_lock lock(all.mutex);
  return reservation_at(all, address);
}

// --- Physical memory ---

Status create_physical(std::size_t size, const AllocationProp& properties, const Site& site,
                       AllocationHandle& handle) noexcept try {
  const Device device = properties.location.id;
  if (size > address_range_max || !charge_device(device, size)) {
    return answer(Rule::memory_capacity, Status::out_of_memory);
  }
  auto made = std::make_shared<Physical>();
  made->properties = properties;
  made->device = device;
  made->created = site;
  made->id = new_memory_id();
  const bool taken = take_window(size, made->offset);
  if (taken) made->size = size;
  if (!taken || !fill_window(*made)) {
    credit_device(device, size);
    return answer(Rule::memory_system, Status::out_of_memory);
  }
  State& all = state();
  const std::scoped_lock lock(all.mutex);
  made->handle = handle_tag | ++all.handles;
  all.physicals.emplace(made->handle, made);
  handle = made->handle;
  return Status::success;
} catch (const std::bad_alloc&) {
  return answer(Rule::memory_system, Status::out_of_memory);
}

Status release_handle(AllocationHandle handle, const Site& site) noexcept {
  State& all = state();
  const std::scoped_lock lock(all.mutex);
  const std::shared_ptr<Physical> physical = find_physical(all, handle);
  if (physical == nullptr) {
    const bool twice = all.released.contains(handle);
    return refuse(twice ? Rule::release_twice : Rule::release_unknown, Status::invalid_value,
                  "releases " + describe_handle(all, handle));
  }
  if (--physical->references != 0) return Status::success;
  all.released[handle] = {physical->size, physical->created, site};
  if (all.released.size() > history_max) all.released.erase(all.released.begin());
  forget_unused(all, *physical);
  return Status::success;
}

Status retain_handle(std::uint64_t address, const Site& site, AllocationHandle& handle) noexcept {
  State& all = state();
  const std::scoped_lock lock(all.mutex);
  const AllocationRef found = find_allocation(address);
  if (found == nullptr || found->mapped == nullptr) {
    return answer(Rule::retain_unmapped, Status::invalid_value);
  }
  Physical& physical = *found->mapped->physical;
  ++physical.references;
  physical.retained = site;
  handle = physical.handle;
  return Status::success;
}

Status properties_of(AllocationHandle handle, AllocationProp& properties) noexcept {
  State& all = state();
  const std::scoped_lock lock(all.mutex);
  const std::shared_ptr<Physical> physical = find_physical(all, handle);
  if (physical == nullptr) return refuse_handle(all, handle);
  properties = physical->properties;
  return Status::success;
}

// --- Mappings ---

namespace {

/// Pre: the lock is held.
Status map_in(const State& all, Range range, AllocationHandle handle, const Site& site) {
  const std::shared_ptr<Reservation> reservation = reservation_at(all, range.address);
  if (reservation == nullptr || ends_before_it_begins(range) ||
      range.address + range.size > reservation->range.address + reservation->range.size) {
    return refuse(Rule::map_outside, Status::invalid_value,
                  "maps " + describe_range(range.address, range.size) +
                      ", not within one reservation: " + describe_reservation(all, range.address));
  }
  if (const AllocationRef mapping = first_overlap(range); mapping != nullptr) {
    return refuse(Rule::map_mapped, Status::invalid_value,
                  "maps " + describe_range(range.address, range.size) +
                      ", mapped already: " + history_of(mapping->address));
  }
  const std::shared_ptr<Physical> physical = find_physical(all, handle);
  if (physical == nullptr) return refuse_handle(all, handle);
  if (range.size > physical->size) {
    return refuse(Rule::map_size, Status::invalid_value,
                  "maps " + std::to_string(range.size) + " bytes of " +
                      std::to_string(physical->size) + " made by " + describe(physical->created));
  }

  auto mapping = std::make_shared<Mapping>();
  mapping->physical = physical;
  mapping->reservation = reservation;
  if (ASSAY_MODEL_BROKEN("mapping_starts_closed")) {
    for (std::atomic<AccessFlags>& access : mapping->access) access = AccessFlags::read_write;
  }
  auto allocation = std::make_shared<Allocation>();
  allocation->address = allocation->device_address = range.address;
  allocation->size = range.size;
  allocation->kind = Kind::mapped;
  allocation->device = physical->device;
  allocation->alias = reservation->alias + (range.address - reservation->range.address);
  allocation->mapped = std::move(mapping);
  if (show_window(physical->offset, range.size, allocation->alias) == nullptr) {
    return answer(Rule::memory_system, Status::out_of_memory);
  }
  if (ASSAY_MODEL_BROKEN("mapped_memory_is_closed")) {
    show_window(physical->offset, range.size, static_cast<std::byte*>(pointer_at(range.address)));
  }
  enter_allocation(allocation, site);
  ++physical->mappings;
  return Status::success;
}

}  // namespace

Status map_physical(Range range, AllocationHandle handle, const Site& site) noexcept try {
  {
    State& all = state();
    const std::scoped_lock lock(all.mutex);
    const Status status = map_in(all, range, handle, site);
    if (status != Status::success) return status;
  }
  look_for_work(Rule::map_in_flight, range, " maps ", site);
  return Status::success;
} catch (const std::bad_alloc&) {
  return answer(Rule::memory_system, Status::out_of_memory);
}

Status unmap_range(Range range, const Site& site) noexcept try {
  if (whole_mappings(range).empty()) return refuse_range(Rule::unmap_range, "unmaps ", range);
  look_for_work(Rule::unmap_in_flight, range, " unmaps ", site);
  State& all = state();
  std::vector<AllocationRef> mappings;  // end after the lock
  const std::scoped_lock lock(all.mutex);
  mappings = whole_mappings(range);
  if (mappings.empty()) return refuse_range(Rule::unmap_range, "unmaps ", range);
  for (const AllocationRef& mapping : mappings) {
    take_out(mapping, site);
    Physical& physical = *mapping->mapped->physical;
    --physical.mappings;
    forget_unused(all, physical);
  }
  return Status::success;
} catch (const std::bad_alloc&) {
  return answer(Rule::memory_system, Status::out_of_memory);
}

Status set_access(Range range, std::span<const AccessDesc> descriptors, const Site& site) noexcept
    try {
  State& all = state();
  const std::scoped_lock lock(all.mutex);
  const std::vector<AllocationRef> mappings = whole_mappings(range);
  if (mappings.empty()) return refuse_range(Rule::access_range, "sets access of ", range);
  for (const AllocationRef& mapping : mappings) {
    for (const AccessDesc& descriptor : descriptors) {
      const auto device = static_cast<std::size_t>(descriptor.location.id);
      mapping->mapped->access[device].store(descriptor.flags, std::memory_order_release);
    }
    mapping->mapped->note_access_set(site);
  }
  return Status::success;
} catch (const std::bad_alloc&) {
  return answer(Rule::memory_system, Status::out_of_memory);
}

AccessFlags access_of(const Mapping& mapping, Device device) noexcept {
  return mapping.access[static_cast<std::size_t>(device)].load(std::memory_order_acquire);
}

bool permits(const Allocation& allocation, Device device, Access access) noexcept {
  if (allocation.mapped == nullptr) return true;
  const AccessFlags flags = access_of(*allocation.mapped, device);
  return flags == AccessFlags::read_write || (flags == AccessFlags::read && !writes(access));
}

std::vector<AllocationRef> mappings_over(Range range) {
  std::vector<AllocationRef> found;
  if (range.size == 0 || ends_before_it_begins(range)) return {};
  const std::uint64_t end = range.address + range.size;
  for (std::uint64_t at = range.address; at < end;) {
    AllocationRef next = find_allocation(at);
    if (next == nullptr || next->mapped == nullptr) return {};
    if (!found.empty() && next->mapped->reservation != found.front()->mapped->reservation) {
      return {};
    }
    at = next->address + next->size;
    found.push_back(std::move(next));
  }
  return found;
}

// --- For diagnoses and the report ---

std::string history_with_reservations(std::uint64_t address) {
  std::string history = history_of(address);
  const std::shared_ptr<const Reservation> reservation = find_reservation(address);
  if (reservation == nullptr || history != never_given_out) return history;
  return "never mapped, within " +
         describe_range(reservation->range.address, reservation->range.size) + ", reserved by " +
         describe(reservation->reserved);
}

MemoryUse reservation_use() noexcept {
  State& all = state();
  const std::scoped_lock lock(all.mutex);
  MemoryUse use;
  for (const auto& [address, reservation] : all.reservations) {
    ++use.objects;
    use.bytes += reservation->range.size;
  }
  return use;
}

MemoryUse physical_use() noexcept {
  State& all = state();
  const std::scoped_lock lock(all.mutex);
  MemoryUse use;
  for (const auto& [handle, physical] : all.physicals) {
    ++use.objects;
    use.bytes += physical->size;
  }
  return use;
}

std::vector<std::string> live_virtual_objects() {
  State& all = state();
  const std::scoped_lock lock(all.mutex);
  std::vector<std::string> lines;
  for (const auto& [address, reservation] : all.reservations) {
    lines.push_back("reservation " + describe_range(address, reservation->range.size) +
                    ", made by " + describe(reservation->reserved));
  }
  for (const auto& [handle, physical] : all.physicals) {
    std::string line = "physical memory of " + std::to_string(physical->size) + " bytes, made by " +
                       describe(physical->created) + ", references " +
                       std::to_string(physical->references) + ", mappings " +
                       std::to_string(physical->mappings);
    if (physical->retained.call != 0) line += ", last retained by " + describe(physical->retained);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace assay::cuda::model
