// Pools by location and type, as 13.0 has them: default and current ones, and managed pools.
#include <cstring>

#include "contract/groups.hpp"
#include "contract/pool.hpp"

namespace assay::conformance {
namespace {

using enum Source;
using abi::AllocationType;
using abi::Location;
using abi::LocationType;
using Attribute = DeviceAttribute;

constexpr Location device_0{LocationType::device, 0};
constexpr Location the_host{LocationType::host, 0};
constexpr Location nowhere{LocationType::none, 0};

Needs by_location() {
  return pools() + having(cuda::Feature::location_pools);
}
Needs managed() {
  return by_location() + with(Attribute::concurrent_managed_access);
}

abi::MemPoolProps managed_pool(Location where) {
  abi::MemPoolProps properties{};
  properties.alloc_type = AllocationType::managed;
  properties.location = where;
  return properties;
}

Status create(Run& run, const abi::MemPoolProps& properties) {
  abi::MemPool pool = nullptr;
  return run.cu.cuMemPoolCreate(&pool, &properties);
}

abi::MemPool current_of(Run& run, Location where, AllocationType type) {
  abi::MemPool pool = nullptr;
  run.must(run.cu.cuMemGetMemPool(&pool, &where, type), "cuMemGetMemPool");
  return pool;
}

Status default_of(Run& run, Location where, AllocationType type) {
  abi::MemPool pool = nullptr;
  return run.cu.cuMemGetDefaultMemPool(&pool, &where, type);
}

void of_device(Run& run) {
  Location where = device_0;
  abi::MemPool pool = nullptr;
  run.code("cuMemGetDefaultMemPool",
           run.cu.cuMemGetDefaultMemPool(&pool, &where, AllocationType::pinned));
  run.holds("it is the device's", pool == default_pool(run));
  run.holds("at first it is current", current_of(run, where, AllocationType::pinned) == pool);
  const abi::MemPool mine = make_pool(run);
  run.code("cuMemSetMemPool", run.cu.cuMemSetMemPool(&where, AllocationType::pinned, mine));
  abi::MemPool seen = nullptr;
  run.must(run.cu.cuDeviceGetMemPool(&seen, 0), "cuDeviceGetMemPool");
  run.holds("as cuDeviceSetMemPool does", seen == mine);
  run.must(run.cu.cuDeviceSetMemPool(0, pool), "cuDeviceSetMemPool");
  run.holds("and the other way", current_of(run, where, AllocationType::pinned) == pool);
}

void both_sides(Run& run) {
  const abi::Stream stream = run.stream();
  const abi::MemPoolProps properties = managed_pool(device_0);
  abi::MemPool pool = nullptr;
  run.code("cuMemPoolCreate", run.cu.cuMemPoolCreate(&pool, &properties));
  if (pool == nullptr) return;
  const DevicePointer address = pooled_from(run, page, pool, stream);
  run.must(run.cu.cuMemsetD8Async(address, 0x11, page, stream), "cuMemsetD8Async");
  synchronize(run, stream);
  run.signal("the host reads", read_at(host(address)));
  run.holds("what the device wrote", host(address)[page - 1] == std::byte{0x11});
  std::memset(host(address), 0x22, page);
  run.holds("the device reads what the host wrote", run.filled(address, 0x22, page));
  unsigned is_managed = 0;
  run.must(run.cu.cuPointerGetAttribute(&is_managed, abi::PointerAttribute::is_managed, address),
           "cuPointerGetAttribute");
  run.value("managed", is_managed);
  run.code("cuMemFreeAsync", run.cu.cuMemFreeAsync(address, stream));
  run.code("cuStreamSynchronize", run.cu.cuStreamSynchronize(stream));
  run.code("cuMemPoolDestroy", run.cu.cuMemPoolDestroy(pool));
}

void managed_defaults(Run& run) {
  Location where = nowhere;
  abi::MemPool pool = nullptr;
  run.code("of no location", run.cu.cuMemGetDefaultMemPool(&pool, &where, AllocationType::managed));
  run.holds("it is not the pinned one", pool != default_pool(run));
  run.holds("at first it is current", current_of(run, where, AllocationType::managed) == pool);
  run.code("of a device", default_of(run, device_0, AllocationType::managed));
}

Status set(Run& run, Location where, AllocationType type, abi::MemPool pool) {
  return run.cu.cuMemSetMemPool(&where, type, pool);
}

Tests managed_pools() {
  const auto refused = std::vector<std::int64_t>{invalid_value};
  return {
      {"location_pool.managed",
       "a managed pool's memory is reached from both sides",
       managed(),
       {succeeds("cuMemPoolCreate", hdr), touches("the host reads", hdr),
        holds("what the device wrote", hdr), holds("the device reads what the host wrote", hdr),
        value("managed", {1}, unsure), succeeds("cuMemFreeAsync", hdr),
        succeeds("cuStreamSynchronize", hdr), succeeds("cuMemPoolDestroy", hdr)},
       both_sides},
      {"location_pool.managed_default",
       "managed pools have defaults, also for no location",
       managed(),
       {succeeds("of no location", hdr), holds("it is not the pinned one", hdr),
        holds("at first it is current", hdr), succeeds("of a device", hdr)},
       managed_defaults},
      answers(
          "location_pool.managed_nowhere", "a managed pool may prefer no location", {ok}, hdr,
          [](Run& run) { return create(run, managed_pool(nowhere)); }, managed()),
      answers(
          "location_pool.managed_max_size", "it has no largest size", refused, unsure,
          [](Run& run) {
            abi::MemPoolProps properties = managed_pool(device_0);
            properties.max_size = 64 * MiB;
            return create(run, properties);
          },
          managed()),
      answers(
          "location_pool.managed_shared", "and is not shared between processes",
          {invalid_value, not_supported}, unsure,
          [](Run& run) {
            abi::MemPoolProps properties = managed_pool(device_0);
            properties.handle_types = abi::HandleType::posix_file_descriptor;
            return create(run, properties);
          },
          managed()),
      answers(
          "location_pool.managed_exclusive", "a device without concurrent access has no such pool",
          {not_supported}, unsure, [](Run& run) { return create(run, managed_pool(device_0)); },
          by_location() + without(Attribute::concurrent_managed_access)),
      answers(
          "location_pool.managed_early", "before 13.0 there is no managed pool",
          {invalid_value, not_supported}, unsure,
          [](Run& run) { return create(run, managed_pool(device_0)); }, pools() + before(13000)),
  };
}

Tests refusals() {
  const auto refused = std::vector<std::int64_t>{invalid_value};
  return {
      answers(
          "location_pool.pinned_nowhere", "pinned memory lies somewhere", refused, hdr,
          [](Run& run) { return default_of(run, nowhere, AllocationType::pinned); }, by_location()),
      answers(
          "location_pool.node_current", "the current node is no location of a pool", refused, hdr,
          [](Run& run) {
            return default_of(run, {LocationType::host_numa_current, 0}, AllocationType::pinned);
          },
          by_location()),
      answers(
          "location_pool.type", "a type is pinned or managed", refused, hdr,
          [](Run& run) { return default_of(run, device_0, AllocationType::invalid); },
          by_location()),
      answers(
          "location_pool.bad_device", "a device is one that is there", {invalid_device}, hdr,
          [](Run& run) {
            return default_of(run, {LocationType::device, 99}, AllocationType::pinned);
          },
          by_location()),
      answers(
          "location_pool.host_unsupported", "host memory where there are no such pools",
          {not_supported}, hdr,
          [](Run& run) { return default_of(run, the_host, AllocationType::pinned); },
          by_location() + without(Attribute::host_memory_pools_supported)),
      answers(
          "location_pool.host", "host memory has a default pool", {ok}, hdr,
          [](Run& run) { return default_of(run, the_host, AllocationType::pinned); },
          by_location() + with(Attribute::host_memory_pools_supported)),
      answers(
          "location_pool.set_elsewhere", "a pool is current for its own location", refused, hdr,
          [](Run& run) { return set(run, the_host, AllocationType::pinned, make_pool(run)); },
          by_location()),
      answers(
          "location_pool.set_other_type", "and its own type", refused, hdr,
          [](Run& run) { return set(run, device_0, AllocationType::managed, make_pool(run)); },
          managed()),
      answers(
          "location_pool.set_null", "no pool cannot be current", refused, hdr,
          [](Run& run) { return set(run, device_0, AllocationType::pinned, nullptr); },
          by_location()),
      answers(
          "location_pool.null_out", "the pool is written somewhere", refused, hdr,
          [](Run& run) {
            Location where = device_0;
            return run.cu.cuMemGetDefaultMemPool(nullptr, &where, AllocationType::pinned);
          },
          by_location() + null_out_pointer()),
      answers(
          "location_pool.null_location", "of a location", refused, hdr,
          [](Run& run) {
            abi::MemPool pool = nullptr;
            return run.cu.cuMemGetMemPool(&pool, nullptr, AllocationType::pinned);
          },
          by_location() + model_only("a driver may read a null pointer")),
      answers(
          "location_pool.unsupported", "a device without pools has none by location",
          {not_supported}, hdr,
          [](Run& run) { return default_of(run, device_0, AllocationType::pinned); },
          having(cuda::Feature::location_pools) + without(Attribute::memory_pools_supported)),
  };
}

}  // namespace

Tests location_pool_tests() {
  Tests tests = {
      {"location_pool.device",
       "for pinned memory of a device the calls are those of the device",
       by_location(),
       {succeeds("cuMemGetDefaultMemPool", hdr), holds("it is the device's", hdr),
        holds("at first it is current", hdr), succeeds("cuMemSetMemPool", hdr),
        holds("as cuDeviceSetMemPool does", hdr), holds("and the other way", hdr)},
       of_device},
  };
  for (Test& test : managed_pools()) tests.push_back(std::move(test));
  for (Test& test : refusals()) tests.push_back(std::move(test));
  return tests;
}

}  // namespace assay::conformance
