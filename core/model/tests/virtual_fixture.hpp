// What the tests of virtual memory management have in common.
#pragma once

#include <vector>

#include "assay/cuda/abi/kernels.hpp"
#include "model_fixture.hpp"

namespace assay::cuda::model_test {

inline AllocationProp device_properties(Device device = 0) {
  AllocationProp properties{};
  properties.type = AllocationType::pinned;
  properties.location = {LocationType::device, device};
  return properties;
}

inline std::size_t granularity(GranularityFlags option = GranularityFlags::minimum) {
  const AllocationProp properties = device_properties();
  std::size_t size = 0;
  EXPECT_STATUS(0, cuMemGetAllocationGranularity(&size, &properties, option));
  return size;
}

inline DevicePointer reserve(std::size_t size, std::size_t alignment = 0) {
  DevicePointer address = 0;
  EXPECT_STATUS(0, cuMemAddressReserve(&address, size, alignment, 0, 0));
  return address;
}

inline AllocationHandle create(std::size_t size, Device device = 0) {
  const AllocationProp properties = device_properties(device);
  AllocationHandle handle = 0;
  EXPECT_STATUS(0, cuMemCreate(&handle, size, &properties, 0));
  return handle;
}

inline void map(DevicePointer address, std::size_t size, AllocationHandle handle) {
  EXPECT_STATUS(0, cuMemMap(address, size, 0, handle, 0));
}

inline void open(DevicePointer address, std::size_t size, Device device = 0,
                 AccessFlags flags = AccessFlags::read_write) {
  const AccessDesc descriptor{{LocationType::device, device}, flags};
  EXPECT_STATUS(0, cuMemSetAccess(address, size, &descriptor, 1));
}

/// A handle that is released at once: the memory goes with the mapping.
inline void map_new(DevicePointer address, std::size_t size, Device device = 0) {
  const AllocationHandle handle = create(size, device);
  map(address, size, handle);
  EXPECT_STATUS(0, cuMemRelease(handle));
}

/// Memory that device 0 may read and write, alone in its reservation.
inline DevicePointer mapped_memory(std::size_t size) {
  const DevicePointer address = reserve(size);
  map_new(address, size);
  open(address, size);
  return address;
}

/// `mapped` bytes, all that is mapped, from the beginning of a reservation.
inline void unmap_and_free(DevicePointer address, std::size_t mapped, std::size_t reserved = 0) {
  EXPECT_STATUS(0, cuMemUnmap(address, mapped));
  EXPECT_STATUS(0, cuMemAddressFree(address, reserved == 0 ? mapped : reserved));
}

inline std::vector<unsigned char> bytes_at(DevicePointer address, std::size_t size) {
  std::vector<unsigned char> bytes(size);
  EXPECT_STATUS(0, cuMemcpyDtoH_v2(bytes.data(), address, size));
  return bytes;
}

inline AccessDesc for_device(Device device, AccessFlags flags) {
  return {{LocationType::device, device}, flags};
}

inline unsigned long long access_of(DevicePointer address, Device device = 0) {
  const Location location{LocationType::device, device};
  unsigned long long flags = 42;
  EXPECT_STATUS(0, cuMemGetAccess(&flags, &location, address));
  return flags;
}

struct FillKernel {
  FillKernel() {
    Module module = nullptr;
    EXPECT_STATUS(0, cuModuleLoadData(&module, kernel_ptx));
    EXPECT_STATUS(0, cuModuleGetFunction(&function, module, FillParameters::entry));
  }
  void launch(DevicePointer address, std::size_t bytes, Stream stream = nullptr) const {
    std::uint64_t values[4] = {address, bytes / sizeof(std::uint64_t), 0x1111, 0};
    void* arguments[4] = {&values[0], &values[1], &values[2], &values[3]};
    EXPECT_STATUS(0, cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr));
  }
  abi::Function function = nullptr;
};

/// Is there a diagnosis that has all these parts?
inline bool diagnosed(const std::vector<std::string>& parts) {
  for (std::uint64_t i = 0; i < control().diagnosis_count(); ++i) {
    const std::string text = control().diagnosis(i);
    bool all = true;
    for (const std::string& part : parts) all = all && contains(text, part);
    if (all) return true;
  }
  return false;
}

}  // namespace assay::cuda::model_test
