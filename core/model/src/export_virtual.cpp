// Virtual memory management: addresses, physical memory, mappings, access.
#include <span>
#include <string>

#include "arena.hpp"
#include "call.hpp"
#include "profile.hpp"
#include "virtual_memory.hpp"

namespace assay::cuda::model {

namespace {

Status check_supported() {
  if (profile().has(DeviceAttribute::virtual_memory_management_supported)) return Status::success;
  return answer(Rule::virtual_unsupported, Status::not_supported);
}

bool device_exists(Device device) {
  return device >= 0 && device < profile().devices;
}

bool is_granular(std::uint64_t value) {
  return value % profile().granularity_bytes == 0;
}

std::string granularity_text() {
  return "no multiple of the granularity, " + std::to_string(profile().granularity_bytes);
}

/// The model has physical memory on devices only, as its attributes 141 and 145 say.
Status check_physical_location(Location location) {
  switch (location.type) {
    case LocationType::device:
      if (device_exists(location.id)) return Status::success;
      return answer(Rule::physical_device, Status::invalid_device);
    case LocationType::host:
    case LocationType::host_numa: return answer(Rule::physical_host, Status::not_supported);
    case LocationType::host_numa_current:
    case LocationType::none: break;
  }
  return answer(Rule::physical_location, Status::invalid_value);
}

Status check_properties(const AllocationProp& properties) {
  if (properties.type != AllocationType::pinned) {
    return answer(Rule::physical_type, Status::invalid_value);
  }
  const Status bad_location = check_physical_location(properties.location);
  if (bad_location != Status::success) return bad_location;
  if (properties.requested_handle_types != HandleType::none) {
    return answer(Rule::physical_handle_types, Status::not_supported);
  }
  return Status::success;
}

/// Of access to memory of a device.
Status check_access_location(Location location) {
  if (location.type != LocationType::device) {
    return answer(Rule::access_location, Status::invalid_value);
  }
  if (device_exists(location.id)) return Status::success;
  return answer(Rule::access_device, Status::invalid_device);
}

Status check_descriptor(const AccessDesc& descriptor) {
  switch (descriptor.flags) {
    case AccessFlags::none:
    case AccessFlags::read:
    case AccessFlags::read_write: return check_access_location(descriptor.location);
  }
  return answer(Rule::access_flags, Status::invalid_value);
}

}  // namespace

extern "C" {

Status cuMemGetAllocationGranularity(std::size_t* out, const AllocationProp* properties,
                                     GranularityFlags option) {
  ASSAY_MODEL_CALL(cuMemGetAllocationGranularity, sound);
  if (out == nullptr || properties == nullptr) {
    return answer(Rule::null_out, Status::invalid_value);
  }
  if (option != GranularityFlags::minimum && option != GranularityFlags::recommended) {
    return answer(Rule::granularity_option, Status::invalid_value);
  }
  if (const Status bad = check_properties(*properties); bad != Status::success) return bad;
  if (const Status bad = check_supported(); bad != Status::success) return bad;
  *out = option == GranularityFlags::minimum ? profile().granularity_bytes
                                             : profile().recommended_granularity_bytes;
  return Status::success;
}

Status cuMemAddressReserve(DevicePointer* out, std::size_t size, std::size_t alignment,
                           DevicePointer hint, unsigned long long flags) {
  ASSAY_MODEL_CALL(cuMemAddressReserve, sound);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if (size == 0 || size % page_size() != 0) {
    return refuse(Rule::reserve_size, Status::invalid_value,
                  "reserves " + std::to_string(size) + " bytes: no multiple of " +
                      std::to_string(page_size()));
  }
  if ((alignment & (alignment - 1)) != 0) {
    return refuse(Rule::reserve_alignment, Status::invalid_value,
                  "asks for alignment " + std::to_string(alignment) + ", which is no power of two");
  }
  if (hint % page_size() != 0) return answer(Rule::reserve_hint, Status::invalid_value);
  if (flags != 0) return answer(Rule::reserve_flags, Status::invalid_value);
  if (const Status bad = check_supported(); bad != Status::success) return bad;
  std::uint64_t address = 0;
  const Status status = reserve_addresses(size, alignment, call.site(), address);
  if (status == Status::success) *out = address;
  return status;
}

Status cuMemAddressFree(DevicePointer address, std::size_t size) {
  ASSAY_MODEL_CALL(cuMemAddressFree, sound);
  if (const Status bad = check_supported(); bad != Status::success) return bad;
  return free_addresses({address, size}, call.site());
}

Status cuMemCreate(AllocationHandle* out, std::size_t size, const AllocationProp* properties,
                   unsigned long long flags) {
  ASSAY_MODEL_CALL(cuMemCreate, sound);
  if (out == nullptr || properties == nullptr) {
    return answer(Rule::null_out, Status::invalid_value);
  }
  if (size == 0 || !is_granular(size)) {
    return refuse(Rule::physical_size, Status::invalid_value,
                  "makes " + std::to_string(size) + " bytes: " + granularity_text());
  }
  if (flags != 0) return answer(Rule::physical_flags, Status::invalid_value);
  if (const Status bad = check_properties(*properties); bad != Status::success) return bad;
  if (const Status bad = check_supported(); bad != Status::success) return bad;
  AllocationHandle handle = 0;
  const Status status = create_physical(size, *properties, call.site(), handle);
  if (status == Status::success) *out = handle;
  return status;
}

Status cuMemRelease(AllocationHandle handle) {
  ASSAY_MODEL_CALL(cuMemRelease, sound);
  if (const Status bad = check_supported(); bad != Status::success) return bad;
  return release_handle(handle, call.site());
}

Status cuMemMap(DevicePointer address, std::size_t size, std::size_t offset,
                AllocationHandle handle, unsigned long long flags) {
  ASSAY_MODEL_CALL(cuMemMap, sound);
  if (size == 0 || !is_granular(size) || !is_granular(address)) {
    return refuse(Rule::map_alignment, Status::invalid_value,
                  "maps " + describe_range(address, size) + ": " + granularity_text());
  }
  if (offset != 0) {
    return refuse(Rule::map_offset, Status::invalid_value,
                  "maps " + describe_range(address, size) + " from offset " +
                      std::to_string(offset) + " of its memory: only 0 is taken");
  }
  if (flags != 0) return answer(Rule::map_flags, Status::invalid_value);
  if (const Status bad = check_supported(); bad != Status::success) return bad;
  return map_physical({address, size}, handle, call.site());
}

Status cuMemUnmap(DevicePointer address, std::size_t size) {
  ASSAY_MODEL_CALL(cuMemUnmap, sound);
  if (const Status bad = check_supported(); bad != Status::success) return bad;
  return unmap_range({address, size}, call.site());
}

Status cuMemSetAccess(DevicePointer address, std::size_t size, const AccessDesc* descriptors,
                      std::size_t count) {
  ASSAY_MODEL_CALL(cuMemSetAccess, sound);
  if (descriptors == nullptr || count == 0) {
    return answer(Rule::access_empty, Status::invalid_value);
  }
  const std::span<const AccessDesc> all(descriptors, count);
  for (const AccessDesc& descriptor : all) {
    if (const Status bad = check_descriptor(descriptor); bad != Status::success) return bad;
  }
  if (const Status bad = check_supported(); bad != Status::success) return bad;
  return set_access({address, size}, all, call.site());
}

Status cuMemGetAccess(unsigned long long* out, const Location* location, DevicePointer address) {
  ASSAY_MODEL_CALL(cuMemGetAccess, sound);
  if (out == nullptr || location == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if (const Status bad = check_access_location(*location); bad != Status::success) return bad;
  if (const Status bad = check_supported(); bad != Status::success) return bad;
  const AllocationRef found = find_allocation(address);
  if (found == nullptr || found->mapped == nullptr) {
    return answer(Rule::access_unmapped, Status::invalid_value);
  }
  *out = static_cast<unsigned long long>(access_of(*found->mapped, location->id));
  return Status::success;
}

Status cuMemGetAllocationPropertiesFromHandle(AllocationProp* out, AllocationHandle handle) {
  ASSAY_MODEL_CALL(cuMemGetAllocationPropertiesFromHandle, sound);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if (const Status bad = check_supported(); bad != Status::success) return bad;
  return properties_of(handle, *out);
}

Status cuMemRetainAllocationHandle(AllocationHandle* out, void* address) {
  ASSAY_MODEL_CALL(cuMemRetainAllocationHandle, sound);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if (const Status bad = check_supported(); bad != Status::success) return bad;
  return retain_handle(reinterpret_cast<std::uint64_t>(address), call.site(), *out);
}

}  // extern "C"

}  // namespace assay::cuda::model
