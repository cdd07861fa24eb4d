// Copies and sets. When the forms without a stream wait is NVIDIA's page on API synchronisation
// [doc]: from pageable memory until it is staged; to the host, and from pinned memory, until all is
// done; between device memory not at all. The model promises no more than that.
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "call.hpp"
#include "copy_operation.hpp"
#include "mutants.hpp"
#include "stream_engine.hpp"

namespace assay::cuda::model {

namespace {

enum class Direction : std::uint8_t { to_device, to_host, within_device, any };

struct CopyCall {
  Direction direction;
  std::uint64_t to;
  std::uint64_t from;
  std::size_t size;
};

std::uint64_t address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

Status find_operand(bool on_host, bool any, std::uint64_t address, std::size_t size,
                    Operand& operand) {
  if (any) return find_any_operand(address, size, operand);
  if (on_host) return find_host_operand(reinterpret_cast<const void*>(address), size, operand);
  return find_device_operand(address, size, operand);
}

Status find_operands(const CopyCall& copy, Operand& to, Operand& from) {
  const bool any = copy.direction == Direction::any;
  const bool to_host = copy.direction == Direction::to_host;
  const bool from_host = copy.direction == Direction::to_device;
  const Status status = find_operand(to_host, any, copy.to, copy.size, to);
  if (status != Status::success) return status;
  return find_operand(from_host, any, copy.from, copy.size, from);
}

bool wants_waiting(const Operand& operand) {
  return operand.allocation != nullptr &&
         operand.allocation->sync_memops.load(std::memory_order_acquire);
}

Status check_operands(const Operand& to, const Operand& from, const QueuePointer& queue) {
  const Device device = queue->context->device;
  const Status status = check_access(to, Access::write, device);
  return status == Status::success ? check_access(from, Access::read, device) : status;
}

Status copy_and_wait(const Call& call, const CopyCall& copy) try {
  Operand to;
  Operand from;
  QueuePointer queue;
  Status status = find_operands(copy, to, from);
  if (status == Status::success) status = find_queue(nullptr, &call.context(), queue);
  if (status == Status::success) status = check_operands(to, from, queue);
  if (status != Status::success || copy.size == 0) return status;

  const bool staged = from.is_pageable() && to.is_device();
  const bool within_device = from.is_device() && to.is_device();
  const bool waits = copy.direction == Direction::to_host || !(staged || within_device) ||
                     wants_waiting(to) || wants_waiting(from);
  if (staged) status = scheduler().synchronize(queue);  // before it stages [doc]
  if (status != Status::success) return status;
  Operation operation =
      make_copy(to, from, staged ? Source::staged : Source::live, running_in(*queue, call.site()));
  operation.sync_form = true;
  scheduler().enqueue(queue, std::move(operation));
  if (ASSAY_MODEL_BROKEN("sync_form_waits")) return Status::success;
  return waits ? scheduler().synchronize(queue) : Status::success;
} catch (const std::bad_alloc&) {  // of what is staged, or of the queue
  return answer(Rule::copy_memory, Status::out_of_memory);
}

Status copy_in_stream(const Call& call, const CopyCall& copy, Stream stream) try {
  Operand to;
  Operand from;
  QueuePointer queue;
  Status status = find_operands(copy, to, from);
  if (status == Status::success) status = find_queue(stream, &call.context(), queue);
  if (status == Status::success) status = check_operands(to, from, queue);
  if (status != Status::success || copy.size == 0) return status;
  const bool device_only = from.is_device() && !from.is_managed();  // the host cannot change it
  scheduler().enqueue(queue, make_copy(to, from, device_only ? Source::live : Source::watched,
                                       running_in(*queue, call.site())));
  return Status::success;
} catch (const std::bad_alloc&) {  // of what is staged, or of the queue
  return answer(Rule::copy_memory, Status::out_of_memory);
}

struct SetCall {
  DevicePointer to;
  std::uint32_t value;
  std::size_t count;
  std::size_t width;  ///< bytes of a value
};

Status find_target(const SetCall& set, Operand& to) {
  if (set.to % set.width != 0) return answer(Rule::set_alignment, Status::invalid_value);
  if (set.count > SIZE_MAX / set.width) {
    return answer(Rule::copy_outside_allocation, Status::invalid_value);
  }
  return find_device_operand(set.to, set.count * set.width, to);
}

// Host memory and managed memory are set when the call returns, device memory need not be [doc].
Status set_and_wait(const Call& call, const SetCall& set) try {
  Operand to;
  QueuePointer queue;
  Status status = find_target(set, to);
  if (status == Status::success) status = find_queue(nullptr, &call.context(), queue);
  if (status == Status::success) {
    status = check_access(to, Access::write, queue->context->device);
  }
  if (status != Status::success || set.count == 0) return status;
  Operation operation = make_set(to, set.value, set.width, running_in(*queue, call.site()));
  operation.sync_form = true;
  scheduler().enqueue(queue, std::move(operation));
  const bool waits = !to.is_device() || to.is_managed() || wants_waiting(to);
  return waits ? scheduler().synchronize(queue) : Status::success;
} catch (const std::bad_alloc&) {  // of what is staged, or of the queue
  return answer(Rule::copy_memory, Status::out_of_memory);
}

Status set_in_stream(const Call& call, const SetCall& set, Stream stream) try {
  Operand to;
  QueuePointer queue;
  Status status = find_target(set, to);
  if (status == Status::success) status = find_queue(stream, &call.context(), queue);
  if (status == Status::success) {
    status = check_access(to, Access::write, queue->context->device);
  }
  if (status != Status::success || set.count == 0) return status;
  scheduler().enqueue(queue, make_set(to, set.value, set.width, running_in(*queue, call.site())));
  return Status::success;
} catch (const std::bad_alloc&) {  // of what is staged, or of the queue
  return answer(Rule::copy_memory, Status::out_of_memory);
}

}  // namespace

extern "C" {

Status cuMemcpy(DevicePointer to, DevicePointer from, std::size_t size) {
  ASSAY_MODEL_CALL(cuMemcpy, context);
  return copy_and_wait(call, {Direction::any, to, from, size});
}

Status cuMemcpyAsync(DevicePointer to, DevicePointer from, std::size_t size, Stream stream) {
  ASSAY_MODEL_CALL(cuMemcpyAsync, context);
  return copy_in_stream(call, {Direction::any, to, from, size}, stream);
}

Status cuMemcpyHtoD_v2(DevicePointer to, const void* from, std::size_t size) {
  ASSAY_MODEL_CALL(cuMemcpyHtoD_v2, context);
  return copy_and_wait(call, {Direction::to_device, to, address_of(from), size});
}

Status cuMemcpyDtoH_v2(void* to, DevicePointer from, std::size_t size) {
  ASSAY_MODEL_CALL(cuMemcpyDtoH_v2, context);
  return copy_and_wait(call, {Direction::to_host, address_of(to), from, size});
}

Status cuMemcpyDtoD_v2(DevicePointer to, DevicePointer from, std::size_t size) {
  ASSAY_MODEL_CALL(cuMemcpyDtoD_v2, context);
  return copy_and_wait(call, {Direction::within_device, to, from, size});
}

Status cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, std::size_t size, Stream stream) {
  ASSAY_MODEL_CALL(cuMemcpyHtoDAsync_v2, context);
  return copy_in_stream(call, {Direction::to_device, to, address_of(from), size}, stream);
}

Status cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, std::size_t size, Stream stream) {
  ASSAY_MODEL_CALL(cuMemcpyDtoHAsync_v2, context);
  return copy_in_stream(call, {Direction::to_host, address_of(to), from, size}, stream);
}

