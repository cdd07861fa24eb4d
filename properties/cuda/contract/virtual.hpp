// Virtual memory management as the tests, the sequences and the probes use it.
#pragma once

#include "suite/run.hpp"

namespace assay::conformance {

/// The driver manages virtual memory and so does the device.
[[nodiscard]] inline Needs virtual_memory() {
  return having(cuda::Feature::virtual_memory) +
         with(DeviceAttribute::virtual_memory_management_supported);
}

inline constexpr abi::Location first_device{abi::LocationType::device, 0};

[[nodiscard]] inline abi::AllocationProp on_device(abi::Device device = 0) {
  abi::AllocationProp properties{};
  properties.type = abi::AllocationType::pinned;
  properties.location = {abi::LocationType::device, device};
  return properties;
}

[[nodiscard]] inline std::size_t granularity(Run& run) {
  std::size_t size = 0;
  const abi::AllocationProp properties = on_device();
  run.must(run.cu.cuMemGetAllocationGranularity(&size, &properties, abi::GranularityFlags::minimum),
           "preparation: cuMemGetAllocationGranularity");
  return size;
}

[[nodiscard]] inline DevicePointer reserve(Run& run, std::size_t size) {
  DevicePointer address = 0;
  run.must(run.cu.cuMemAddressReserve(&address, size, 0, 0, 0), "preparation: cuMemAddressReserve");
  return address;
}

[[nodiscard]] inline abi::AllocationHandle create(Run& run, std::size_t size) {
  abi::AllocationHandle handle = 0;
  const abi::AllocationProp properties = on_device();
  run.must(run.cu.cuMemCreate(&handle, size, &properties, 0), "preparation: cuMemCreate");
  return handle;
}

inline void map(Run& run, DevicePointer at, std::size_t size, abi::AllocationHandle handle) {
  run.must(run.cu.cuMemMap(at, size, 0, handle, 0), "preparation: cuMemMap");
}

[[nodiscard]] inline Status grant(Run& run, DevicePointer at, std::size_t size,
                                  abi::AccessFlags flags, abi::Location where = first_device) {
  const abi::AccessDesc access{where, flags};
  return run.cu.cuMemSetAccess(at, size, &access, 1);
}

/// Gives device 0 all access.
inline void open(Run& run, DevicePointer at, std::size_t size) {
  run.must(grant(run, at, size, abi::AccessFlags::read_write), "preparation: cuMemSetAccess");
}

inline void unmap(Run& run, DevicePointer at, std::size_t size) {
  run.must(run.cu.cuMemUnmap(at, size), "cuMemUnmap");
}

inline void release(Run& run, abi::AllocationHandle handle) {
  run.must(run.cu.cuMemRelease(handle), "cuMemRelease");
}

/// Reserved, mapped and open: memory of `pieces` handles of `piece` bytes each, side by side.
[[nodiscard]] inline DevicePointer mapped(Run& run, std::size_t piece, std::size_t pieces = 1) {
  const DevicePointer address = reserve(run, piece * pieces);
  for (std::size_t i = 0; i < pieces; ++i) {
    map(run, address + i * piece, piece, create(run, piece));
  }
  open(run, address, piece * pieces);
  return address;
}

/// What device 0 may do at an address.
[[nodiscard]] inline unsigned long long access_at(Run& run, DevicePointer at) {
  unsigned long long flags = 77;
  run.must(run.cu.cuMemGetAccess(&flags, &first_device, at), "cuMemGetAccess");
  return flags;
}

}  // namespace assay::conformance
