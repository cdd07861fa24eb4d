// Stream-ordered pools in a sequence: blocks whose allocation, use and free wait for nobody.
#include <utility>

#include <fmt/format.h>

#include "sequences/world.hpp"

namespace assay::conformance {
namespace {

constexpr std::size_t farewells_most = 8;

}  // namespace

void World::make_pool() {
  if (!session_.has(cuda::Feature::pools) ||
      !session_.facts.has(DeviceAttribute::memory_pools_supported)) {
    return;
  }
  abi::MemPoolProps properties{};
  properties.alloc_type = abi::AllocationType::pinned;
  properties.location = {abi::LocationType::device, 0};
  good(cu_.cuMemPoolCreate(&pool_, &properties), "cuMemPoolCreate");
  std::uint64_t threshold = MiB;
  good(cu_.cuMemPoolSetAttribute(pool_, abi::MemPoolAttribute::release_threshold, &threshold),
       "cuMemPoolSetAttribute");
}

void World::end_pool() {
  if (pool_ == nullptr) return;
  std::uint64_t used = 1;
  good(cu_.cuMemPoolGetAttribute(pool_, abi::MemPoolAttribute::used_mem_current, &used),
       "cuMemPoolGetAttribute");
  if (used != 0) {
    throw SequenceFailed{fmt::format("a pool without blocks has {} B in use", used)};
  }
  good(cu_.cuMemPoolDestroy(std::exchange(pool_, nullptr)), "cuMemPoolDestroy");
}

/// From the sequence's own pool, or the current one.
void World::allocate_pooled(std::mt19937_64& random, Slot& slot, std::size_t size) {
  const std::size_t stream = any_stream(random);
  const bool own = below(random, 2) == 0;
  told(fmt::format("  from {} pool on stream {}", own ? "its own" : "the current", stream));
  good(own ? cu_.cuMemAllocFromPoolAsync(&slot.address, size, pool_, streams_[stream])
           : cu_.cuMemAllocAsync(&slot.address, size, streams_[stream]),
       "cuMemAllocAsync");
  slot.stream = static_cast<int>(stream);
}

/// What is asked of `after` from now on waits for what `before` was asked until now.
void World::order(std::size_t before, std::size_t after) {
  abi::Event event = nullptr;
  good(cu_.cuEventCreate(&event, abi::event_disable_timing), "cuEventCreate");
  good(cu_.cuEventRecord(event, streams_[before]), "cuEventRecord");
  good(cu_.cuStreamWaitEvent(streams_[after], event, 0), "cuStreamWaitEvent");
  good(cu_.cuEventDestroy_v2(event), "cuEventDestroy");
}

/// Waits first, or lets a last copy and the free take their turn on a stream.
void World::free_pooled(std::mt19937_64& random, std::size_t at) {
  Slot& slot = slots_[at];
  const std::size_t stream = any_stream(random);
  if (below(random, 4) == 0) {
    check(at);
    told(fmt::format("free slot {} with no stream", at));
    good(cu_.cuMemFree_v2(slot.address), "cuMemFree");
  } else {
    if (farewells_.size() == farewells_most) settle_farewells();
    told(fmt::format("free slot {} on stream {}, behind a copy", at, stream));
    settle_for(slot, static_cast<int>(stream));
    farewells_.push_back({std::vector<unsigned char>(slot.mirror.size()), std::move(slot.mirror),
                          fmt::format("the last copy of slot {}", at)});
    std::vector<unsigned char>& seen = farewells_.back().seen;
    good(cu_.cuMemcpyDtoHAsync_v2(seen.data(), slot.address, seen.size(), streams_[stream]),
         "cuMemcpyDtoHAsync");
    good(cu_.cuMemFreeAsync(slot.address, streams_[stream]), "cuMemFreeAsync");
  }
  slot = Slot{};
}

void World::settle_farewells() {
  for (const abi::Stream stream : streams_) {
    good(cu_.cuStreamSynchronize(stream), "cuStreamSynchronize");
  }
  for (const Farewell& each : farewells_) compare(each.mirror, each.seen, each.step);
  farewells_.clear();
}

void World::trim(std::mt19937_64& random) {
  if (pool_ == nullptr) return;
  const std::size_t keep = below(random, 2) * MiB;
  if (below(random, 2) == 0) settle_farewells();
  told(fmt::format("trim the pool to {} B", keep));
  good(cu_.cuMemPoolTrimTo(pool_, keep), "cuMemPoolTrimTo");
}

}  // namespace assay::conformance
