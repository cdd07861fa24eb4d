// Device and managed memory: allocation, free, address ranges, what is left.
#include "call.hpp"
#include "memory_book.hpp"
#include "pool.hpp"
#include "profile.hpp"
#include "retire.hpp"
#include "stream_engine.hpp"
#include "virtual_memory.hpp"

namespace assay::cuda::model {

bool diagnose_work_in_flight(const Allocation& allocation, const Site& site) noexcept {
  const Range range{allocation.address, allocation.size};
  finish_sync_forms(range);
  const std::optional<PendingWork> work = pending_work(range);
  if (!work) return false;
  diagnose(Rule::free_in_flight, describe(site) + " frees " + name_of(allocation.kind) +
                                     " memory " + describe_range(range.address, range.size) +
                                     " in use by unfinished " + work->name + " of " +
                                     describe(work->site));
  return true;
}

void settle_before_free(const Allocation& allocation, const Site& site) noexcept {
  const bool in_flight = diagnose_work_in_flight(allocation, site);
  if (in_flight && profile().free_waits) wait_for_range({allocation.address, allocation.size});
}

Status refuse_free(std::uint64_t address, const Site& site) noexcept {
  const AllocationRef live = find_allocation(address);
  Rule rule = Rule::free_twice;
  const std::string history = history_with_reservations(address);
  if (live != nullptr) {
    const bool wrong_kind = live->address == address || live->kind == Kind::mapped;
    rule = wrong_kind ? Rule::free_wrong_kind : Rule::free_interior;
  } else if (history_of(address) == never_given_out) {
    rule = Rule::free_unknown;
  }
  diagnose(rule, describe(site) + " of " + describe_range(address, 0) + ": " + history);
  return Status::invalid_value;
}

extern "C" {

Status cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  ASSAY_MODEL_CALL(cuMemGetInfo_v2, context);
  if (free == nullptr || total == nullptr) return answer(Rule::null_out, Status::invalid_value);
  const std::uint64_t limit = capacity_bytes();
  const std::uint64_t used = device_bytes_in_use(call.context().device);
  *free = used < limit ? limit - used : 0;
  *total = profile().capacity_bytes;
  return Status::success;
}

Status cuMemAlloc_v2(DevicePointer* out, std::size_t size) {
  ASSAY_MODEL_CALL(cuMemAlloc_v2, context);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if (size == 0) return answer(Rule::alloc_zero, Status::invalid_value);
  AllocationRef made;
  const Status status = allocate(Kind::device, size, 0, call.context(), call.site(), made);
  if (status == Status::success) *out = made->address;
  return status;
}

Status cuMemFree_v2(DevicePointer address) {
  ASSAY_MODEL_CALL(cuMemFree_v2, context);
  if (address == 0) return answer(Rule::free_null, Status::success);
  const AllocationRef live = find_allocation(address);
  const AllocationRef of_pool = live != nullptr ? live : find_stale(address);
  if (of_pool != nullptr && of_pool->address == address && of_pool->pooled != nullptr) {
    return free_pooled_now(of_pool, call.site());
  }
  if (live != nullptr && live->address == address && live->kind != Kind::pinned &&
      live->kind != Kind::mapped) {
    settle_before_free(*live, call.site());
  }
  if (take_out(address, {Kind::device, Kind::managed}, call.site()) != nullptr) {
    return Status::success;
  }
  return refuse_free(address, call.site());
}

Status cuMemGetAddressRange_v2(DevicePointer* base, std::size_t* size, DevicePointer address) {
  ASSAY_MODEL_CALL(cuMemGetAddressRange_v2, context);
  const AllocationRef found = find_allocation(address);
  if (found == nullptr || found->kind == Kind::registered) {
    return answer(Rule::address_range_unknown, Status::not_found);
  }
  if (base != nullptr) *base = found->device_address;
  if (size != nullptr) *size = found->size;
  return Status::success;
}

Status cuMemAllocManaged(DevicePointer* out, std::size_t size, unsigned flags) {
  ASSAY_MODEL_CALL(cuMemAllocManaged, context);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if (size == 0) return answer(Rule::alloc_zero, Status::invalid_value);
  if (flags != mem_attach_global && flags != mem_attach_host) {
    return answer(Rule::managed_flags, Status::invalid_value);
  }
  if (!profile().has(DeviceAttribute::managed_memory)) {
    return answer(Rule::managed_unsupported, Status::not_supported);
  }
  AllocationRef made;
  const Status status = allocate(Kind::managed, size, flags, call.context(), call.site(), made);
  if (status != Status::success) return status;
  *out = made->address;
  refresh_host_access();  // a busy device closes fresh memory to the host as well
  return Status::success;
}

}  // extern "C"

}  // namespace assay::cuda::model
