#include "memory.hpp"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <new>

#include "arena.hpp"
#include "discards.hpp"
#include "immortal.hpp"
#include "memory_book.hpp"
#include "mutants.hpp"
#include "page_policy.hpp"
#include "profile.hpp"

namespace assay::cuda::model {

namespace {

constexpr std::size_t device_max = 8;
constexpr std::size_t history_max = 1 << 16;

/// What remains of a freed allocation.
struct Freed {
  std::uint64_t size = 0;
  Kind kind = Kind::device;
  Site allocated;
  Site freed;
};

struct Book {
  std::mutex mutex;
  std::map<std::uint64_t, AllocationRef> live;       ///< by host address, registered memory too
  std::map<std::uint64_t, AllocationRef> by_device;  ///< where the device address differs
  std::map<std::uint64_t, Freed> freed;              ///< by address, the latest
  std::deque<std::uint64_t> freed_order;
  std::array<MemoryUse, kind_count> use{};
  std::array<std::uint64_t, device_max> device_bytes{};
  std::uint64_t last_id = 0;
  std::uint64_t capacity = 0;       ///< 0: the profile's
  std::uint64_t host_capacity = 0;  ///< 0: the profile's
};
Book& book() {
  static Immortal<Book> the_book;
  return *the_book;
}

std::size_t index_of(Kind kind) {
  return static_cast<std::size_t>(kind);
}

bool on_device(Kind kind) {
  return kind != Kind::pinned && kind != Kind::registered;
}

/// Bytes that the block takes of the capacity.
std::uint64_t charge_of(Kind kind, std::size_t size) {
  return kind == Kind::registered ? size : round_up(size, block_alignment);
}

/// Entry of a map whose value lies at or before the address; end if there is none.
template <class Map>
auto at_or_before(Map& map, std::uint64_t address) {
  auto after = map.upper_bound(address);
  return after == map.begin() ? map.end() : std::prev(after);
}

/// Pre: the lock is held.
AllocationRef find_in(const Book& all, std::uint64_t address) {
  for (const auto* map : {&all.live, &all.by_device}) {
    const auto found = at_or_before(*map, address);
    if (found != map->end() && found->second->contains(address)) return found->second;
  }
  return nullptr;
}

AllocationRef overlap_in(const Book& all, Range range) {
  const auto found = at_or_before(all.live, range.address + range.size - 1);
  if (found == all.live.end()) return nullptr;
  const Allocation& last = *found->second;
  return overlap(range, {last.address, last.size}) ? found->second : nullptr;
}

/// Enters the allocation. Pre: the lock is held.
void enter(Book& all, const AllocationRef& allocation) {
  all.live[allocation->address] = allocation;
  if (allocation->device_address != allocation->address) {
    all.by_device[allocation->device_address] = allocation;
  }
  MemoryUse& use = all.use[index_of(allocation->kind)];
  ++use.objects;
  use.bytes += allocation->size;
  if (on_device(allocation->kind)) {
    all.device_bytes[static_cast<std::size_t>(allocation->device)] += allocation->charge;
  }
}

/// Removes the allocation and keeps its history. Pre: the lock is held.
void remove(Book& all, const AllocationRef& allocation, const Site& site) {
  all.live.erase(allocation->address);
  all.by_device.erase(allocation->device_address);
  MemoryUse& use = all.use[index_of(allocation->kind)];
  --use.objects;
  use.bytes -= allocation->size;
  if (on_device(allocation->kind) && !ASSAY_MODEL_BROKEN("free_credits_capacity")) {
    all.device_bytes[static_cast<std::size_t>(allocation->device)] -= allocation->charge;
  }
  const Block& block = allocation->block;
  if (block.capacity != 0) close_block(block);
  if (allocation->kind == Kind::managed && !ASSAY_MODEL_BROKEN("free_forgets_advice")) {
    forget_pages({block.address, block.capacity});
  }
  end_discard({allocation->address, allocation->size});

  all.freed[allocation->address] = {allocation->size, allocation->kind, allocation->allocated,
                                    site};
  all.freed_order.push_back(allocation->address);
  if (all.freed_order.size() > history_max) {
    all.freed.erase(all.freed_order.front());
    all.freed_order.pop_front();
  }
}

View view_of(Kind kind) {
  if (kind == Kind::device || kind == Kind::pooled) return View::device;
  const bool packed = kind == Kind::managed && profile().managed_shares_pages;
  return packed ? View::host_packed : View::host;
}

/// Where the driver's device addresses of host memory differ from the host's.
bool device_address_differs(Kind kind, unsigned flags) {
  if (profile().has(DeviceAttribute::can_use_host_pointer_for_registered_mem)) return false;
  return kind == Kind::registered ||
         (kind == Kind::pinned && (flags & host_alloc_write_combined) != 0);
}

/// Sets the device address. False if there is no address space for a separate one.
bool choose_device_address(Allocation& allocation) {
  allocation.device_address = allocation.address;
  if (!device_address_differs(allocation.kind, allocation.flags)) return true;
  const std::uint64_t separate = reserve_faulting(allocation.size);
  if (separate == 0) return false;
  allocation.device_address = separate;
  return true;
}

/// Pre: the lock is held.
bool fits(const Book& all, Kind kind, std::uint64_t charge, Device device) {
  if (on_device(kind)) {
    const std::uint64_t limit = all.capacity != 0 ? all.capacity : profile().capacity_bytes;
    const std::uint64_t used = all.device_bytes[static_cast<std::size_t>(device)];
    return charge <= limit && used <= limit - charge;
  }
  const std::uint64_t limit =
      all.host_capacity != 0 ? all.host_capacity : profile().host_capacity_bytes;
  const std::uint64_t used = all.use[index_of(kind)].bytes;
  return charge <= limit && used <= limit - charge;
}

}  // namespace

bool host_reaches(const Allocation& allocation) noexcept {
  return allocation.kind != Kind::device && allocation.kind != Kind::pooled &&
         allocation.kind != Kind::mapped;
}

void fill_fresh(std::byte* alias, std::size_t size, std::uint64_t id) noexcept {
  const Profile& the_profile = profile();
  std::uint64_t word = (the_profile.seed + id) * 0x9e3779b97f4a7c15ULL;
  word = (word ^ word >> 29) | 0x0101010101010101ULL;
  if (ASSAY_MODEL_BROKEN("fresh_memory_is_filled")) word = 0;
  const auto fill = [&](std::size_t at, std::size_t bytes) {
    for (; bytes >= sizeof word; at += sizeof word, bytes -= sizeof word) {
      std::memcpy(alias + at, &word, sizeof word);
    }
    std::memcpy(alias + at, &word, bytes);
  };
  if (size <= the_profile.fill_bytes) {
    fill(0, size);
  } else {
    const std::size_t half = round_down(the_profile.fill_bytes / 2, sizeof word);
    fill(0, half);
    fill(size - half, half);
  }
}

Allocation::~Allocation() {
  if (block.capacity != 0) give_back(block);
  const bool separate = device_address != address && device_address != 0;
  if (separate) release_faulting(device_address, size);
}

const char* name_of(Kind kind) noexcept {
  constexpr std::array<const char*, kind_count> names{"device",     "managed", "pinned",
                                                      "registered", "pooled",  "mapped"};
  return names[index_of(kind)];
}

namespace {

/// Makes and enters memory of the arena; `charge` is what it takes of the capacity.
Status make_allocation(const std::shared_ptr<Allocation>& allocation, AllocationRef& out) {
  constexpr std::size_t size_max = std::size_t{1} << 47;
  const Kind kind = allocation->kind;
  Book& all = book();
  const std::scoped_lock lock(all.mutex);
  if (allocation->size > size_max || !fits(all, kind, allocation->charge, allocation->device)) {
    return answer(Rule::memory_capacity, Status::out_of_memory);
  }
  const std::optional<Block> block = take_block(view_of(kind), allocation->size);
  if (!block) return answer(Rule::memory_system, Status::out_of_memory);

  allocation->block = *block;
  allocation->address = block->address;
  allocation->id = ASSAY_MODEL_BROKEN("buffer_id_is_new") ? 1 : ++all.last_id;
  allocation->alias = block->alias;
  if (kind == Kind::managed) allocation->attach_flags = allocation->flags;
  if (!choose_device_address(*allocation)) {
    close_block(*block);
    return answer(Rule::memory_system, Status::out_of_memory);
  }
  fill_fresh(allocation->alias, allocation->size, allocation->id);
  enter(all, allocation);
  out = allocation;
  return Status::success;
}

}  // namespace

Status allocate(Kind kind, std::size_t size, unsigned flags, ContextRecord& context,
                const Site& site, AllocationRef& out) noexcept try {
  auto allocation = std::make_shared<Allocation>();
  allocation->size = size;
  allocation->kind = kind;
  allocation->flags = flags;
  allocation->context = &context;
  allocation->device = context.device;
  allocation->charge = charge_of(kind, size);
  allocation->allocated = site;
  return make_allocation(allocation, out);
} catch (const std::bad_alloc&) {
  return answer(Rule::memory_system, Status::out_of_memory);
}

Status allocate_uncharged(Kind kind, std::size_t size, unsigned flags, Device device,
                          const Site& site, AllocationRef& out,
                          std::shared_ptr<PoolBlock> pooled) noexcept try {
  auto allocation = std::make_shared<Allocation>();
  allocation->size = size;
  allocation->kind = kind;
  allocation->flags = flags;
  allocation->device = device;
  allocation->allocated = site;
  allocation->pooled = std::move(pooled);
  return make_allocation(allocation, out);
} catch (const std::bad_alloc&) {
  return answer(Rule::memory_system, Status::out_of_memory);
}

void enter_allocation(const AllocationRef& allocation, const Site& site) {
  Book& all = book();
  const std::scoped_lock lock(all.mutex);
  allocation->id = ASSAY_MODEL_BROKEN("buffer_id_is_new") ? 1 : ++all.last_id;
  allocation->allocated = site;
  enter(all, allocation);
}

std::uint64_t new_memory_id() noexcept {
  Book& all = book();
  const std::scoped_lock lock(all.mutex);
  return ++all.last_id;
}

bool take_out(const AllocationRef& allocation, const Site& site) noexcept {
  Book& all = book();
  const std::scoped_lock lock(all.mutex);
  const auto found = all.live.find(allocation->address);
  if (found == all.live.end() || found->second != allocation) return false;
  remove(all, allocation, site);
  return true;
}

bool charge_device(Device device, std::uint64_t bytes) noexcept {
  Book& all = book();
  const std::scoped_lock lock(all.mutex);
  if (!fits(all, Kind::device, bytes, device)) return false;
  all.device_bytes[static_cast<std::size_t>(device)] += bytes;
  return true;
}

void credit_device(Device device, std::uint64_t bytes) noexcept {
  Book& all = book();
  const std::scoped_lock lock(all.mutex);
  all.device_bytes[static_cast<std::size_t>(device)] -= bytes;
}

Status register_host(Range range, unsigned flags, ContextRecord& context, const Site& site) noexcept
    try {
  Book& all = book();
  const std::scoped_lock lock(all.mutex);
  if (const AllocationRef other = overlap_in(all, range); other != nullptr) {
    return refuse(Rule::register_overlap, Status::host_memory_already_registered,
                  "registers " + describe_range(range.address, range.size) + ", of which " +
                      name_of(other->kind) + " memory " +
                      describe_range(other->address, other->size) + " made by " +
                      describe(other->allocated) + " is a part already");
  }
  if (!fits(all, Kind::registered, charge_of(Kind::registered, range.size), context.device)) {
    return answer(Rule::memory_capacity, Status::out_of_memory);
  }
  auto allocation = std::make_shared<Allocation>();
  allocation->address = range.address;
  allocation->size = range.size;
  allocation->kind = Kind::registered;
  allocation->flags = flags;
  allocation->context = &context;
  allocation->device = context.device;
  allocation->charge = range.size;
  allocation->id = ++all.last_id;
  allocation->alias = reinterpret_cast<std::byte*>(range.address);
  allocation->allocated = site;
  if (!choose_device_address(*allocation)) {
    return answer(Rule::memory_system, Status::out_of_memory);
  }
  enter(all, allocation);
  return Status::success;
} catch (const std::bad_alloc&) {
  return answer(Rule::memory_system, Status::out_of_memory);
}

AllocationRef take_out(std::uint64_t address, std::initializer_list<Kind> kinds,
                       const Site& site) noexcept {
  Book& all = book();
  AllocationRef taken;
  const std::scoped_lock lock(all.mutex);
  const auto found = all.live.find(address);
  if (found == all.live.end()) return nullptr;
  for (const Kind kind : kinds) {
    if (found->second->kind != kind) continue;
    taken = found->second;
    remove(all, taken, site);
    break;
  }
  return taken;
}

AllocationRef first_overlap(Range range) noexcept {
  Book& all = book();
  const std::scoped_lock lock(all.mutex);
  return overlap_in(all, range);
}

AllocationRef find_allocation(std::uint64_t address) noexcept {
  Book& all = book();
  const std::scoped_lock lock(all.mutex);
  return find_in(all, address);
}

AllocationRef find_range(Range range) noexcept {
  AllocationRef found = find_allocation(range.address);
  if (found == nullptr) return nullptr;
  const std::byte* begin = alias_of(*found, range.address);
  const auto left = static_cast<std::size_t>(found->alias + found->size - begin);
  return range.size <= left ? found : nullptr;
}

std::string history_of(std::uint64_t address) {
  Book& all = book();
  const std::scoped_lock lock(all.mutex);
  const AllocationRef live = find_in(all, address);
  if (live != nullptr) {
    return "within " + std::string(name_of(live->kind)) + " memory " +
           describe_range(live->address, live->size) + ", made by " + describe(live->allocated);
  }
  const auto found = at_or_before(all.freed, address);
  if (found == all.freed.end() || address - found->first >= found->second.size) {
    return std::string(never_given_out);
  }
  const Freed& freed = found->second;
  return std::string(name_of(freed.kind)) + " memory " + describe_range(found->first, freed.size) +
         ", made by " + describe(freed.allocated) + ", freed by " + describe(freed.freed);
}

void forget_history(Range range) noexcept {
  Book& all = book();
  const std::scoped_lock lock(all.mutex);
  auto first = at_or_before(all.freed, range.address);
  if (first == all.freed.end()) first = all.freed.begin();
  while (first != all.freed.end() && first->first < range.address + range.size) {
    const bool within = overlap(range, {first->first, first->second.size});
    first = within ? all.freed.erase(first) : std::next(first);
  }
}

void set_host_access(const Allocation& allocation, bool open) noexcept {
  Book& all = book();
  const std::scoped_lock lock(all.mutex);
  const auto found = all.live.find(allocation.address);
  if (found == all.live.end() || found->second.get() != &allocation) return;  // freed meanwhile
  protect_block(allocation.block, open);
}

std::vector<AllocationRef> managed_allocations() {
  std::vector<AllocationRef> list = live_allocations();
  std::erase_if(list, [](const AllocationRef& one) { return one->kind != Kind::managed; });
  return list;
}

namespace {

/// Reads a byte of each page, the kernel's way: a page without access (a freed device block in
/// quarantine, a guard page) answers EFAULT instead of a signal.
bool every_page_reads(std::uint64_t first, std::uint64_t end) noexcept {
  constexpr std::size_t batch = 256;
  std::array<iovec, batch> pages{};
  std::array<char, batch> bytes{};
  while (first < end) {
    std::size_t count = 0;
    for (; count < batch && first < end; first += page_size()) {
      pages[count++] = {reinterpret_cast<void*>(first), 1};
    }
    iovec into{bytes.data(), count};
    const ssize_t got = process_vm_readv(getpid(), &into, 1, pages.data(), count, 0);
    if (got < 0 && errno != EFAULT) return true;  // refused here: the mappings were asked before
    if (got != static_cast<ssize_t>(count)) return false;
  }
  return true;
}

}  // namespace

bool is_mapped(std::uint64_t address, std::size_t size) noexcept {
  if (size > UINT64_MAX - address || address + size > UINT64_MAX - page_size()) return false;
  const std::uint64_t first = round_down(address, page_size());
  const std::uint64_t end = round_up(address + size, page_size());
  // Asks nothing of shared mappings' files: MS_ASYNC only walks the mappings, and fails on a hole.
  return end > first && msync(reinterpret_cast<void*>(first), end - first, MS_ASYNC) == 0 &&
         every_page_reads(first, end);
}

void free_memory_of(const ContextRecord& context) noexcept {
  const Site site{"the end of its context", 0, nullptr};
  std::vector<AllocationRef> freed;
  Book& all = book();
  const std::scoped_lock lock(all.mutex);
  for (const auto& [address, allocation] : all.live) {
    if (allocation->context != &context) continue;
    if (!ASSAY_MODEL_BROKEN("context_end_frees")) freed.push_back(allocation);
  }
  for (const AllocationRef& allocation : freed) remove(all, allocation, site);
}

MemoryUse memory_use(Kind kind) noexcept {
  Book& all = book();
  const std::scoped_lock lock(all.mutex);
  return all.use[index_of(kind)];
}

std::vector<AllocationRef> live_allocations() {
  Book& all = book();
  const std::scoped_lock lock(all.mutex);
  std::vector<AllocationRef> list;
  for (const auto& [address, allocation] : all.live) list.push_back(allocation);
  return list;
}

std::uint64_t capacity_bytes() noexcept {
  Book& all = book();
  const std::scoped_lock lock(all.mutex);
  return all.capacity != 0 ? all.capacity : profile().capacity_bytes;
}

void set_capacity_bytes(std::uint64_t bytes) noexcept {
  Book& all = book();
  const std::scoped_lock lock(all.mutex);
  all.capacity = bytes;
}

void set_host_capacity_bytes(std::uint64_t bytes) noexcept {
  Book& all = book();
  const std::scoped_lock lock(all.mutex);
  all.host_capacity = bytes;
}

std::uint64_t device_bytes_in_use(Device device) noexcept {
  Book& all = book();
  const std::scoped_lock lock(all.mutex);
  return all.device_bytes[static_cast<std::size_t>(device)];
}

}  // namespace assay::cuda::model
