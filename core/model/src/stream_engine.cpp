#include "stream_engine.hpp"

#include <utility>

#include "call.hpp"
#include "configuration.hpp"
#include "graves.hpp"
#include "immortal.hpp"
#include "kernel_modules.hpp"
#include "pool.hpp"
#include "profile.hpp"
#include "rules.hpp"

namespace assay::cuda::model {

namespace {

bool host_and_device_exclude_each_other() noexcept {
  return profile().has(DeviceAttribute::managed_memory) &&
         !profile().has(DeviceAttribute::concurrent_managed_access);
}

}  // namespace

StreamScheduler& scheduler() noexcept {
  static Immortal<StreamScheduler> the_scheduler(
      StreamScheduler::Hooks{.activity = refresh_host_access, .enqueued = check_pool_order},
      StreamScheduler::Options{.eager = eager(),
                               .exclusive = host_and_device_exclude_each_other()});
  return *the_scheduler;
}

Status find_queue(Stream stream, ContextRecord* current, QueuePointer& queue) noexcept {
  switch (scheduler().find_stream(stream, current, queue)) {
    case Status::success: break;
    case Status::context_is_destroyed:
      return refuse(Rule::stream_destroyed, Status::context_is_destroyed,
                    "uses a stream that is gone: " + epitaph(stream));
    case Status::invalid_handle:
      return refuse(Rule::stream_unknown, Status::invalid_handle, "uses a value that is no stream");
    default:
      return refuse(Rule::no_current_context, Status::invalid_context,
                    "uses the default stream " + describe_lack_of_context());
  }
  const Status sticky = queue->context->sticky.load(std::memory_order_acquire);
  return sticky == Status::success ? sticky : answer(Rule::poisoned, sticky);
}

Status check_stream(Stream stream, ContextRecord* current) noexcept {
  QueuePointer queue;
  return find_queue(stream, current, queue);
}

Status enqueue(Stream stream, ContextRecord* current, Operation operation) noexcept {
  QueuePointer queue;
  const Status status = find_queue(stream, current, queue);
  if (status == Status::success) scheduler().enqueue(queue, std::move(operation));
  return status;
}

Status synchronize(Stream stream, ContextRecord* current) noexcept {
  QueuePointer queue;
  const Status status = find_queue(stream, current, queue);
  if (status != Status::success) return status;
  const Status waited = scheduler().synchronize(queue);
  release_unused_reserve();
  return waited;
}

Status synchronize_context(ContextRecord& context) noexcept {
  const Status status = scheduler().synchronize_context(context);
  release_unused_reserve();
  return status;
}

std::optional<PendingWork> pending_work(Range range) noexcept {
  return scheduler().pending_work(range);
}

void wait_for_range(Range range) noexcept {
  scheduler().wait_for_range(range);
}

void finish_sync_forms(Range range) noexcept {
  scheduler().wait_for_sync_forms(range);
}

void end_streams_of(ContextRecord& context) noexcept {
  for (const QueuePointer& queue : scheduler().live_streams()) {
    if (queue->context == &context) bury_handle(queue->handle, queue->created, context.ended);
  }
  for (const auto& [handle, event] : scheduler().live_event_handles()) {
    if (event->context == &context) bury_handle(handle, event->created, context.ended);
  }
  for (const PendingWork& lost : scheduler().end_context(context)) {
    diagnose(Rule::context_ended_with_work,
             describe(context) + " before the work of " + describe(lost.site) + " was waited for");
  }
  end_modules_of(context);
}

bool host_reads_early(Range range) noexcept {
  const std::optional<PendingWork> work = scheduler().pending_write(range);
  if (!work) return false;
  diagnose(Rule::host_read_early, "the host reads " + describe_range(range.address, range.size) +
                                      ", which the unfinished work of " + describe(work->site) +
                                      " writes");
  return true;
}

std::string describe_busy() {
  const std::optional<StreamScheduler::Busy> busy = scheduler().busy_work();
  if (!busy) return "the device was busy";
  std::string text = "the work of " + describe(busy->work) + " has not been waited for";
  if (busy->destroyed) {
    text += "; " + describe(*busy->destroyed) + " destroyed its stream, which waits for nothing";
  }
  return text;
}

void open_all_gates() noexcept {
  scheduler().open_gates();
}

void stop_streams() noexcept {
  scheduler().stop();
}

std::uint64_t live_streams() noexcept {
  return scheduler().live_streams().size();
}

std::uint64_t live_events() noexcept {
  return scheduler().live_events().size();
}

std::vector<std::string> live_stream_objects() {
  std::vector<std::string> lines;
  for (const QueuePointer& queue : scheduler().live_streams()) {
    lines.push_back("stream made by " + describe(queue->created));
  }
  for (const EventPointer& event : scheduler().live_events()) {
    lines.push_back("event made by " + describe(event->created));
  }
  for (const Site& site : live_module_sites()) {
    lines.push_back("module made by " + describe(site));
  }
  return lines;
}

}  // namespace assay::cuda::model
