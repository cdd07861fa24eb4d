#include "sequences/world.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <unistd.h>

namespace assay::conformance {
namespace {

using Attribute = DeviceAttribute;

constexpr std::size_t size_most = 256 * KiB;  ///< of one slot: 2 MiB in all, far below the cap

const char* kind_name(int kind) {
  constexpr const char* names[] = {"empty", "device", "managed", "pinned", "pooled", "mapped"};
  return names[kind];
}

/// Biased to the edges of pages.
std::size_t any_size(std::mt19937_64& random) {
  constexpr std::size_t edges[] = {1, 2, 4095, 4096, 4097, 65535, 65536, 65537, size_most};
  return below(random, 2) == 0 ? edges[below(random, std::size(edges))]
                               : 1 + below(random, size_most);
}

}  // namespace

World::World(const Session& session, bool say_steps)
    : session_(session), cu_(session.table), say_steps_(say_steps) {
  for (abi::Stream& stream : streams_) {
    good(cu_.cuStreamCreate(&stream, abi::stream_non_blocking), "cuStreamCreate");
  }
  make_pool();
  ask_granule();
}

World::~World() {
  if (pool_ != nullptr) (void)cu_.cuMemPoolDestroy(pool_);
  for (abi::Stream stream : streams_) (void)cu_.cuStreamDestroy_v2(stream);
}

void World::told(std::string step) {
  if (say_steps_) {
    const std::string line = "  " + step + "\n";
    [[maybe_unused]] const auto written = ::write(STDOUT_FILENO, line.data(), line.size());
  }
  trace_.push_back(std::move(step));
}

void World::good(Status status, const char* call) {
  if (status == Status::success) return;
  throw SequenceFailed{
      fmt::format("{} gave {}", call, spell_code(static_cast<std::uint32_t>(status)))};
}

void World::settle(Slot& slot) {
  if (slot.stream < 0) return;
  good(cu_.cuStreamSynchronize(streams_[static_cast<std::size_t>(slot.stream)]),
       "cuStreamSynchronize");
  slot.stream = -1;
}

void World::settle_for(Slot& slot, int stream) {
  if (slot.stream >= 0 && slot.stream != stream && slot.kind == Kind::pooled) {
    order(static_cast<std::size_t>(slot.stream), static_cast<std::size_t>(stream));
  } else if (slot.stream != stream) {
    settle(slot);
  }
  slot.stream = stream;
}

/// Without concurrent access the host waits for the whole device before it touches managed memory.
void World::settle_for_host(Slot& slot) {
  settle(slot);
  if (slot.kind != Kind::managed || session_.facts.has(Attribute::concurrent_managed_access)) {
    return;
  }
  good(cu_.cuCtxSynchronize(), "cuCtxSynchronize");
}

/// Of what the device has.
World::Kind World::any_kind(std::mt19937_64& random) const {
  const auto kind = static_cast<Kind>(1 + below(random, 5));
  const bool works = kind == Kind::managed  ? session_.facts.has(Attribute::managed_memory)
                     : kind == Kind::pooled ? pool_ != nullptr
                     : kind == Kind::mapped ? granule_ != 0
                                            : true;
  return works ? kind : Kind::device;
}

std::size_t World::any_stream(std::mt19937_64& random) const {
  return below(random, streams_.size());
}

std::size_t World::any_live(std::mt19937_64& random) {
  const std::size_t first = below(random, slots_.size());
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const std::size_t at = (first + i) % slots_.size();
    if (slots_[at].kind != Kind::empty) return at;
  }
  allocate(random);
  return any_live(random);
}

World::Range World::any_range(std::mt19937_64& random) {
  const std::size_t slot = any_live(random);
  const std::size_t held = slots_[slot].mirror.size();
  const std::size_t offset = below(random, held);
  const std::size_t size = below(random, 4) == 0 ? held - offset : 1 + below(random, held - offset);
  return {slot, offset, size};
}

void World::allocate(std::mt19937_64& random) {
  const std::size_t at = below(random, slots_.size());
  Slot& slot = slots_[at];
  if (slot.kind != Kind::empty) release(random, at);
  const Kind kind = any_kind(random);
  std::size_t size = any_size(random);
  // Small managed allocations may share a page, on which advice for one is advice for the other.
  if (kind == Kind::managed) size = (size + page - 1) / page * page;
  told(fmt::format("slot {} = {} of {} B", at, kind_name(static_cast<int>(kind)), size));
  if (kind == Kind::device) good(cu_.cuMemAlloc_v2(&slot.address, size), "cuMemAlloc");
  if (kind == Kind::managed) {
    good(cu_.cuMemAllocManaged(&slot.address, size, abi::mem_attach_global), "cuMemAllocManaged");
  }
  if (kind == Kind::pinned) {
    void* address = nullptr;
    good(cu_.cuMemHostAlloc(&address, size, abi::host_alloc_device_map), "cuMemHostAlloc");
    slot.address = address_of(address);
  }
  slot.stream = 0;
  if (kind == Kind::pooled) allocate_pooled(random, slot, size);
  if (kind == Kind::mapped) allocate_mapped(random, slot, size);
  slot.kind = kind;
  const auto byte = static_cast<unsigned char>(random());
  slot.mirror.assign(size, byte);  // fresh contents are undefined: give them a value first
  good(cu_.cuMemsetD8Async(slot.address, byte, size,
                           streams_[static_cast<std::size_t>(slot.stream)]),
       "cuMemsetD8Async");
}

