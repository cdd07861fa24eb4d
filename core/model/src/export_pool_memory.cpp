// Memory in stream order: allocation from pools, and its free.
#include <new>
#include <utility>

#include "call.hpp"
#include "pool.hpp"
#include "pool_checks.hpp"
#include "retire.hpp"
#include "stream_engine.hpp"

namespace assay::cuda::model {

namespace {

/// The queue; a context is needed for the default stream only. Errors: those of find_queue, and 709
/// for the default stream of a context that has ended.
Status find_any_queue(Stream stream, QueuePointer& queue) {
  ContextRecord* current = current_context();
  if (current != nullptr && !current->alive.load(std::memory_order_acquire)) {
    if (stream == nullptr) return answer(Rule::context_destroyed, Status::context_is_destroyed);
    current = nullptr;
  }
  return find_queue(stream, current, queue);
}

/// From `pool`, or where that is null, from the current pool of the stream's device.
Status allocate_in_stream(const Call& call, DevicePointer* out, std::size_t size, PoolPointer pool,
                          Stream stream) try {
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if (size == 0) return answer(Rule::pool_alloc_zero, Status::invalid_value);
  QueuePointer queue;
  Status status = find_any_queue(stream, queue);
  if (status == Status::success) status = check_pools_supported();
  if (status != Status::success) return status;
  if (pool == nullptr) {
    pool = current_pool({LocationType::device, queue->context->device}, AllocationType::pinned);
  }
  AllocationRef made;
  status = allocate_pooled(pool, size, queue, call.site(), made);
  if (status == Status::success) *out = made->address;
  return status;
} catch (const std::bad_alloc&) {
  return answer(Rule::memory_system, Status::out_of_memory);
}

}  // namespace

extern "C" {

Status cuMemAllocAsync(DevicePointer* out, std::size_t size, Stream stream) {
  ASSAY_MODEL_CALL(cuMemAllocAsync, sound);
  return allocate_in_stream(call, out, size, nullptr, stream);
}

Status cuMemAllocFromPoolAsync(DevicePointer* out, std::size_t size, MemPool handle,
                               Stream stream) {
  ASSAY_MODEL_CALL(cuMemAllocFromPoolAsync, sound);
  PoolPointer pool = find_pool(handle);
  if (pool == nullptr) return answer(Rule::pool_unknown, Status::invalid_value);
  return allocate_in_stream(call, out, size, std::move(pool), stream);
}

Status cuMemFreeAsync(DevicePointer address, Stream stream) {
  ASSAY_MODEL_CALL(cuMemFreeAsync, sound);
  if (address == 0) return answer(Rule::pool_free_null, Status::invalid_value);
  QueuePointer queue;
  Status status = find_any_queue(stream, queue);
  if (status == Status::success) status = check_pools_supported();
  if (status != Status::success) return status;
  AllocationRef found = find_allocation(address);
  if (found == nullptr) found = find_stale(address);
  if (found == nullptr || found->address != address) return refuse_free(address, call.site());
  if (found->pooled == nullptr) {
    diagnose(Rule::pool_free_foreign, describe(call.site()) + " of " + history_of(address));
    return answer(Rule::pool_free_foreign, Status::invalid_value);
  }
  return free_pooled(found, queue, call.site());
}

}  // extern "C"

}  // namespace assay::cuda::model
