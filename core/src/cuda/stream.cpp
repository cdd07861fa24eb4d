#include "assay/cuda/stream.hpp"

#include <new>

#include "destroy.hpp"

namespace assay::cuda {
namespace {

using abi::Status;

/// The answer of a query: both success and "not ready" are answers [hdr].
Result<bool> answer(PrimaryContext& context, Status status, const char* function) noexcept {
  if (status == Status::not_ready) return false;
  ASSAY_TRY_VOID(context.check(status, function));
  return true;
}

}  // namespace

Result<Ref<Stream>> Stream::make(Ref<PrimaryContext> context) noexcept {
  ASSAY_TRY(const Current current, Current::of(*context));
  const abi::DriverTable& table = context->table();
  abi::Stream handle = nullptr;
  ASSAY_TRY_VOID(
      context->check(table.cuStreamCreate(&handle, abi::stream_non_blocking), "cuStreamCreate"));
  auto* const stream = new (std::nothrow) Stream(context, handle);
  if (stream == nullptr) {
    table.cuStreamDestroy_v2(handle);
    return Error::make(ErrorCode::out_of_memory, "make a stream");
  }
  return Ref<Stream>::adopt(stream);
}

Stream::~Stream() {
  // Waits for nothing: pending work finishes.
  detail::destroy_under(*context_, [&] { return context_->table().cuStreamDestroy_v2(handle_); });
}

Result<void> Stream::synchronize() noexcept {
  ASSAY_TRY(const Current current, Current::of(*context_));
  return context_->check(context_->table().cuStreamSynchronize(handle_), "cuStreamSynchronize");
}

Result<bool> Stream::finished() noexcept {
  ASSAY_TRY(const Current current, Current::of(*context_));
  return answer(*context_, context_->table().cuStreamQuery(handle_), "cuStreamQuery");
}

Result<void> Stream::wait(const Event& event) noexcept {
  ASSAY_TRY(const Current current, Current::of(*context_));
  return context_->check(context_->table().cuStreamWaitEvent(handle_, event.handle(), 0),
                         "cuStreamWaitEvent");
}

Result<Ref<Event>> Event::make(Ref<PrimaryContext> context, Timing timing) noexcept {
  ASSAY_TRY(const Current current, Current::of(*context));
  const abi::DriverTable& table = context->table();
  const unsigned flags = timing == Timing::yes ? 0 : abi::event_disable_timing;
  abi::Event handle = nullptr;
  ASSAY_TRY_VOID(context->check(table.cuEventCreate(&handle, flags), "cuEventCreate"));
  auto* const event = new (std::nothrow) Event(context, handle);
  if (event == nullptr) {
    table.cuEventDestroy_v2(handle);
    return Error::make(ErrorCode::out_of_memory, "make an event");
  }
  return Ref<Event>::adopt(event);
}

Event::~Event() {
  detail::destroy_under(*context_, [&] { return context_->table().cuEventDestroy_v2(handle_); });
}

Result<void> Event::record(Stream& stream) noexcept {
  ASSAY_TRY(const Current current, Current::of(*context_));
  return context_->check(context_->table().cuEventRecord(handle_, stream.handle()),
                         "cuEventRecord");
}

Result<void> Event::synchronize() noexcept {
  ASSAY_TRY(const Current current, Current::of(*context_));
  return context_->check(context_->table().cuEventSynchronize(handle_), "cuEventSynchronize");
}

Result<bool> Event::finished() noexcept {
  ASSAY_TRY(const Current current, Current::of(*context_));
  return answer(*context_, context_->table().cuEventQuery(handle_), "cuEventQuery");
}

Result<float> Event::elapsed_ms_since(Event& start) noexcept {
  ASSAY_TRY(const Current current, Current::of(*context_));
  float milliseconds = 0;
  ASSAY_TRY_VOID(
      context_->check(context_->table().cuEventElapsedTime(&milliseconds, start.handle(), handle_),
                      "cuEventElapsedTime"));
  return milliseconds;
}

}  // namespace assay::cuda