void World::release(std::mt19937_64& random, std::size_t at) {
  Slot& slot = slots_[at];
  if (slot.kind == Kind::pooled) return free_pooled(random, at);
  check(at);
  if (slot.kind == Kind::mapped) return free_mapped(random, at);
  told(fmt::format("free slot {}", at));
  good(slot.kind == Kind::pinned ? cu_.cuMemFreeHost(host(slot.address))
                                 : cu_.cuMemFree_v2(slot.address),
       "free");
  slot = Slot{};
}

void World::set(std::mt19937_64& random) {
  const Range range = any_range(random);
  Slot& slot = slots_[range.slot];
  const int stream = static_cast<int>(any_stream(random));
  const auto byte = static_cast<unsigned char>(random());
  told(fmt::format("set slot {} [{}, +{}) to {} on stream {}", range.slot, range.offset, range.size,
                   byte, stream));
  settle_for(slot, stream);
  good(cu_.cuMemsetD8Async(slot.address + range.offset, byte, range.size,
                           streams_[static_cast<std::size_t>(stream)]),
       "cuMemsetD8Async");
  std::fill_n(slot.mirror.begin() + static_cast<std::ptrdiff_t>(range.offset), range.size, byte);
}

void World::copy(std::mt19937_64& random) {
  const Range from = any_range(random);
  const std::size_t to = any_live(random);
  if (to == from.slot) return;  // overlap is undefined
  Slot& source = slots_[from.slot];
  Slot& target = slots_[to];
  const std::size_t size = std::min(from.size, target.mirror.size());
  const std::size_t offset = below(random, target.mirror.size() - size + 1);
  const int stream = static_cast<int>(any_stream(random));
  told(fmt::format("copy slot {} [{}, +{}) to slot {} at {} on stream {}", from.slot, from.offset,
                   size, to, offset, stream));
  settle_for(source, stream);
  settle_for(target, stream);
  good(cu_.cuMemcpyAsync(target.address + offset, source.address + from.offset, size,
                         streams_[static_cast<std::size_t>(stream)]),
       "cuMemcpyAsync");
  std::copy_n(source.mirror.begin() + static_cast<std::ptrdiff_t>(from.offset), size,
              target.mirror.begin() + static_cast<std::ptrdiff_t>(offset));
}

/// From pageable host memory, which the program may write again at once.
void World::send(std::mt19937_64& random) {
  const Range range = any_range(random);
  Slot& slot = slots_[range.slot];
  told(fmt::format("send {} B to slot {} at {}", range.size, range.slot, range.offset));
  settle(slot);
  std::vector<unsigned char> bytes(range.size);
  for (unsigned char& each : bytes) each = static_cast<unsigned char>(random());
  good(cu_.cuMemcpyHtoD_v2(slot.address + range.offset, bytes.data(), bytes.size()),
       "cuMemcpyHtoD");
  // It returns when the source is free, which may be before the device is done; the slots' streams
  // do not wait for the default one.
  good(cu_.cuStreamSynchronize(nullptr), "cuStreamSynchronize");
  std::copy(bytes.begin(), bytes.end(),
            slot.mirror.begin() + static_cast<std::ptrdiff_t>(range.offset));
}

void World::store(std::mt19937_64& random) {
  const Range range = any_range(random);
  Slot& slot = slots_[range.slot];
  if (!host_reaches(slot.kind)) return;
  const auto byte = static_cast<unsigned char>(random());
  told(fmt::format("the host stores {} to slot {} [{}, +{})", byte, range.slot, range.offset,
                   range.size));
  settle_for_host(slot);
  std::memset(host(slot.address) + range.offset, byte, range.size);
  std::fill_n(slot.mirror.begin() + static_cast<std::ptrdiff_t>(range.offset), range.size, byte);
}

