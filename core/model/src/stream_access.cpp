#include "stream_access.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "discards.hpp"
#include "pool.hpp"
#include "profile.hpp"
#include "rules.hpp"
#include "stream_engine.hpp"
#include "virtual_memory.hpp"

namespace assay::cuda::model {

namespace {

// By its host address, whichever of the two the caller knew.
Operand operand_in(AllocationRef allocation, std::uint64_t address, std::size_t size) {
  const auto offset =
      static_cast<std::uint64_t>(alias_of(*allocation, address) - allocation->alias);
  const std::uint64_t host_address = allocation->address + offset;
  return {std::move(allocation), {host_address, size}, {}};
}

bool exceeds(const Allocation& allocation, const Range& range) {
  const std::uint64_t offset = range.address - allocation.address;
  return range.size > allocation.size - offset;
}

// A driver does not look at the place in stream order of a pool's memory.
AllocationRef find_live_or_stale(std::uint64_t address) noexcept {
  AllocationRef found = find_allocation(address);
  return found != nullptr ? found : find_stale(address);
}

// Does the range lie in live memory from end to end? Finds the mappings that it runs over.
bool reaches_end(Operand& operand) {
  if (!exceeds(*operand.allocation, operand.range)) return true;
  if (operand.allocation->mapped == nullptr) return false;
  std::vector<AllocationRef> mappings = mappings_over(operand.range);
  if (mappings.empty() || mappings.front() != operand.allocation) return false;
  mappings.erase(mappings.begin());
  operand.further = std::move(mappings);
  return true;
}

// The first of the operand's allocations that is no longer live; null if all are.
// A pool's memory stays mapped after its free: a late access finds stale bytes, and was diagnosed
// when it was enqueued.
const Allocation* first_gone(const Operand& operand) {
  if (operand.allocation->pooled != nullptr) return nullptr;
  if (find_allocation(operand.range.address) != operand.allocation) return operand.allocation.get();
  for (const AllocationRef& mapping : operand.further) {
    if (find_allocation(mapping->address) != mapping) return mapping.get();
  }
  return nullptr;
}

bool is_permitted(const Allocation& allocation, Device device, Access access) {
  return permits(allocation, device, access) && pool_permits(allocation, device, writes(access));
}

const Allocation* first_forbidden(const Operand& operand, Access access, Device device) {
  if (operand.allocation == nullptr || operand.range.size == 0) return nullptr;
  if (!is_permitted(*operand.allocation, device, access)) return operand.allocation.get();
  for (const AllocationRef& mapping : operand.further) {
    if (!permits(*mapping, device, access)) return mapping.get();
  }
  return nullptr;
}

// Size 0 is fine at any address of an allocation, and just past it [?].
AllocationRef find_for_size(std::uint64_t address, std::size_t size) noexcept {
  AllocationRef found = find_live_or_stale(address);
  if (found == nullptr && size == 0 && address != 0) found = find_allocation(address - 1);
  return found;
}

std::string gone_text(const Running& running, Access access, Range range) {
  const bool reads = access == Access::read || access == Access::read_some;
  const char* what = reads ? " read " : access == Access::discard ? " discarded " : " wrote ";
  return describe(running.site) + what + describe_range(range.address, range.size) + ", " +
         history_with_reservations(range.address);
}

std::string forbidden_text(const Allocation& of, Device device) {
  const Site set = of.mapped != nullptr ? of.mapped->access_set() : pool_access_set(of);
  return history_of(of.address) + ": device " + std::to_string(device) +
         " was not given that access, " +
         (set.call == 0 ? "none was ever set" : "last set by " + describe(set));
}

// Refuses what is gone, or not the device's to use, with a fault.
bool is_refused(const Operand& operand, Access access, Running& running) {
  const Range range = operand.range;
  if (const Allocation* const gone = first_gone(operand); gone != nullptr) {
    const bool mapped = gone->mapped != nullptr;
    const Rule rule = mapped ? Rule::access_after_unmap : Rule::access_after_free;
    std::string text = gone_text(running, access, range);
    if (mapped) {
      text = gone_text(running, access, {std::max(gone->address, range.address), range.size}) +
             "; it was mapped by " + describe(gone->allocated) + " when the work was given";
    }
    diagnose(rule, std::move(text));
    running.fault = answer(rule, Status::illegal_address);
    return true;
  }
  const Allocation* const forbidden = first_forbidden(operand, access, running.device);
  if (forbidden == nullptr) return false;
  const char* what = writes(access) ? " wrote " : " read ";
  diagnose(Rule::access_forbidden, describe(running.site) + what +
                                       describe_range(range.address, range.size) + ", " +
                                       forbidden_text(*forbidden, running.device));
  running.fault = answer(Rule::access_forbidden, Status::illegal_address);
  return true;
}

/// What becomes of discarded bytes that a device uses; `bytes` are the range's.
void note_discarded_use(Range range, const std::byte* bytes, Access access,
                        const Running& running) {
  if (access == Access::read || access == Access::update) {
    look_for_discarded(range, bytes, running.site);
  }
  if (writes(access)) end_discard(range);
}

}  // namespace

Running running_in(const StreamQueue& queue, const Site& site) {
  return {site, queue.context->device, queue.handle};
}

Range by_host_address(Range range) noexcept {
  AllocationRef found = find_allocation(range.address);
  if (found == nullptr) return range;
  return operand_in(std::move(found), range.address, range.size).range;
}

Status find_device_operand(std::uint64_t address, std::size_t size, Operand& operand) noexcept {
  AllocationRef found = find_for_size(address, size);
  if (found == nullptr) return answer(Rule::copy_outside_allocation, Status::invalid_value);
  if (size == 0) {
    operand = {std::move(found), {address, 0}, {}};
    return Status::success;
  }
  Operand candidate = operand_in(std::move(found), address, size);
  if (!reaches_end(candidate)) {
    return answer(Rule::copy_outside_allocation, Status::invalid_value);
  }
  operand = std::move(candidate);
  return Status::success;
}

Status find_host_operand(const void* address, std::size_t size, Operand& operand) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (at == 0) return answer(Rule::copy_host_pointer, Status::invalid_value);
  if (const AllocationRef found = find_allocation(at); found != nullptr) {
    if (!host_reaches(*found)) return answer(Rule::copy_host_pointer, Status::invalid_value);
    return find_device_operand(at, size, operand);
  }
  if (size != 0 && !is_mapped(at, size)) {
    return answer(Rule::copy_host_pointer, Status::invalid_value);
  }
  operand = {nullptr, {at, size}, {}};
  return Status::success;
}

