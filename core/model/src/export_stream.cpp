// Streams: creation, order, waiting, gates, host functions, attachment of managed memory.
#include <cstdint>
#include <utility>

#include "call.hpp"
#include "graves.hpp"
#include "profile.hpp"
#include "stream_engine.hpp"
#include "stream_gate.hpp"

namespace assay::cuda::model {

namespace {

constexpr unsigned wait_value_comparison_mask = 3;
constexpr unsigned wait_value_flush = 1U << 30;
constexpr unsigned write_value_no_memory_barrier = 1;

Status create(const Call& call, Stream* out, unsigned flags, int priority) {
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if ((flags & ~stream_non_blocking) != 0) return answer(Rule::stream_flags, Status::invalid_value);
  *out = scheduler().create_stream(call.context(), flags, priority, call.site());
  return Status::success;
}

Status find_word(DevicePointer address, Operand& word) {
  constexpr std::size_t word_size = sizeof(std::uint32_t);
  if (address == 0 || address % word_size != 0) {
    return answer(Rule::gate_memory, Status::invalid_value);
  }
  if (find_device_operand(address, word_size, word) != Status::success) {
    return answer(Rule::gate_memory, Status::invalid_value);
  }
  if (word.is_managed()) return answer(Rule::gate_managed, Status::invalid_value);
  return Status::success;
}

}  // namespace

extern "C" {

Status cuStreamCreate(Stream* out, unsigned flags) {
  ASSAY_MODEL_CALL(cuStreamCreate, context);
  return create(call, out, flags, 0);
}

// Priorities are hints: any value is taken, as a driver clamps it [hdr].
Status cuStreamCreateWithPriority(Stream* out, unsigned flags, int priority) {
  ASSAY_MODEL_CALL(cuStreamCreateWithPriority, context);
  return create(call, out, flags, priority);
}

Status cuStreamDestroy_v2(Stream stream) {
  ASSAY_MODEL_CALL(cuStreamDestroy_v2, context);
  QueuePointer queue;
  const Status status = find_queue(stream, &call.context(), queue);
  if (status != Status::success) return status;
  if (queue->handle == nullptr) {
    return answer(Rule::stream_default_destroyed, Status::invalid_handle);
  }
  const Site made = queue->created;
  if (scheduler().destroy_stream(stream) != Status::success) {
    return answer(Rule::stream_destroyed, Status::context_is_destroyed);
  }
  bury_handle(stream, made, call.site());
  refresh_host_access();  // what was attached to it is attached to nothing in particular now
  return Status::success;
}

Status cuStreamQuery(Stream stream) {
  ASSAY_MODEL_CALL(cuStreamQuery, context);
  QueuePointer queue;
  Status status = find_queue(stream, &call.context(), queue);
  if (status == Status::success) status = scheduler().query(queue);
  return status == Status::not_ready ? answer(Rule::not_ready, status) : status;
}

Status cuStreamSynchronize(Stream stream) {
  const SelfWait self_wait(this_thread().host_function != nullptr &&
                           this_thread().host_stream == stream);
  ASSAY_MODEL_CALL(cuStreamSynchronize, context);
  return synchronize(stream, &call.context());
}

Status cuStreamGetCtx(Stream stream, Context* out) {
  ASSAY_MODEL_CALL(cuStreamGetCtx, context);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  QueuePointer queue;
  const Status status = find_queue(stream, &call.context(), queue);
  if (status == Status::success) *out = queue->context->handle;
  return status;
}

Status cuLaunchHostFunc(Stream stream, HostFunction function, void* user) {
  ASSAY_MODEL_CALL(cuLaunchHostFunc, context);
  if (function == nullptr) return answer(Rule::host_function_null, Status::invalid_value);
  Operation operation;
  operation.name = "cuLaunchHostFunc";
  operation.site = call.site();
  operation.host_function = true;
  operation.reaches_host = true;
  operation.run = [function, user] {
    function(user);
    return Status::success;
  };
  return enqueue(stream, &call.context(), std::move(operation));
}

Status cuStreamWaitValue32_v2(Stream stream, DevicePointer address, std::uint32_t value,
                              unsigned flags) {
  ASSAY_MODEL_CALL(cuStreamWaitValue32_v2, context);
  if ((flags & ~(wait_value_comparison_mask | wait_value_flush)) != 0) {
    return answer(Rule::gate_flags, Status::invalid_value);
  }
  Operand word;
  QueuePointer queue;
  Status status = find_word(address, word);
  if (status == Status::success) status = find_queue(stream, &call.context(), queue);
  if (status == Status::success) status = check_access(word, Access::read, queue->context->device);
  if (status != Status::success) return status;
  if ((flags & wait_value_flush) != 0) return answer(Rule::gate_flags, Status::not_supported);
  scheduler().enqueue(queue, make_wait_value(word, value, flags, running_in(*queue, call.site())));
  return Status::success;
}

Status cuStreamWriteValue32_v2(Stream stream, DevicePointer address, std::uint32_t value,
                               unsigned flags) {
  ASSAY_MODEL_CALL(cuStreamWriteValue32_v2, context);
  if ((flags & ~write_value_no_memory_barrier) != 0) {
    return answer(Rule::gate_flags, Status::invalid_value);
  }
  Operand word;
  QueuePointer queue;
  Status status = find_word(address, word);
  if (status == Status::success) status = find_queue(stream, &call.context(), queue);
  if (status == Status::success) status = check_access(word, Access::write, queue->context->device);
  if (status != Status::success) return status;
  scheduler().enqueue(queue, make_write_value(word, value, running_in(*queue, call.site())));
  return Status::success;
}

Status cuStreamAttachMemAsync(Stream stream, DevicePointer address, std::size_t length,
                              unsigned flags) {
  ASSAY_MODEL_CALL(cuStreamAttachMemAsync, context);
  if (flags != mem_attach_global && flags != mem_attach_host && flags != mem_attach_single) {
    return answer(Rule::attach_flags, Status::invalid_value);
  }
  const AllocationRef allocation = find_allocation(address);
  // Pageable memory may be named where the device reaches it, and stays what it is [hdr].
  const bool pageable = allocation == nullptr && length != 0 && is_mapped(address, length) &&
                        profile().has(DeviceAttribute::pageable_memory_access);
  const bool managed = allocation != nullptr && allocation->kind == Kind::managed &&
                       allocation->address == address &&
                       (length == 0 || length == allocation->size);
  if (!pageable && !managed) return answer(Rule::attach_memory, Status::invalid_value);

  QueuePointer queue;
  const Status status = find_queue(stream, &call.context(), queue);
  if (status != Status::success) return status;
  if (flags == mem_attach_single && queue->handle == nullptr) {
    return answer(Rule::attach_null_stream, Status::invalid_value);
  }
  if (pageable) return Status::success;
  Operation operation;
  operation.name = "cuStreamAttachMemAsync";
  operation.site = call.site();
  operation.reads = {{allocation->address, allocation->size}};
  operation.run = [allocation, flags, stream] {
    attach(*allocation, flags, stream);
    return Status::success;
  };
  scheduler().enqueue(queue, std::move(operation));
  return Status::success;
}

}  // extern "C"

}  // namespace assay::cuda::model