void World::advise(std::mt19937_64& random) {
  const Range range = any_range(random);
  const Slot& slot = slots_[range.slot];
  if (slot.kind != Kind::managed || !session_.facts.has(Attribute::concurrent_managed_access)) {
    return;
  }
  const auto advice = static_cast<abi::Advise>(1 + below(random, 6));
  const bool to_host = below(random, 2) == 0;
  told(fmt::format("advise slot {} [{}, +{}): advice {}, {}", range.slot, range.offset, range.size,
                   static_cast<unsigned>(advice), to_host ? "host" : "device"));
  if (cu_.cuMemAdvise_v2 != nullptr) {
    const abi::Location at{to_host ? abi::LocationType::host : abi::LocationType::device, 0};
    good(cu_.cuMemAdvise_v2(slot.address + range.offset, range.size, advice, at), "cuMemAdvise");
  } else {
    good(cu_.cuMemAdvise(slot.address + range.offset, range.size, advice,
                         to_host ? abi::device_cpu : 0),
         "cuMemAdvise");
  }
}

void World::prefetch(std::mt19937_64& random) {
  const Range range = any_range(random);
  Slot& slot = slots_[range.slot];
  if (slot.kind != Kind::managed || !session_.facts.has(Attribute::concurrent_managed_access)) {
    return;
  }
  const bool to_host = below(random, 2) == 0;
  const int stream = static_cast<int>(any_stream(random));
  told(fmt::format("prefetch slot {} [{}, +{}) to the {} on stream {}", range.slot, range.offset,
                   range.size, to_host ? "host" : "device", stream));
  settle_for(slot, stream);
  const abi::Stream on = streams_[static_cast<std::size_t>(stream)];
  if (cu_.cuMemPrefetchAsync_v2 != nullptr) {
    const abi::Location to{to_host ? abi::LocationType::host : abi::LocationType::device, 0};
    good(cu_.cuMemPrefetchAsync_v2(slot.address + range.offset, range.size, to, 0, on),
         "cuMemPrefetchAsync");
  } else {
    good(cu_.cuMemPrefetchAsync(slot.address + range.offset, range.size,
                                to_host ? abi::device_cpu : 0, on),
         "cuMemPrefetchAsync");
  }
}

void World::check(std::size_t at) {
  Slot& slot = slots_[at];
  told(fmt::format("check slot {}", at));
  settle_for_host(slot);
  std::vector<unsigned char> seen(slot.mirror.size());
  if (!host_reaches(slot.kind)) {
    good(cu_.cuMemcpyDtoH_v2(seen.data(), slot.address, seen.size()), "cuMemcpyDtoH");
  } else {
    std::memcpy(seen.data(), host(slot.address), seen.size());
  }
  compare(slot.mirror, seen,
          fmt::format("slot {}, {} memory", at, kind_name(static_cast<int>(slot.kind))));
}

void World::compare(const std::vector<unsigned char>& mirror,
                    const std::vector<unsigned char>& seen, const std::string& what) const {
  const auto [mine, theirs] = std::mismatch(mirror.begin(), mirror.end(), seen.begin());
  if (mine == mirror.end()) return;
  throw SequenceFailed{fmt::format("{}: byte {} of {} is {}, and should be {}", what,
                                   mine - mirror.begin(), mirror.size(), *theirs, *mine)};
}

void World::step(std::mt19937_64& random) {
  switch (below(random, 16)) {
    case 0:
    case 1: return allocate(random);
    case 2: return release(random, any_live(random));
    case 3:
    case 4: return set(random);
    case 5:
    case 6: return copy(random);
    case 7: return send(random);
    case 8: return store(random);
    case 9: return advise(random);
    case 10: return prefetch(random);
    case 11: return remap(random);
    case 12: return alias(random);
    case 13: return close(random);
    case 14: return trim(random);
    default: return check(any_live(random));
  }
}

void World::finish(std::mt19937_64& random) {
  for (std::size_t at = 0; at < slots_.size(); ++at) {
    if (slots_[at].kind != Kind::empty) release(random, at);
  }
  settle_farewells();
  end_pool();
  const assay_model_control* const model = session_.model;
  if (model == nullptr) return;
  for (const auto object :
       {assay_model_device, assay_model_managed, assay_model_pinned, assay_model_pool,
        assay_model_pooled, assay_model_reservation, assay_model_physical, assay_model_mapping}) {
    if (model->live_objects(object) == 0) continue;
    throw SequenceFailed{fmt::format("the model still counts {} objects of kind {}",
                                     model->live_objects(object), static_cast<int>(object))};
  }
  for (std::uint64_t i = 0; i < model->diagnosis_count(); ++i) {
    const std::string_view said = model->diagnosis(i);
    if (said.starts_with(refused_on_purpose)) continue;  // close() asked for it
    throw SequenceFailed{fmt::format("the model blames a program without fault: {}", said)};
  }
  model->forget_diagnoses();
}

}  // namespace assay::conformance
