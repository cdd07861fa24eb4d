// Primary contexts, contexts of one's own, and what is current.
#include "call.hpp"
#include "devices.hpp"
#include "profile.hpp"
#include "stream_engine.hpp"

namespace assay::cuda::model {

namespace {

constexpr int compute_mode_prohibited = 2;

/// Scheduling 0, 1, 2 or 4, and the single bits from MAP_HOST to SYNC_MEMOPS.
bool context_flags_valid(unsigned flags) {
  const unsigned scheduling = flags & 0x07;
  return (flags & ~0xffU) == 0 && (scheduling & (scheduling - 1)) == 0;
}

/// The live context that a handle names. 709 for one that has ended, 201 for a value that never was
/// a context.
Status resolve(Context handle, ContextRecord*& out) {
  out = find_context(handle);
  if (out != nullptr) return Status::success;
  if (was_context(handle)) {
    return refuse(Rule::handle_of_destroyed_context, Status::context_is_destroyed,
                  "uses the handle of " + describe(*last_life(handle)));
  }
  return answer(Rule::context_handle, Status::invalid_context);
}

Status push(ContextRecord& context) {
  ThreadState& thread = this_thread();
  if (thread.depth == ThreadState::stack_max) {
    return answer(Rule::context_stack_full, Status::out_of_memory);
  }
  thread.stack[thread.depth++] = &context;
  context.thread.store(thread_id(), std::memory_order_relaxed);
  return Status::success;
}

}  // namespace

extern "C" {

Status cuDevicePrimaryCtxRetain(Context* out, Device device) {
  ASSAY_MODEL_CALL(cuDevicePrimaryCtxRetain, initialised);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if (const Status bad = check_ordinal(device); bad != Status::success) return bad;
  if (profile().attribute(DeviceAttribute::compute_mode) == compute_mode_prohibited) {
    return answer(Rule::compute_mode, Status::unknown);
  }
  *out = retain_primary(device, call.site())->handle;
  return Status::success;
}

Status cuDevicePrimaryCtxRelease_v2(Device device) {
  ASSAY_MODEL_CALL(cuDevicePrimaryCtxRelease_v2, initialised);
  if (const Status bad = check_ordinal(device); bad != Status::success) return bad;
  const Status status = release_primary(device);
  return status == Status::success ? status : answer(Rule::release_unretained, status);
}

Status cuDevicePrimaryCtxGetState(Device device, unsigned* flags, int* active) {
  ASSAY_MODEL_CALL(cuDevicePrimaryCtxGetState, initialised);
  if (flags == nullptr || active == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if (const Status bad = check_ordinal(device); bad != Status::success) return bad;
  const PrimaryState state = primary_state(device);
  *flags = state.flags;
  *active = state.active ? 1 : 0;
  return Status::success;
}

Status cuDevicePrimaryCtxReset_v2(Device device) {
  ASSAY_MODEL_CALL(cuDevicePrimaryCtxReset_v2, initialised);
  if (const Status bad = check_ordinal(device); bad != Status::success) return bad;
  reset_primary(device);
  return Status::success;
}

Status cuDevicePrimaryCtxSetFlags_v2(Device device, unsigned flags) {
  ASSAY_MODEL_CALL(cuDevicePrimaryCtxSetFlags_v2, initialised);
  if (!context_flags_valid(flags)) return answer(Rule::context_flags, Status::invalid_value);
  if (const Status bad = check_ordinal(device); bad != Status::success) return bad;
  set_primary_flags(device, flags);
  return Status::success;
}

Status cuCtxPushCurrent_v2(Context handle) {
  ASSAY_MODEL_CALL(cuCtxPushCurrent_v2, initialised);
  ContextRecord* context = nullptr;
  if (const Status bad = resolve(handle, context); bad != Status::success) return bad;
  return push(*context);
}

Status cuCtxPopCurrent_v2(Context* out) {
  ASSAY_MODEL_CALL(cuCtxPopCurrent_v2, initialised);
  ThreadState& thread = this_thread();
  if (thread.depth == 0) return answer(Rule::pop_empty, Status::invalid_context);
  const ContextRecord* context = thread.stack[--thread.depth];
  if (out != nullptr) *out = context->handle;
  return Status::success;
}

Status cuCtxGetCurrent(Context* out) {
  ASSAY_MODEL_CALL(cuCtxGetCurrent, initialised);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  const ContextRecord* context = current_context();
  *out = context == nullptr ? nullptr : context->handle;
  return Status::success;
}

Status cuCtxSetCurrent(Context handle) {
  ASSAY_MODEL_CALL(cuCtxSetCurrent, initialised);
  ThreadState& thread = this_thread();
  if (handle == nullptr) {
    if (thread.depth > 0) --thread.depth;
    return Status::success;
  }
  ContextRecord* context = nullptr;
  if (const Status bad = resolve(handle, context); bad != Status::success) return bad;
  if (thread.depth == 0) return push(*context);
  thread.stack[thread.depth - 1] = context;
  context->thread.store(thread_id(), std::memory_order_relaxed);
  return Status::success;
}

Status cuCtxGetDevice(Device* out) {
  ASSAY_MODEL_CALL(cuCtxGetDevice, context);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  *out = call.context().device;
  return Status::success;
}

Status cuCtxSynchronize() {
  const SelfWait self_wait(this_thread().host_function != nullptr);  // of all streams
  ASSAY_MODEL_CALL(cuCtxSynchronize, context);
  return synchronize_context(call.context());
}

Status cuCtxCreate_v2(Context* out, unsigned flags, Device device) {
  ASSAY_MODEL_CALL(cuCtxCreate_v2, initialised);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if (!context_flags_valid(flags)) return answer(Rule::context_flags, Status::invalid_value);
  if (const Status bad = check_ordinal(device); bad != Status::success) return bad;
  if (profile().attribute(DeviceAttribute::compute_mode) == compute_mode_prohibited) {
    return answer(Rule::compute_mode, Status::unknown);
  }
  if (this_thread().depth == ThreadState::stack_max) {
    return answer(Rule::context_stack_full, Status::out_of_memory);
  }
  ContextRecord* context = create_context(device, flags, call.site());
  *out = context->handle;
  return push(*context);
}

Status cuCtxDestroy_v2(Context handle) {
  ASSAY_MODEL_CALL(cuCtxDestroy_v2, initialised);
  ContextRecord* context = nullptr;
  if (const Status bad = resolve(handle, context); bad != Status::success) return bad;
  if (context->primary) return answer(Rule::destroy_primary, Status::invalid_context);
  ThreadState& thread = this_thread();
  if (current_context() == context) --thread.depth;
  end_context(*context);
  return Status::success;
}

}  // extern "C"

}  // namespace assay::cuda::model
