// Pools: their making and their end, and which one is current.
#include "contract/pool.hpp"

#include "contract/groups.hpp"

namespace assay::conformance {
namespace {

using enum Source;
using abi::LocationType;
using abi::MemPoolAttribute;
using Attribute = DeviceAttribute;

constexpr const char* undefined = "the use of a destroyed pool is undefined";

void life(Run& run) {
  abi::MemPool pool = nullptr;
  const abi::MemPoolProps properties = pool_of_device();
  run.code("cuMemPoolCreate", run.cu.cuMemPoolCreate(&pool, &properties));
  run.holds("a pool is given", pool != nullptr);
  run.holds("it is not the default one", pool != default_pool(run));
  run.code("cuMemPoolDestroy", run.cu.cuMemPoolDestroy(pool));
}

Status create(Run& run, const abi::MemPoolProps& properties) {
  abi::MemPool pool = nullptr;
  return run.cu.cuMemPoolCreate(&pool, &properties);
}

Status create_at(Run& run, abi::Location where) {
  abi::MemPoolProps properties = pool_of_device();
  properties.location = where;
  return create(run, properties);
}

Status create_typed(Run& run, abi::AllocationType type) {
  abi::MemPoolProps properties = pool_of_device();
  properties.alloc_type = type;
  return create(run, properties);
}

Status create_shared(Run& run, abi::Location where) {
  abi::MemPoolProps properties = pool_of_device();
  properties.location = where;
  properties.handle_types = abi::HandleType::posix_file_descriptor;
  return create(run, properties);
}

abi::MemPool destroyed(Run& run) {
  const abi::MemPool pool = make_pool(run);
  run.must(run.cu.cuMemPoolDestroy(pool), "cuMemPoolDestroy");
  return pool;
}

void failure_leaves_out(Run& run) {
  auto* const before = reinterpret_cast<abi::MemPool>(77);
  abi::MemPool pool = before;
  abi::MemPoolProps properties = pool_of_device();
  properties.reserved[53] = 1;
  run.code("cuMemPoolCreate", run.cu.cuMemPoolCreate(&pool, &properties));
  run.holds("the out-parameter is untouched", pool == before);
}

void host_pool(Run& run) {
  const abi::Stream stream = run.stream();
  abi::MemPoolProps properties = pool_of_device();
  properties.location = {LocationType::host, 0};
  abi::MemPool pool = nullptr;
  run.code("cuMemPoolCreate", run.cu.cuMemPoolCreate(&pool, &properties));
  if (pool == nullptr) return;
  const DevicePointer address = pooled_from(run, page, pool, stream);
  synchronize(run, stream);
  run.signal("the host writes its memory", write_at(host(address)));
}

Tests creation() {
  const auto refused = std::vector<std::int64_t>{invalid_value};
  return {
      {"pool.life",
       "a pool is made and destroyed",
       pools(),
       {succeeds("cuMemPoolCreate", hdr), holds("a pool is given", hdr),
        holds("it is not the default one", hdr), succeeds("cuMemPoolDestroy", hdr)},
       life},
      {"pool.create_reserved",
       "reserved bytes are 0, and a refusal leaves the out-parameter alone",
       pools(),
       {code("cuMemPoolCreate", refused, hdr), holds("the out-parameter is untouched", hdr)},
       failure_leaves_out},
      answers(
          "pool.create_type", "a pool has an allocation type", refused, hdr,
          [](Run& run) { return create_typed(run, abi::AllocationType::invalid); }, pools()),
      answers(
          "pool.create_type_unknown", "which is one that there is", refused, hdr,
          [](Run& run) { return create_typed(run, static_cast<abi::AllocationType>(0x55)); },
          pools()),
  };
}

Tests places() {
  const auto refused = std::vector<std::int64_t>{invalid_value};
  const auto absent = std::vector<std::int64_t>{not_supported, invalid_value};
  return {
      answers(
          "pool.create_nowhere", "a pinned pool lies somewhere", refused, hdr,
          [](Run& run) { return create_at(run, {LocationType::none, 0}); }, pools()),
      answers(
          "pool.create_location_unknown", "at a location of a known type", refused, hdr,
          [](Run& run) { return create_at(run, {static_cast<LocationType>(0x55), 0}); }, pools()),
      answers(
          "pool.create_bad_device", "on a device that is there", {invalid_value, invalid_device},
          unsure, [](Run& run) { return create_at(run, {LocationType::device, 99}); }, pools()),
      answers(
          "pool.create_node_current", "the current node is no location of a pool", refused, hdr,
          [](Run& run) { return create_at(run, {LocationType::host_numa_current, 0}); },
          pools() + since(12020)),
      {"pool.create_host",
       "a pool of host memory, which the host reaches by default",
       pools() + with(Attribute::host_memory_pools_supported),
       {succeeds("cuMemPoolCreate", hdr), touches("the host writes its memory", hdr)},
       host_pool},
      answers(
          "pool.create_host_unsupported", "host memory where the device has no such pools", absent,
          hdr, [](Run& run) { return create_at(run, {LocationType::host, 0}); },
          pools() + without(Attribute::host_memory_pools_supported)),
      answers(
          "pool.create_node_unsupported", "and a node's memory", absent, hdr,
          [](Run& run) { return create_at(run, {LocationType::host_numa, 0}); },
          pools() + without(Attribute::host_numa_memory_pools_supported)),
      answers(
          "pool.create_host_shared", "host memory is not shared between processes", refused, hdr,
          [](Run& run) { return create_shared(run, {LocationType::host, 0}); },
          pools() + with(Attribute::host_memory_pools_supported)),
      answers(
          "pool.create_shared_unsupported", "handle types that the device has not", absent, hdr,
          [](Run& run) { return create_shared(run, {LocationType::device, 0}); },
          pools() + without(Attribute::mempool_supported_handle_types)),
  };
}

Tests ends() {
  const auto refused = std::vector<std::int64_t>{invalid_value};
  return {
      answers(
          "pool.create_max_size_early", "before 12.2 the largest size was a reserved field",
          refused, hdr, [](Run& run) { return create(run, pool_of_device(MiB)); },
          pools() + before(12020)),
      answers(
          "pool.create_usage", "a usage is one that there is", refused, unsure,
          [](Run& run) {
            abi::MemPoolProps properties = pool_of_device();
            properties.usage = 0x4000;
            return create(run, properties);
          },
          pools() + since(12020)),
      answers(
          "pool.create_null_out", "cuMemPoolCreate needs somewhere to write", refused, hdr,
          [](Run& run) {
            const abi::MemPoolProps properties = pool_of_device();
            return run.cu.cuMemPoolCreate(nullptr, &properties);
          },
          pools() + null_out_pointer()),
      answers(
          "pool.create_null_properties", "and properties to read", refused, hdr,
          [](Run& run) {
            abi::MemPool pool = nullptr;
            return run.cu.cuMemPoolCreate(&pool, nullptr);
          },
          pools() + model_only("a driver may read a null pointer")),
      answers(
          "pool.create_unsupported", "a device without pools makes none", {not_supported}, hdr,
          [](Run& run) { return create(run, pool_of_device()); },
          having(cuda::Feature::pools) + without(Attribute::memory_pools_supported)),
      answers(
          "pool.destroy_null", "no pool is none to destroy", refused, hdr,
          [](Run& run) { return run.cu.cuMemPoolDestroy(nullptr); }, pools()),
      answers(
          "pool.destroy_default", "the default pool stays", refused, hdr,
          [](Run& run) { return run.cu.cuMemPoolDestroy(default_pool(run)); }, pools()),
      answers(
          "pool.destroy_twice", "a pool is destroyed once", refused, hdr,
          [](Run& run) { return run.cu.cuMemPoolDestroy(destroyed(run)); },
          pools() + model_only(undefined)),
  };
}

void current(Run& run) {
  const abi::Stream stream = run.stream();
  const abi::MemPool usual = default_pool(run);
  abi::MemPool seen = nullptr;
  run.holds("the default is the same each time", usual != nullptr && usual == default_pool(run));
  run.must(run.cu.cuDeviceGetMemPool(&seen, 0), "cuDeviceGetMemPool");
  run.holds("at first it is the current one", seen == usual);
  const abi::MemPool mine = make_pool(run);
  run.code("cuDeviceSetMemPool", run.cu.cuDeviceSetMemPool(0, mine));
  run.must(run.cu.cuDeviceGetMemPool(&seen, 0), "cuDeviceGetMemPool");
  run.holds("then another is", seen == mine);
  run.holds("the default stays what it is", default_pool(run) == usual);
  const DevicePointer address = pooled(run, MiB, stream);
  run.holds("cuMemAllocAsync takes from the current one",
            pool_value(run, mine, MemPoolAttribute::used_mem_current) >= MiB);
  free_async(run, address, stream);
  synchronize(run, stream);
  run.code("cuMemPoolDestroy of the current one", run.cu.cuMemPoolDestroy(mine));
  run.must(run.cu.cuDeviceGetMemPool(&seen, 0), "cuDeviceGetMemPool");
  run.holds("makes the default current again", seen == usual);
}

Status set_others(Run& run) {
  int count = 0;
  run.must(run.cu.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (count < 2) run.skip("needs two devices");
  abi::MemPool pool = nullptr;
  const abi::MemPoolProps properties = pool_of_device(0, 1);
  run.must(run.cu.cuMemPoolCreate(&pool, &properties), "preparation: cuMemPoolCreate");
  return run.cu.cuDeviceSetMemPool(0, pool);
}

Tests currents() {
  const auto device = std::vector<std::int64_t>{invalid_device, invalid_value};
  const Needs absent = having(cuda::Feature::pools) + without(Attribute::memory_pools_supported);
  return {
      {"pool.current",
       "a device has a default pool and a current one, from which cuMemAllocAsync takes",
       pools(),
       {holds("the default is the same each time", hdr),
        holds("at first it is the current one", hdr), succeeds("cuDeviceSetMemPool", hdr),
        holds("then another is", hdr), holds("the default stays what it is", hdr),
        holds("cuMemAllocAsync takes from the current one", hdr),
        succeeds("cuMemPoolDestroy of the current one", hdr),
        holds("makes the default current again", hdr)},
       current},
      answers(
          "pool.default_bad_device", "the default pool of a device that is there", {invalid_device},
          hdr,
          [](Run& run) {
            abi::MemPool pool = nullptr;
            return run.cu.cuDeviceGetDefaultMemPool(&pool, 99);
          },
          pools()),
      answers(
          "pool.current_bad_device", "and the current one", device, unsure,
          [](Run& run) {
            abi::MemPool pool = nullptr;
            return run.cu.cuDeviceGetMemPool(&pool, 99);
          },
          pools()),
      answers(
          "pool.set_bad_device", "is set for a device that is there", device, unsure,
          [](Run& run) { return run.cu.cuDeviceSetMemPool(99, make_pool(run)); }, pools()),
      answers(
          "pool.set_null", "no pool cannot be current", {invalid_value}, hdr,
          [](Run& run) { return run.cu.cuDeviceSetMemPool(0, nullptr); }, pools()),
      answers("pool.set_others", "nor one of another device", {invalid_value}, hdr, set_others,
              pools()),
      answers(
          "pool.set_dead", "nor a destroyed one", {invalid_value}, hdr,
          [](Run& run) { return run.cu.cuDeviceSetMemPool(0, destroyed(run)); },
          pools() + model_only(undefined)),
      answers(
          "pool.default_unsupported", "a device without pools has no default one", {not_supported},
          hdr,
          [](Run& run) {
            abi::MemPool pool = nullptr;
            return run.cu.cuDeviceGetDefaultMemPool(&pool, 0);
          },
          absent),
      answers(
          "pool.default_null_out", "the default pool is written somewhere", {invalid_value}, hdr,
          [](Run& run) { return run.cu.cuDeviceGetDefaultMemPool(nullptr, 0); },
          pools() + null_out_pointer()),
      answers(
          "pool.current_null_out", "and so is the current one", {invalid_value}, hdr,
          [](Run& run) { return run.cu.cuDeviceGetMemPool(nullptr, 0); },
          pools() + null_out_pointer()),
  };
}

}  // namespace

Tests pool_tests() {
  Tests tests = creation();
  for (Test& test : places()) tests.push_back(std::move(test));
  for (Test& test : ends()) tests.push_back(std::move(test));
  for (Test& test : currents()) tests.push_back(std::move(test));
  return tests;
}

}  // namespace assay::conformance