Status find_any_operand(std::uint64_t address, std::size_t size, Operand& operand) noexcept {
  if (find_for_size(address, size) != nullptr) return find_device_operand(address, size, operand);
  return find_host_operand(reinterpret_cast<const void*>(address), size, operand);
}

Status check_access(const Operand& operand, Access access, Device device) noexcept {
  const Allocation* const forbidden = first_forbidden(operand, access, device);
  if (forbidden == nullptr) return Status::success;
  return refuse(Rule::access_denied, Status::invalid_value,
                "uses " + describe_range(operand.range.address, operand.range.size) + ", " +
                    forbidden_text(*forbidden, device));
}

std::byte* use(const Operand& operand, Access access, Running& running) noexcept {
  const Range range = operand.range;
  if (!operand.is_pageable()) {
    const Allocation& allocation = *operand.allocation;
    if (is_refused(operand, access, running)) return nullptr;
    if (allocation.kind == Kind::managed && access != Access::discard) {
      note_device_access(range, running.device, writes(access));
      note_discarded_use(range, alias_of(allocation, range.address), access, running);
    }
    if (allocation.kind != Kind::registered) return alias_of(allocation, range.address);
  }
  // What the program mapped itself, it may have unmapped, registered or not.
  if (!is_mapped(range.address, range.size)) {
    std::string text = describe(running.site) + " used host memory that is unmapped by now: " +
                       describe_range(range.address, range.size);
    if (!operand.is_pageable()) {
      text += ", registered by " + describe(operand.allocation->allocated);
    }
    diagnose(Rule::host_memory_gone, text);
    return nullptr;
  }
  auto* const bytes = reinterpret_cast<std::byte*>(range.address);
  note_discarded_use(range, bytes, access, running);
  return bytes;
}

Range hold_mapped(Range range, Running& running) {
  std::vector<AllocationRef> mappings = mappings_over(range);
  running.held.insert(running.held.end(), mappings.begin(), mappings.end());
  return range;
}

std::byte* use_address(Range range, Access access, Running& running) noexcept {
  for (const AllocationRef& launched : running.held) {
    const Range mapping{launched->address, launched->size};
    if (launched->mapped == nullptr || !overlap(mapping, range)) continue;
    const std::uint64_t begin = std::max(mapping.address, range.address);
    const std::uint64_t end = std::min(mapping.address + mapping.size, range.address + range.size);
    if (is_refused({launched, {begin, end - begin}, {}}, access, running)) return nullptr;
  }
  if (AllocationRef found = find_live_or_stale(range.address); found != nullptr) {
    Operand operand = operand_in(std::move(found), range.address, range.size);
    if (reaches_end(operand)) {
      if (!may_use(*operand.allocation, running.stream)) {
        diagnose(Rule::access_attached, gone_text(running, access, range) +
                                            ": it is attached to the host or another stream");
      }
      running.held.push_back(operand.allocation);
      running.held.insert(running.held.end(), operand.further.begin(), operand.further.end());
      return use(operand, access, running);
    }
  } else if (profile().has(DeviceAttribute::pageable_memory_access) &&
             is_mapped(range.address, range.size)) {
    // HMM, ATS: all of the process's memory
    auto* const bytes = reinterpret_cast<std::byte*>(range.address);
    note_discarded_use(range, bytes, access, running);
    return bytes;
  }
  diagnose(Rule::access_nowhere, gone_text(running, access, range));
  running.fault = answer(Rule::access_nowhere, Status::illegal_address);
  return nullptr;
}

// Four lanes, so that a processor multiplies them at once: each async copy hashes its source twice.
__attribute__((no_sanitize("address", "thread"))) std::uint64_t hash_bytes(
    const std::byte* bytes, std::size_t size) noexcept {
  constexpr std::uint64_t prime = 0x9e3779b97f4a7c15ULL;
  constexpr std::size_t lanes = 4;
  std::uint64_t state[lanes] = {1, 2, 3, size};
  std::size_t at = 0;
  for (; size - at >= sizeof state; at += sizeof state) {
    std::uint64_t words[lanes];
    std::memcpy(words, bytes + at, sizeof words);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      state[lane] = (state[lane] ^ words[lane]) * prime;
      state[lane] ^= state[lane] >> 29;
    }
  }
  std::uint64_t sum = 0;
  for (; at < size; ++at) sum = (sum ^ std::to_integer<std::uint64_t>(bytes[at])) * prime;
  for (const std::uint64_t lane : state) sum = (sum ^ lane) * prime;
  return sum ^ (sum >> 32);
}

}  // namespace assay::cuda::model
