#include "sequences/world.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <unistd.h>

namespace assay::conformance {
namespace {

using Attribute = DeviceAttribute;

constexpr std::size_t size_most = 256 * KiB;  ///< of one slot: 2 MiB in all, far below the cap

std::size_t below(std::mt19937_64& random, std::size_t limit) {
  return random() % limit;
}

const char* kind_name(int kind) {
  constexpr const char* names[] = {"empty", "device", "managed", "pinned"};
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
}

World::~World() {
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
  if (slot.stream != stream) settle(slot);
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

bool World::managed_works() const {
  return session_.facts.has(Attribute::managed_memory);
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
  if (slot.kind != Kind::empty) release(at);
  Kind kind = static_cast<Kind>(1 + below(random, 3));
  if (kind == Kind::managed && !managed_works()) kind = Kind::device;
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
  slot.kind = kind;
  const auto byte = static_cast<unsigned char>(random());
  slot.mirror.assign(size, byte);  // fresh contents are undefined: give them a value first
  good(cu_.cuMemsetD8Async(slot.address, byte, size, streams_[0]), "cuMemsetD8Async");
  slot.stream = 0;
}

void World::release(std::size_t at) {
  check(at);
  Slot& slot = slots_[at];
  told(fmt::format("free slot {}", at));
  good(slot.kind == Kind::pinned ? cu_.cuMemFreeHost(host(slot.address))
                                 : cu_.cuMemFree_v2(slot.address),
       "free");
  slot = Slot{};
}

void World::set(std::mt19937_64& random) {
  const Range range = any_range(random);
  Slot& slot = slots_[range.slot];
  const int stream = static_cast<int>(below(random, streams_.size()));
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
  const int stream = static_cast<int>(below(random, streams_.size()));
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
  if (slot.kind == Kind::device) return;
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
  const int stream = static_cast<int>(below(random, streams_.size()));
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
  if (slot.kind == Kind::device) {
    good(cu_.cuMemcpyDtoH_v2(seen.data(), slot.address, seen.size()), "cuMemcpyDtoH");
  } else {
    std::memcpy(seen.data(), host(slot.address), seen.size());
  }
  const auto [mine, theirs] = std::mismatch(slot.mirror.begin(), slot.mirror.end(), seen.begin());
  if (mine == slot.mirror.end()) return;
  throw SequenceFailed{fmt::format("slot {}, a {} of {} B: byte {} is {}, and should be {}", at,
                                   kind_name(static_cast<int>(slot.kind)), seen.size(),
                                   mine - slot.mirror.begin(), *theirs, *mine)};
}

void World::step(std::mt19937_64& random) {
  switch (below(random, 12)) {
    case 0:
    case 1: return allocate(random);
    case 2: return release(any_live(random));
    case 3:
    case 4: return set(random);
    case 5:
    case 6: return copy(random);
    case 7: return send(random);
    case 8: return store(random);
    case 9: return advise(random);
    case 10: return prefetch(random);
    default: return check(any_live(random));
  }
}

void World::finish() {
  for (std::size_t at = 0; at < slots_.size(); ++at) {
    if (slots_[at].kind != Kind::empty) release(at);
  }
  const assay_model_control* const model = session_.model;
  if (model == nullptr) return;
  for (const auto object : {assay_model_device, assay_model_managed, assay_model_pinned}) {
    if (model->live_objects(object) == 0) continue;
    throw SequenceFailed{fmt::format("the model still counts {} objects of kind {}",
                                     model->live_objects(object), static_cast<int>(object))};
  }
  if (model->diagnosis_count() > 0) {
    throw SequenceFailed{
        fmt::format("the model blames a program without fault: {}", model->diagnosis(0))};
  }
}

}  // namespace assay::conformance
