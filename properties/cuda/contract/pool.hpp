// Stream-ordered pools as the tests, the sequences and the probes use them.
#pragma once

#include <cstdint>

#include "suite/run.hpp"

namespace assay::conformance {

/// The driver has pools and so has the device.
[[nodiscard]] inline Needs pools() {
  return having(cuda::Feature::pools) + with(DeviceAttribute::memory_pools_supported);
}

[[nodiscard]] inline abi::MemPoolProps pool_of_device(std::size_t max_size = 0,
                                                      abi::Device device = 0) {
  abi::MemPoolProps properties{};
  properties.alloc_type = abi::AllocationType::pinned;
  properties.location = {abi::LocationType::device, device};
  properties.max_size = max_size;
  return properties;
}

[[nodiscard]] inline abi::MemPool make_pool(Run& run, std::size_t max_size = 0) {
  abi::MemPool pool = nullptr;
  const abi::MemPoolProps properties = pool_of_device(max_size);
  run.must(run.cu.cuMemPoolCreate(&pool, &properties), "preparation: cuMemPoolCreate");
  return pool;
}

[[nodiscard]] inline abi::MemPool default_pool(Run& run) {
  abi::MemPool pool = nullptr;
  run.must(run.cu.cuDeviceGetDefaultMemPool(&pool, 0), "preparation: cuDeviceGetDefaultMemPool");
  return pool;
}

/// A block of the device's current pool.
[[nodiscard]] inline DevicePointer pooled(Run& run, std::size_t size, abi::Stream stream) {
  DevicePointer address = 0;
  run.must(run.cu.cuMemAllocAsync(&address, size, stream), "preparation: cuMemAllocAsync");
  return address;
}

[[nodiscard]] inline DevicePointer pooled_from(Run& run, std::size_t size, abi::MemPool pool,
                                               abi::Stream stream) {
  DevicePointer address = 0;
  run.must(run.cu.cuMemAllocFromPoolAsync(&address, size, pool, stream),
           "preparation: cuMemAllocFromPoolAsync");
  return address;
}

/// The reuse flags are 4 bytes, all else 8.
[[nodiscard]] inline std::uint64_t pool_value(Run& run, abi::MemPool pool,
                                              abi::MemPoolAttribute which) {
  std::uint64_t value = 0;
  run.must(run.cu.cuMemPoolGetAttribute(pool, which, &value), "cuMemPoolGetAttribute");
  return value;
}

/// Holds on to whatever is free.
inline void keep_everything(Run& run, abi::MemPool pool) {
  std::uint64_t most = ~std::uint64_t{0};
  run.must(run.cu.cuMemPoolSetAttribute(pool, abi::MemPoolAttribute::release_threshold, &most),
           "preparation: cuMemPoolSetAttribute");
}

inline void synchronize(Run& run, abi::Stream stream) {
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
}

inline void free_async(Run& run, DevicePointer address, abi::Stream stream) {
  run.must(run.cu.cuMemFreeAsync(address, stream), "cuMemFreeAsync");
}

/// Sets a page of a block.
inline void set(Run& run, DevicePointer address, unsigned char byte, abi::Stream stream) {
  run.must(run.cu.cuMemsetD8Async(address, byte, page, stream), "cuMemsetD8Async");
}

/// `after` waits for what `before` has been given so far.
inline void order(Run& run, abi::Stream before, abi::Stream after) {
  const abi::Event event = run.event();
  run.must(run.cu.cuEventRecord(event, before), "cuEventRecord");
  run.must(run.cu.cuStreamWaitEvent(after, event, 0), "cuStreamWaitEvent");
}

}  // namespace assay::conformance
