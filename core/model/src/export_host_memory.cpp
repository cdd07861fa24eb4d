// Pinned and registered host memory.
#include "call.hpp"
#include "memory_book.hpp"
#include "profile.hpp"
#include "retire.hpp"

namespace assay::cuda::model {

namespace {

constexpr unsigned host_alloc_flags_known =
    host_alloc_portable | host_alloc_device_map | host_alloc_write_combined;
constexpr unsigned register_flags_known = host_register_portable | host_register_device_map |
                                          host_register_io_memory | host_register_read_only;

std::uint64_t address_of(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

}  // namespace

extern "C" {

Status cuMemHostAlloc(void** out, std::size_t size, unsigned flags) {
  ASSAY_MODEL_CALL(cuMemHostAlloc, context);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if ((flags & ~host_alloc_flags_known) != 0) {
    return answer(Rule::host_alloc_flags, Status::invalid_value);
  }
  if (size == 0) {
    if (answer(Rule::host_alloc_zero_null, Status::success) == Status::success) *out = nullptr;
    return answer(Rule::host_alloc_zero, Status::success);
  }
  AllocationRef made;
  const Status status = allocate(Kind::pinned, size, flags | host_alloc_device_map, call.context(),
                                 call.site(), made);
  if (status == Status::success) *out = reinterpret_cast<void*>(made->address);
  return status;
}

Status cuMemFreeHost(void* pointer) {
  ASSAY_MODEL_CALL(cuMemFreeHost, context);
  if (pointer == nullptr) return answer(Rule::free_null, Status::success);
  const AllocationRef live = find_allocation(address_of(pointer));
  if (live != nullptr && live->pooled != nullptr) {
    return refuse_free(address_of(pointer), call.site());
  }
  if (live != nullptr && live->kind == Kind::pinned && live->address == address_of(pointer)) {
    settle_before_free(*live, call.site());
  }
  if (take_out(address_of(pointer), {Kind::pinned}, call.site()) != nullptr) {
    return Status::success;
  }
  return refuse_free(address_of(pointer), call.site());
}

Status cuMemHostGetFlags(unsigned* out, void* pointer) {
  ASSAY_MODEL_CALL(cuMemHostGetFlags, context);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  const AllocationRef found = find_allocation(address_of(pointer));
  if (found == nullptr || found->kind != Kind::pinned) {
    return answer(Rule::host_flags_unknown, Status::invalid_value);
  }
  *out = found->flags;
  return Status::success;
}

Status cuMemHostGetDevicePointer_v2(DevicePointer* out, void* pointer, unsigned flags) {
  ASSAY_MODEL_CALL(cuMemHostGetDevicePointer_v2, context);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if (flags != 0) return answer(Rule::device_pointer_flags, Status::invalid_value);
  const std::uint64_t address = address_of(pointer);
  const AllocationRef found = find_allocation(address);
  if (found == nullptr || (found->kind != Kind::pinned && found->kind != Kind::registered) ||
      address - found->address >= found->size) {
    return answer(Rule::device_pointer_unknown, Status::invalid_value);
  }
  *out = found->device_address + (address - found->address);
  return Status::success;
}

Status cuMemHostRegister_v2(void* pointer, std::size_t size, unsigned flags) {
  ASSAY_MODEL_CALL(cuMemHostRegister_v2, context);
  const Range range{address_of(pointer), size};
  if (pointer == nullptr || size == 0) return answer(Rule::register_empty, Status::invalid_value);
  if ((flags & ~register_flags_known) != 0) {
    return answer(Rule::register_flags, Status::invalid_value);
  }
  if (range.address + size < size || !is_mapped(range.address, size)) {
    return refuse(Rule::register_unmapped, Status::invalid_value,
                  "registers " + describe_range(range.address, size) + ", where pages are missing");
  }
  if (!profile().has(DeviceAttribute::host_register_supported)) {
    return answer(Rule::register_unsupported, Status::not_supported);
  }
  if ((flags & host_register_read_only) != 0 &&
      !profile().has(DeviceAttribute::read_only_host_register_supported)) {
    return answer(Rule::register_read_only, Status::not_supported);
  }
  const AllocationRef other = first_overlap(range);
  if (other != nullptr && other->kind != Kind::pinned && other->kind != Kind::registered) {
    return refuse(Rule::register_foreign, Status::invalid_value,
                  "registers " + describe_range(range.address, range.size) + ": " +
                      history_of(other->address));
  }
  return register_host(range, flags, call.context(), call.site());
}

Status cuMemHostUnregister(void* pointer) {
  ASSAY_MODEL_CALL(cuMemHostUnregister, context);
  if (pointer == nullptr) {
    return refuse(Rule::unregister_invalid, Status::invalid_value, "unregisters null");
  }
  const std::uint64_t address = address_of(pointer);
  const AllocationRef live = find_allocation(address);
  if (live == nullptr) {
    return refuse(Rule::unregister_unknown, Status::host_memory_not_registered,
                  "unregisters " + describe_range(address, 0) + ": " + history_of(address));
  }
  if (live->kind != Kind::registered || live->address != address) {
    return refuse(Rule::unregister_invalid, Status::invalid_value,
                  "unregisters " + describe_range(address, 0) + ": " + history_of(address));
  }
  settle_before_free(*live, call.site());
  if (!is_mapped(address, live->size)) {
    diagnose(Rule::registered_unmapped,
             describe(call.site()) + ": the pages of " + describe_range(address, live->size) +
                 ", registered by " + describe(live->allocated) + ", are no longer there");
  }
  if (take_out(address, {Kind::registered}, call.site()) == nullptr) {
    return answer(Rule::unregister_unknown, Status::host_memory_not_registered);
  }
  return Status::success;
}

}  // extern "C"

}  // namespace assay::cuda::model
