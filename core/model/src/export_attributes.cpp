// Attributes of managed ranges and of pointers.
#include <cstring>

#include "call.hpp"
#include "memory.hpp"
#include "page_policy.hpp"
#include "pool.hpp"
#include "profile.hpp"
#include "range_check.hpp"
#include "stream_engine.hpp"
#include "virtual_memory.hpp"

namespace assay::cuda::model {

namespace {

constexpr int version_of_typed_locations = 12020;

bool same(Location a, Location b) {
  return a.type == b.type && (a.type == LocationType::host || a.id == b.id);
}

/// The one location of every page; none if they differ or a page has none.
Location common_location(const std::vector<PageRun>& runs, Location PagePolicy::* field) {
  const Location first = runs.front().policy.*field;
  for (const PageRun& run : runs) {
    if (!same(run.policy.*field, first)) return {LocationType::none, 0};
  }
  return first;
}

/// As attributes 2 and 4 show it: an ordinal, -1 for the host on any node, -2 for none.
int ordinal_of(Location location) {
  if (location.type == LocationType::none) return device_invalid;
  return location.type == LocationType::device ? location.id : device_cpu;
}

void write_accessed_by(const std::vector<PageRun>& runs, int* out, std::size_t count) {
  std::uint32_t everywhere = ~std::uint32_t{0};
  for (const PageRun& run : runs) everywhere &= run.policy.accessed_by;
  std::size_t written = 0;
  for (Device device = device_cpu; device < profile().devices; ++device) {
    if ((everywhere & processor_bit(device)) != 0 && written < count) out[written++] = device;
  }
  while (written < count) out[written++] = device_invalid;
}

Status check_range_attribute(const void* data, std::size_t size, RangeAttribute attribute) {
  if (data == nullptr) return answer(Rule::null_out, Status::invalid_value);
  const RangeAttribute newest = profile().driver_version < version_of_typed_locations
                                    ? RangeAttribute::last_prefetch_location
                                    : RangeAttribute::last_prefetch_location_id;
  if (attribute < RangeAttribute::read_mostly || attribute > newest) {
    return answer(Rule::range_attribute_unknown, Status::invalid_value);
  }
  const bool list = attribute == RangeAttribute::accessed_by;
  const bool fits = list ? size != 0 && size % sizeof(int) == 0 : size == sizeof(int);
  return fits ? Status::success : answer(Rule::range_attribute_size, Status::invalid_value);
}

/// Pre: checked.
void write_range_attribute(void* data, std::size_t size, RangeAttribute attribute,
                           const std::vector<PageRun>& runs) {
  const Location preferred = common_location(runs, &PagePolicy::preferred);
  const Location prefetched = common_location(runs, &PagePolicy::last_prefetch);
  int value = 1;
  switch (attribute) {
    case RangeAttribute::read_mostly:
      for (const PageRun& run : runs) value &= run.policy.read_mostly ? 1 : 0;
      break;
    case RangeAttribute::preferred_location: value = ordinal_of(preferred); break;
    case RangeAttribute::accessed_by:
      write_accessed_by(runs, static_cast<int*>(data), size / sizeof(int));
      return;
    case RangeAttribute::last_prefetch_location: value = ordinal_of(prefetched); break;
    case RangeAttribute::preferred_location_type: value = static_cast<int>(preferred.type); break;
    case RangeAttribute::preferred_location_id: value = preferred.id; break;
    case RangeAttribute::last_prefetch_location_type:
      value = static_cast<int>(prefetched.type);
      break;
    case RangeAttribute::last_prefetch_location_id: value = prefetched.id; break;
  }
  std::memcpy(data, &value, sizeof value);
}

template <class Value>
Status give(void* data, Value value) {
  std::memcpy(data, &value, sizeof value);  // NOLINT(bugprone-sizeof-expression): may be a pointer
  return Status::success;
}

bool has_host_pointer(const Allocation& allocation) {
  return host_reaches(allocation);
}

/// Where the host finds what lies at `address`, by either of its addresses.
std::uint64_t offset_in(const Allocation& allocation, std::uint64_t address) {
  return static_cast<std::uint64_t>(alias_of(allocation, address) - allocation.alias);
}

/// The addresses that belong together: of mapped memory, its whole reservation.
Range range_of(const Allocation& allocation) {
  if (allocation.mapped != nullptr) return allocation.mapped->reservation->range;
  return {allocation.device_address, allocation.size};
}

/// What the device of the current context may do.
unsigned access_of(const Allocation& allocation) {
  if (allocation.mapped != nullptr) {
    const ContextRecord* const current = current_context();
    const Device device = current != nullptr ? current->device : allocation.device;
    return static_cast<unsigned>(access_of(*allocation.mapped, device));
  }
  const bool read_only =
      allocation.kind == Kind::registered && (allocation.flags & host_register_read_only) != 0;
  if (const ContextRecord* context = current_context();
      context != nullptr && allocation.pooled != nullptr) {
    if (!pool_permits(allocation, context->device, false)) return 0;
    if (!pool_permits(allocation, context->device, true)) return 1;
  }
  return static_cast<unsigned>(read_only ? AccessFlags::read : AccessFlags::read_write);
}

MemPool pool_of(const Allocation& allocation) {
  return allocation.pooled == nullptr ? nullptr : allocation.pooled->pool->handle;
}

/// Pre: `address` lies in the allocation, `data` is not null.
Status write_pointer_attribute(void* data, PointerAttribute attribute, const Allocation& allocation,
                               std::uint64_t address) {
  const std::uint64_t offset = offset_in(allocation, address);
  const bool host = allocation.kind == Kind::pinned || allocation.kind == Kind::registered;
  switch (attribute) {
    case PointerAttribute::context:
      if (allocation.context == nullptr) {
        return answer(Rule::pointer_no_context, Status::invalid_value);
      }
      return give(data, allocation.context->handle);
    case PointerAttribute::memory_type:
      return give(data, host ? MemoryType::host : MemoryType::device);
    case PointerAttribute::device_pointer: return give(data, allocation.device_address + offset);
    case PointerAttribute::host_pointer:
      if (!has_host_pointer(allocation)) {
        return answer(Rule::pointer_no_host, Status::invalid_value);
      }
      return give(data, allocation.address + offset);
    case PointerAttribute::sync_memops: return give(data, allocation.sync_memops ? 1U : 0U);
    case PointerAttribute::buffer_id: return give(data, allocation.id);
    case PointerAttribute::is_managed:
      return give(data, allocation.kind == Kind::managed ? 1U : 0U);
    case PointerAttribute::device_ordinal: return give(data, allocation.device);
    case PointerAttribute::is_legacy_cuda_ipc_capable:
      return give(data, allocation.kind == Kind::device ? 1U : 0U);
    case PointerAttribute::range_start_addr: return give(data, range_of(allocation).address);
    case PointerAttribute::mapping_base_addr: return give(data, allocation.device_address);
    case PointerAttribute::range_size: return give(data, range_of(allocation).size);
    case PointerAttribute::mapping_size: return give(data, allocation.size);
    case PointerAttribute::mapped: return give(data, 1U);
    case PointerAttribute::allowed_handle_types: return give(data, std::uint64_t{0});
    case PointerAttribute::is_gpu_direct_rdma_capable:
      return give(data, allocation.kind == Kind::device &&
                                profile().has(DeviceAttribute::gpu_direct_rdma_supported)
                            ? 1U
                            : 0U);
    case PointerAttribute::access_flags: return give(data, access_of(allocation));
    case PointerAttribute::mempool_handle: return give(data, pool_of(allocation));
    case PointerAttribute::memory_block_id:
      return give(data, allocation.mapped ? allocation.mapped->physical->id : allocation.id);
    case PointerAttribute::p2p_tokens: break;  // of a kernel interface that the model has not
  }
  return answer(Rule::pointer_attribute_unknown, Status::invalid_value);
}

/// Of an address that is reserved, but not mapped: it has a range and no memory.
Status write_reserved_attribute(void* data, PointerAttribute attribute, Range reserved) {
  switch (attribute) {
    case PointerAttribute::range_start_addr: return give(data, reserved.address);
    case PointerAttribute::range_size: return give(data, reserved.size);
    case PointerAttribute::mapped: return give(data, 0U);
    default: return answer(Rule::pointer_unknown, Status::invalid_value);
  }
}

Status write_attribute(void* data, PointerAttribute attribute, std::uint64_t address) {
  const AllocationRef found = find_allocation(address);
  if (found != nullptr) return write_pointer_attribute(data, attribute, *found, address);
  const std::shared_ptr<const Reservation> reserved = find_reservation(address);
  if (reserved != nullptr) return write_reserved_attribute(data, attribute, reserved->range);
  return answer(Rule::pointer_unknown, Status::invalid_value);
}

/// What cuPointerGetAttributes gives for memory that the driver does not know, and for an attribute
/// that the memory does not have.
void write_pointer_default(void* data, PointerAttribute attribute) {
  switch (attribute) {
    case PointerAttribute::context:
    case PointerAttribute::device_pointer:
    case PointerAttribute::host_pointer:
    case PointerAttribute::buffer_id:
    case PointerAttribute::range_start_addr:
    case PointerAttribute::range_size:
    case PointerAttribute::allowed_handle_types:
    case PointerAttribute::mempool_handle:
    case PointerAttribute::mapping_size:
    case PointerAttribute::mapping_base_addr:
    case PointerAttribute::memory_block_id: give(data, std::uint64_t{0}); break;
    case PointerAttribute::device_ordinal: give(data, device_invalid); break;
    default: give(data, 0U); break;
  }
}

bool known(PointerAttribute attribute) {
  return attribute >= PointerAttribute::context && attribute <= PointerAttribute::memory_block_id &&
         attribute != PointerAttribute::p2p_tokens;
}

}  // namespace

extern "C" {

Status cuMemRangeGetAttribute(void* data, std::size_t data_size, RangeAttribute attribute,
                              DevicePointer address, std::size_t size) {
  ASSAY_MODEL_CALL(cuMemRangeGetAttribute, sound);
  const Status bad_attribute = check_range_attribute(data, data_size, attribute);
  if (bad_attribute != Status::success) return bad_attribute;
  const Range range{address, size};
  if (const Status bad = check_managed_range(range, Purpose::query); bad != Status::success)
    return bad;
  write_range_attribute(data, data_size, attribute, page_runs(range));
  return Status::success;
}

Status cuMemRangeGetAttributes(void** data, std::size_t* data_sizes, RangeAttribute* attributes,
                               std::size_t count, DevicePointer address, std::size_t size) {
  ASSAY_MODEL_CALL(cuMemRangeGetAttributes, sound);
  if (data == nullptr || data_sizes == nullptr || attributes == nullptr || count == 0) {
    return answer(Rule::null_out, Status::invalid_value);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Status bad = check_range_attribute(data[i], data_sizes[i], attributes[i]);
    if (bad != Status::success) return bad;
  }
  const Range range{address, size};
  if (const Status bad = check_managed_range(range, Purpose::query); bad != Status::success)
    return bad;
  const std::vector<PageRun> runs = page_runs(range);
  for (std::size_t i = 0; i < count; ++i) {
    write_range_attribute(data[i], data_sizes[i], attributes[i], runs);
  }
  return Status::success;
}

Status cuPointerGetAttribute(void* data, PointerAttribute attribute, DevicePointer address) {
  ASSAY_MODEL_CALL(cuPointerGetAttribute, sound);
  if (data == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if (!known(attribute)) return answer(Rule::pointer_attribute_unknown, Status::invalid_value);
  return write_attribute(data, attribute, address);
}

Status cuPointerGetAttributes(unsigned count, PointerAttribute* attributes, void** data,
                              DevicePointer address) {
  ASSAY_MODEL_CALL(cuPointerGetAttributes, sound);
  if (count == 0 || attributes == nullptr || data == nullptr) {
    return answer(Rule::null_out, Status::invalid_value);
  }
  for (unsigned i = 0; i < count; ++i) {
    if (data[i] == nullptr) return answer(Rule::null_out, Status::invalid_value);
    if (!known(attributes[i])) {
      return answer(Rule::pointer_attribute_unknown, Status::invalid_value);
    }
  }
  const bool known_memory = find_allocation(address) != nullptr || find_reservation(address);
  if (!known_memory) {
    const Status status = answer(Rule::pointer_defaults, Status::success);
    if (status != Status::success) return status;
  }
  for (unsigned i = 0; i < count; ++i) {
    if (!known_memory || write_attribute(data[i], attributes[i], address) != Status::success) {
      write_pointer_default(data[i], attributes[i]);
    }
  }
  return Status::success;
}

Status cuPointerSetAttribute(const void* value, PointerAttribute attribute, DevicePointer address) {
  ASSAY_MODEL_CALL(cuPointerSetAttribute, sound);
  if (value == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if (attribute != PointerAttribute::sync_memops) {
    return answer(Rule::pointer_settable, Status::invalid_value);
  }
  const AllocationRef found = find_allocation(address);
  if (found == nullptr) return answer(Rule::pointer_unknown, Status::invalid_value);
  unsigned flag = 0;
  std::memcpy(&flag, value, sizeof flag);
  found->sync_memops = flag != 0;
  return Status::success;
}

}  // extern "C"

}  // namespace assay::cuda::model
