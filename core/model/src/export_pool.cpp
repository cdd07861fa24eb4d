// Pools: creation, attributes, access, what is current.
#include <algorithm>
#include <cstring>

#include "call.hpp"
#include "devices.hpp"
#include "hidden.hpp"
#include "pool.hpp"
#include "pool_checks.hpp"
#include "profile.hpp"

namespace assay::cuda::model {

namespace {

constexpr int version_of_largest_size = 12020;
constexpr int version_of_managed_pools = 13000;
constexpr unsigned usage_decompress = 2;  // CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS

Status check_type(AllocationType type) {
  const bool managed =
      type == AllocationType::managed && profile().driver_version >= version_of_managed_pools;
  if (type == AllocationType::pinned || managed) return Status::success;
  return answer(Rule::pool_type, Status::invalid_value);
}

bool is_host_node(const Location& location) {
  return location.type == LocationType::host_numa &&
         location.id == profile().attribute(DeviceAttribute::host_numa_id);
}

Status check_properties(const MemPoolProps& properties) {
  if (const Status bad = check_type(properties.alloc_type); bad != Status::success) return bad;
  const bool no_largest_size = profile().driver_version < version_of_largest_size;
  const bool reserved = std::any_of(std::begin(properties.reserved), std::end(properties.reserved),
                                    [](unsigned char byte) { return byte != 0; });
  const bool newer_fields = properties.max_size != 0 || properties.usage != 0;
  if (reserved || properties.win32_security_attributes != nullptr ||
      (no_largest_size && newer_fields)) {
    return answer(Rule::pool_reserved_bytes, Status::invalid_value);
  }
  const bool managed = properties.alloc_type == AllocationType::managed;
  const bool no_handles = managed || properties.location.type == LocationType::host;
  if (no_handles && properties.handle_types != HandleType::none) {
    return answer(Rule::pool_handle_types, Status::invalid_value);
  }
  if (managed && (properties.max_size != 0 || properties.usage != 0)) {
    return answer(Rule::pool_managed, Status::invalid_value);
  }
  if ((properties.usage & ~usage_decompress) != 0) {
    return answer(Rule::pool_usage, Status::invalid_value);
  }
  return Status::success;
}

/// What the properties ask for that a driver may not have.
Status check_capabilities(const MemPoolProps& properties) {
  if (const Status bad = check_pools_supported(); bad != Status::success) return bad;
  const auto wanted = static_cast<unsigned>(properties.handle_types);
  const auto offered =
      static_cast<unsigned>(profile().attribute(DeviceAttribute::mempool_supported_handle_types));
  if ((wanted & ~offered) != 0) return answer(Rule::pool_handle_types, Status::not_supported);
  if (properties.usage != 0) return answer(Rule::pool_usage, Status::not_supported);
  return Status::success;
}

bool is_int(MemPoolAttribute attribute) {
  return attribute <= MemPoolAttribute::reuse_allow_internal_dependencies;
}

bool is_known(MemPoolAttribute attribute) {
  return attribute >= MemPoolAttribute::reuse_follow_event_dependencies &&
         attribute <= MemPoolAttribute::used_mem_high;
}

Status check_access(const Pool& pool, const AccessDesc& wanted) {
  if (wanted.location.type != LocationType::device) {
    return answer(Rule::pool_access_location, Status::invalid_value);
  }
  const Device device = wanted.location.id;
  if (device < 0 || device >= profile().devices) {
    return answer(Rule::pool_access_device, Status::invalid_device);
  }
  if (wanted.flags != AccessFlags::none && wanted.flags != AccessFlags::read &&
      wanted.flags != AccessFlags::read_write) {
    return answer(Rule::pool_access_flags, Status::invalid_value);
  }
  const bool own = pool.kind == Kind::pooled && pool.device == device;
  if (own && wanted.flags != AccessFlags::read_write) {
    return answer(Rule::pool_access_own, Status::invalid_device);
  }
  return Status::success;
}

Status find(MemPool handle, PoolPointer& pool) {
  pool = find_pool(handle);
  return pool != nullptr ? Status::success : answer(Rule::pool_unknown, Status::invalid_value);
}

Location on_device(Device device) {
  return {LocationType::device, device};
}

}  // namespace

Status check_pools_supported() noexcept {
  if (profile().has(DeviceAttribute::memory_pools_supported)) return Status::success;
  return answer(Rule::pools_unsupported, Status::not_supported);
}

Status check_pool_location(Location& location, AllocationType type, Status bad_device) noexcept {
  const bool managed = type == AllocationType::managed;
  const bool concurrent = profile().has(DeviceAttribute::concurrent_managed_access);
  switch (location.type) {
    case LocationType::device:
      if (location.id < 0 || location.id >= profile().devices) {
        return answer(Rule::pool_location, bad_device);
      }
      break;
    case LocationType::host:
      location.id = 0;
      if (!managed && !profile().has(DeviceAttribute::host_memory_pools_supported)) {
        return answer(Rule::pool_location_unsupported, Status::not_supported);
      }
      break;
    case LocationType::host_numa:
      if (!is_host_node(location)) return answer(Rule::pool_location, Status::invalid_value);
      if (!managed && !profile().has(DeviceAttribute::host_numa_memory_pools_supported)) {
        return answer(Rule::pool_location_unsupported, Status::not_supported);
      }
      break;
    case LocationType::none:
      location.id = 0;
      if (!managed) return answer(Rule::pool_location, Status::invalid_value);
      break;
    default: return answer(Rule::pool_location, Status::invalid_value);
  }
  if (managed && !concurrent) return answer(Rule::pool_managed, Status::not_supported);
  return Status::success;
}

extern "C" {

Status cuMemPoolCreate(MemPool* out, const MemPoolProps* properties) {
  ASSAY_MODEL_CALL(cuMemPoolCreate, sound);
  if (out == nullptr || properties == nullptr) {
    return answer(Rule::null_out, Status::invalid_value);
  }
  MemPoolProps wanted = *properties;
  Status status = check_properties(wanted);
  if (status == Status::success) status = check_capabilities(wanted);
  if (status == Status::success) {
    status = check_pool_location(wanted.location, wanted.alloc_type, Status::invalid_value);
  }
  if (status == Status::success) *out = make_pool(wanted, call.site())->handle;
  return status;
}

Status cuMemPoolDestroy(MemPool handle) {
  ASSAY_MODEL_CALL(cuMemPoolDestroy, sound);
  PoolPointer pool;
  if (const Status bad = find(handle, pool); bad != Status::success) return bad;
  if (pool->is_default) return answer(Rule::pool_default_destroyed, Status::invalid_value);
  if (destroy_pool(handle, call.site())) return Status::success;
  return answer(Rule::pool_unknown, Status::invalid_value);
}

Status cuMemPoolTrimTo(MemPool handle, std::size_t keep) {
  ASSAY_MODEL_CALL(cuMemPoolTrimTo, sound);
  PoolPointer pool;
  if (const Status bad = find(handle, pool); bad != Status::success) return bad;
  trim_pool(*pool, keep);
  return Status::success;
}

Status cuMemPoolSetAttribute(MemPool handle, MemPoolAttribute attribute, void* value) {
  ASSAY_MODEL_CALL(cuMemPoolSetAttribute, sound);
  PoolPointer pool;
  if (const Status bad = find(handle, pool); bad != Status::success) return bad;
  if (value == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if (!is_known(attribute)) return answer(Rule::pool_attribute_unknown, Status::invalid_value);
  std::uint64_t wanted = 0;
  if (is_int(attribute)) {
    int flag = 0;
    std::memcpy(&flag, value, sizeof flag);
    wanted = flag != 0 ? 1 : 0;
  } else {
    std::memcpy(&wanted, value, sizeof wanted);
  }
  if (set_pool_attribute(*pool, attribute, wanted)) return Status::success;
  return answer(Rule::pool_attribute_read_only, Status::invalid_value);
}

Status cuMemPoolGetAttribute(MemPool handle, MemPoolAttribute attribute, void* value) {
  ASSAY_MODEL_CALL(cuMemPoolGetAttribute, sound);
  PoolPointer pool;
  if (const Status bad = find(handle, pool); bad != Status::success) return bad;
  if (value == nullptr) return answer(Rule::null_out, Status::invalid_value);
  std::uint64_t read = 0;
  if (!get_pool_attribute(*pool, attribute, read)) {
    return answer(Rule::pool_attribute_unknown, Status::invalid_value);
  }
  if (is_int(attribute)) {
    const auto flag = static_cast<int>(read);
    std::memcpy(value, &flag, sizeof flag);
  } else {
    std::memcpy(value, &read, sizeof read);
  }
  return Status::success;
}

Status cuMemPoolSetAccess(MemPool handle, const AccessDesc* wanted, std::size_t count) {
  ASSAY_MODEL_CALL(cuMemPoolSetAccess, sound);
  PoolPointer pool;
  if (const Status bad = find(handle, pool); bad != Status::success) return bad;
  if (wanted == nullptr && count != 0) return answer(Rule::null_out, Status::invalid_value);
  if (count > static_cast<std::size_t>(profile().devices)) {
    return answer(Rule::pool_access_location, Status::invalid_value);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Status bad = check_access(*pool, wanted[i]);
    if (bad != Status::success) return bad;
  }
  set_pool_access(*pool, wanted, count, call.site());
  return Status::success;
}

Status cuMemPoolGetAccess(AccessFlags* out, MemPool handle, Location* location) {
  ASSAY_MODEL_CALL(cuMemPoolGetAccess, sound);
  PoolPointer pool;
  if (const Status bad = find(handle, pool); bad != Status::success) return bad;
  if (out == nullptr || location == nullptr) return answer(Rule::null_out, Status::invalid_value);
  const bool of_host =
      location->type == LocationType::host || location->type == LocationType::host_numa;
  if (of_host && pool->kind != Kind::pooled) {
    *out = AccessFlags::read_write;
    return Status::success;
  }
  const Status bad = check_access(*pool, {*location, AccessFlags::read_write});
  if (bad == Status::success) *out = pool->access[static_cast<std::size_t>(location->id)];
  return bad;
}

Status cuDeviceGetDefaultMemPool(MemPool* out, Device device) {
  ASSAY_MODEL_CALL(cuDeviceGetDefaultMemPool, sound);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if (const Status bad = check_ordinal(device); bad != Status::success) return bad;
  if (const Status bad = check_pools_supported(); bad != Status::success) return bad;
  *out = default_pool(on_device(device), AllocationType::pinned)->handle;
  return Status::success;
}

Status cuDeviceGetMemPool(MemPool* out, Device device) {
  ASSAY_MODEL_CALL(cuDeviceGetMemPool, sound);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if (const Status bad = check_ordinal(device); bad != Status::success) return bad;
  if (const Status bad = check_pools_supported(); bad != Status::success) return bad;
  *out = current_pool(on_device(device), AllocationType::pinned)->handle;
  return Status::success;
}

Status cuDeviceSetMemPool(Device device, MemPool handle) {
  ASSAY_MODEL_CALL(cuDeviceSetMemPool, sound);
  PoolPointer pool;
  if (const Status bad = find(handle, pool); bad != Status::success) return bad;
  if (const Status bad = check_ordinal(device); bad != Status::success) return bad;
  if (pool->kind != Kind::pooled || pool->device != device) {
    return answer(Rule::pool_not_local, Status::invalid_value);
  }
  set_current_pool(pool);
  return Status::success;
}

}  // extern "C"

}  // namespace assay::cuda::model