Status cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, std::size_t size, Stream stream) {
  ASSAY_MODEL_CALL(cuMemcpyDtoDAsync_v2, context);
  return copy_in_stream(call, {Direction::within_device, to, from, size}, stream);
}

Status cuMemsetD8_v2(DevicePointer to, unsigned char value, std::size_t count) {
  ASSAY_MODEL_CALL(cuMemsetD8_v2, context);
  return set_and_wait(call, {to, value, count, 1});
}

Status cuMemsetD16_v2(DevicePointer to, unsigned short value, std::size_t count) {
  ASSAY_MODEL_CALL(cuMemsetD16_v2, context);
  return set_and_wait(call, {to, value, count, 2});
}

Status cuMemsetD32_v2(DevicePointer to, unsigned value, std::size_t count) {
  ASSAY_MODEL_CALL(cuMemsetD32_v2, context);
  return set_and_wait(call, {to, value, count, 4});
}

Status cuMemsetD8Async(DevicePointer to, unsigned char value, std::size_t count, Stream stream) {
  ASSAY_MODEL_CALL(cuMemsetD8Async, context);
  return set_in_stream(call, {to, value, count, 1}, stream);
}

Status cuMemsetD16Async(DevicePointer to, unsigned short value, std::size_t count, Stream stream) {
  ASSAY_MODEL_CALL(cuMemsetD16Async, context);
  return set_in_stream(call, {to, value, count, 2}, stream);
}

Status cuMemsetD32Async(DevicePointer to, unsigned value, std::size_t count, Stream stream) {
  ASSAY_MODEL_CALL(cuMemsetD32Async, context);
  return set_in_stream(call, {to, value, count, 4}, stream);
}

}  // extern "C"

}  // namespace assay::cuda::model
