// Virtual memory management in a sequence: memory that is moved, mapped twice and closed.
#include <fmt/format.h>

#include "sequences/world.hpp"

namespace assay::conformance {
namespace {

constexpr abi::Location device_0{abi::LocationType::device, 0};

abi::AllocationProp properties() {
  abi::AllocationProp made{};
  made.type = abi::AllocationType::pinned;
  made.location = device_0;
  return made;
}

}  // namespace

void World::ask_granule() {
  if (!session_.has(cuda::Feature::virtual_memory) ||
      !session_.facts.has(DeviceAttribute::virtual_memory_management_supported)) {
    return;
  }
  const abi::AllocationProp of = properties();
  good(cu_.cuMemGetAllocationGranularity(&granule_, &of, abi::GranularityFlags::minimum),
       "cuMemGetAllocationGranularity");
}

/// A granule in one half of a reservation, of which the slot is a part.
void World::allocate_mapped(std::mt19937_64& random, Slot& slot, std::size_t size) {
  const abi::AllocationProp of = properties();
  good(cu_.cuMemAddressReserve(&slot.reservation, 2 * granule_, 0, 0, 0), "cuMemAddressReserve");
  good(cu_.cuMemCreate(&slot.handle, granule_, &of, 0), "cuMemCreate");
  slot.address = slot.reservation + below(random, granule_ - size + 1);
  slot.half = 0;
  place(slot, 0);
}

/// Maps the slot's handle, mapped nowhere, in that half.
void World::place(Slot& slot, std::size_t half) {
  good(cu_.cuMemMap(slot.reservation + half, granule_, 0, slot.handle, 0), "cuMemMap");
  grant(slot.reservation + half, abi::AccessFlags::read_write);
  slot.address += half - slot.half;
  slot.half = half;
}

void World::grant(DevicePointer at, abi::AccessFlags flags) {
  const abi::AccessDesc access{device_0, flags};
  good(cu_.cuMemSetAccess(at, granule_, &access, 1), "cuMemSetAccess");
  unsigned long long seen = 77;
  good(cu_.cuMemGetAccess(&seen, &device_0, at), "cuMemGetAccess");
  if (seen == static_cast<unsigned long long>(flags)) return;
  throw SequenceFailed{fmt::format("access {} reads back as {}", static_cast<int>(flags), seen)};
}

/// **Pre** no work on the slot is under way.
void World::free_mapped(std::mt19937_64& random, std::size_t at) {
  Slot& slot = slots_[at];
  const bool early = below(random, 2) == 0;
  told(fmt::format("free slot {}, the handle {}", at, early ? "first" : "last"));
  if (early) good(cu_.cuMemRelease(slot.handle), "cuMemRelease");
  good(cu_.cuMemUnmap(slot.reservation + slot.half, granule_), "cuMemUnmap");
  if (!early) good(cu_.cuMemRelease(slot.handle), "cuMemRelease");
  good(cu_.cuMemAddressFree(slot.reservation, 2 * granule_), "cuMemAddressFree");
  slot = Slot{};
}

/// slots_.size() if there is none.
std::size_t World::any_mapped(std::mt19937_64& random) const {
  const std::size_t first = below(random, slots_.size());
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const std::size_t at = (first + i) % slots_.size();
    if (slots_[at].kind == Kind::mapped) return at;
  }
  return slots_.size();
}

/// The same memory in the other half: its bytes move with it.
void World::remap(std::mt19937_64& random) {
  const std::size_t at = any_mapped(random);
  if (at == slots_.size()) return;
  Slot& slot = slots_[at];
  const std::size_t half = granule_ - slot.half;
  told(fmt::format("map slot {} at {} granules", at, half / granule_));
  settle(slot);
  good(cu_.cuMemUnmap(slot.reservation + slot.half, granule_), "cuMemUnmap");
  place(slot, half);
}

/// The same memory in both halves for a while: what one takes the other shows.
void World::alias(std::mt19937_64& random) {
  const std::size_t at = any_mapped(random);
  if (at == slots_.size()) return;
  Slot& slot = slots_[at];
  const auto byte = static_cast<unsigned char>(random());
  const std::size_t half = granule_ - slot.half;
  const DevicePointer there = slot.address + half - slot.half;
  told(fmt::format("map slot {} twice and set it to {} through the other", at, byte));
  settle(slot);
  good(cu_.cuMemMap(slot.reservation + half, granule_, 0, slot.handle, 0), "cuMemMap");
  grant(slot.reservation + half, abi::AccessFlags::read_write);
  std::vector<unsigned char> seen(slot.mirror.size());
  good(cu_.cuMemcpyDtoH_v2(seen.data(), there, seen.size()), "cuMemcpyDtoH");
  compare(slot.mirror, seen, fmt::format("slot {} through its second mapping", at));
  good(cu_.cuMemsetD8Async(there, byte, seen.size(), streams_[0]), "cuMemsetD8Async");
  good(cu_.cuStreamSynchronize(streams_[0]), "cuStreamSynchronize");
  slot.mirror.assign(seen.size(), byte);
  good(cu_.cuMemUnmap(slot.reservation + half, granule_), "cuMemUnmap");
}

/// Without write access, or without any: copies are refused, and the bytes stay.
void World::close(std::mt19937_64& random) {
  const std::size_t at = any_mapped(random);
  if (at == slots_.size()) return;
  Slot& slot = slots_[at];
  const bool readable = below(random, 2) == 0;
  told(fmt::format("close slot {} to {}", at, readable ? "writes" : "all"));
  settle(slot);
  grant(slot.reservation + slot.half, readable ? abi::AccessFlags::read : abi::AccessFlags::none);
  unsigned char byte = 0;
  const auto expect = [&](Status status, bool allowed, const char* call) {
    if ((status == Status::success) == allowed) return;
    throw SequenceFailed{fmt::format("{} of memory closed to {} gave {}", call,
                                     readable ? "writes" : "all",
                                     spell_code(static_cast<std::uint32_t>(status)))};
  };
  expect(cu_.cuMemcpyDtoH_v2(&byte, slot.address, 1), readable, "cuMemcpyDtoH");
  expect(cu_.cuMemsetD8_v2(slot.address, 1, 1), false, "cuMemsetD8");
  grant(slot.reservation + slot.half, abi::AccessFlags::read_write);
}

}  // namespace assay::conformance
