// Events.
#include "call.hpp"
#include "graves.hpp"
#include "pool.hpp"
#include "stream_engine.hpp"

namespace assay::cuda::model {

namespace {

// Errors: 400 null or never valid, 709 destroyed, and the sticky code of its context.
Status find(Event handle, EventPointer& event) {
  switch (scheduler().find_event(handle, event)) {
    case Status::success: break;
    case Status::context_is_destroyed:
      return refuse(Rule::event_destroyed, Status::context_is_destroyed,
                    "uses an event that is gone: " + epitaph(handle));
    default:
      return refuse(Rule::event_unknown, Status::invalid_handle, "uses a value that is no event");
  }
  const Status sticky = event->context->sticky.load(std::memory_order_acquire);
  return sticky == Status::success ? sticky : answer(Rule::poisoned, sticky);
}

std::string describe_timing(const StreamEvent& event) {
  std::string text = "an event made by " + describe(event.created);
  if ((event.flags & event_disable_timing) != 0) return text + " without timing";
  return text + (scheduler().is_recorded(event) ? ", recorded" : ", never recorded");
}

}  // namespace

extern "C" {

Status cuEventCreate(Event* out, unsigned flags) {
  ASSAY_MODEL_CALL(cuEventCreate, context);
  constexpr unsigned known = event_blocking_sync | event_disable_timing | event_interprocess;
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  const bool timed = (flags & event_disable_timing) == 0;
  if ((flags & ~known) != 0 || ((flags & event_interprocess) != 0 && timed)) {
    return answer(Rule::event_flags, Status::invalid_value);
  }
  *out = scheduler().create_event(call.context(), flags, call.site());
  return Status::success;
}

Status cuEventDestroy_v2(Event handle) {
  ASSAY_MODEL_CALL(cuEventDestroy_v2, context);
  EventPointer event;
  Status status = find(handle, event);
  if (status == Status::success) status = scheduler().destroy_event(handle);
  if (status == Status::success) bury_handle(handle, event->created, call.site());
  return status;
}

Status cuEventRecord(Event handle, Stream stream) {
  ASSAY_MODEL_CALL(cuEventRecord, context);
  EventPointer event;
  QueuePointer queue;
  Status status = find(handle, event);
  if (status == Status::success) status = find_queue(stream, &call.context(), queue);
  if (status != Status::success) return status;
  if (event->context != queue->context) {
    return refuse(Rule::event_other_context, Status::invalid_handle,
                  "records an event of " + describe(*event->context) + " in a stream of " +
                      describe(*queue->context));
  }
  scheduler().record(event, queue, call.site());
  return Status::success;
}

Status cuStreamWaitEvent(Stream stream, Event handle, unsigned flags) {
  ASSAY_MODEL_CALL(cuStreamWaitEvent, context);
  if (flags != 0) return answer(Rule::stream_wait_flags, Status::invalid_value);
  EventPointer event;
  QueuePointer queue;
  Status status = find(handle, event);
  if (status == Status::success) status = find_queue(stream, &call.context(), queue);
  if (status == Status::success) scheduler().wait_event(queue, event, call.site());
  return status;
}

Status cuEventQuery(Event handle) {
  ASSAY_MODEL_CALL(cuEventQuery, context);
  EventPointer event;
  Status status = find(handle, event);
  if (status == Status::success) status = scheduler().query(event);
  return status == Status::not_ready ? answer(Rule::not_ready, status) : status;
}

Status cuEventSynchronize(Event handle) {
  ASSAY_MODEL_CALL(cuEventSynchronize, context);
  EventPointer event;
  const Status status = find(handle, event);
  if (status != Status::success) return status;
  const Status waited = scheduler().synchronize(event);
  release_unused_reserve();
  return waited;
}

Status cuEventElapsedTime(float* out, Event start_handle, Event end_handle) {
  ASSAY_MODEL_CALL(cuEventElapsedTime, context);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  EventPointer start;
  EventPointer end;
  Status status = find(start_handle, start);
  if (status == Status::success) status = find(end_handle, end);
  if (status != Status::success) return status;
  switch (scheduler().elapsed(start, end, *out)) {
    case Status::success: return Status::success;
    case Status::not_ready: return answer(Rule::elapsed_unfinished, Status::not_ready);
    default:
      return refuse(Rule::elapsed_without_time, Status::invalid_handle,
                    "between " + describe_timing(*start) + " and " + describe_timing(*end));
  }
}

}  // extern "C"

}  // namespace assay::cuda::model
