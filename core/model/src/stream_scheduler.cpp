#include "stream_scheduler.hpp"
#include "mutants.hpp"

#include <algorithm>
#include <utility>

namespace assay::cuda::model {

namespace {

Status sticky_code(const ContextRecord& context) noexcept {
  return context.sticky.load(std::memory_order_acquire);
}

bool touches(const Operation& operation, Range range) {
  const auto overlaps = [&](Range other) { return share(other, range); };
  return std::any_of(operation.reads.begin(), operation.reads.end(), overlaps) ||
         std::any_of(operation.writes.begin(), operation.writes.end(), overlaps) ||
         overlaps(operation.gate);
}

}  // namespace

StreamScheduler::StreamScheduler(Hooks hooks, Options options)
    : hooks_(std::move(hooks)), options_(options) {}

StreamScheduler::~StreamScheduler() {
  stop();
  Lock lock(mutex_);
  changed_.wait(lock, [&] { return threads_ == 0; });
}

// --- Streams ---

Stream StreamScheduler::create_stream(ContextRecord& context, unsigned flags, int priority,
                                      Site site) {
  const Lock lock(mutex_);
  auto queue = std::make_shared<StreamQueue>(&context, flags, priority, site);
  queue->handle = streams_.insert(queue);
  queues_.push_back(queue);
  return queue->handle;
}

Status StreamScheduler::find_stream(Stream stream, ContextRecord* current, QueuePointer& queue) {
  if (is_default_stream(stream)) {
    if (current == nullptr) return Status::invalid_context;
    const Lock lock(mutex_);
    queue = default_queue(current);
    return Status::success;
  }
  auto found = streams_.find(stream);
  queue = std::move(found.object);
  if (queue != nullptr) return Status::success;
  using State = decltype(found.state);
  return found.state == State::dead ? Status::context_is_destroyed : Status::invalid_handle;
}

Status StreamScheduler::destroy_stream(Stream stream) {
  QueuePointer queue;
  const Status status = find_stream(stream, nullptr, queue);
  if (status != Status::success) return status;
  if (streams_.erase(stream) == nullptr) return Status::context_is_destroyed;
  const Lock lock(mutex_);
  queue->destroyed = true;
  if (const Site* call = this_thread().call) queue->ended = *call;
  queue->handle = nullptr;
  retire(queue);
  forget_spent_queues();
  return Status::success;
}

QueuePointer StreamScheduler::default_queue(ContextRecord* context) {
  if (QueuePointer known = known_default(context)) return known;
  auto queue = std::make_shared<StreamQueue>(context, 0U, 0, Site{});
  defaults_.push_back(queue);
  queues_.push_back(queue);
  return queue;
}

bool StreamScheduler::worth_waiting_for(const StreamQueue& queue) const noexcept {
  return queue.completed < queue.enqueued ||
         (options_.exclusive && queue.observed < queue.enqueued);
}

// The legacy default stream waits for every blocking stream of its context, and they wait for it
// [doc]; a non-blocking stream has no part in it.
void StreamScheduler::add_default_order(const QueuePointer& queue, std::vector<StreamMark>& after) {
  if ((queue->flags & stream_non_blocking) != 0) return;
  if (ASSAY_MODEL_BROKEN("default_stream_waits")) return;
  const QueuePointer known = known_default(queue->context);
  if (known == nullptr) return;
  if (known != queue) {
    if (worth_waiting_for(*known)) after.push_back({known, known->enqueued});
    return;
  }
  for (const QueuePointer& other : queues_) {
    const bool blocking = (other->flags & stream_non_blocking) == 0;
    if (other != queue && other->context == queue->context && blocking &&
        worth_waiting_for(*other)) {
      after.push_back({other, other->enqueued});
    }
  }
}

void StreamScheduler::enqueue_locked(const QueuePointer& queue, Operation operation,
                                     std::vector<StreamMark> after) {
  QueueEntry entry;
  entry.operation = std::move(operation);
  take_ticket(queue, entry);
  const std::uint64_t ticket = entry.ticket;
  if (queue->dropped || stopping_) {
    queue->completed = queue->running ? queue->completed : ticket;
    leave_passage(entry);
    return;
  }
  if (entry.operation.device_work) queue->device_work = entry.operation.site;
  add_default_order(queue, after);
  if (options_.exclusive) {
    for (const StreamMark& mark : after) queue->joins.push_back({ticket, mark});
  }
  entry.after = std::move(after);
  queue->pending.push_back(std::move(entry));
  if (options_.eager) {
    start_thread(worker_started_, &StreamScheduler::work_eagerly);
    changed_.notify_all();
  }
}

void StreamScheduler::enqueue(const QueuePointer& queue, Operation operation) {
  Lock lock(mutex_);
  const bool device_work = operation.device_work;
  enqueue_locked(queue, std::move(operation));
  if (device_work) tell_activity(lock);
}

Status StreamScheduler::synchronize(const QueuePointer& queue) {
  Lock lock(mutex_);
  const std::uint64_t ticket = queue->enqueued;
  const StreamClock clock = clock_at_end(*queue);
  const Status status = wait(lock, queue, ticket);
  if (status == Status::success) see(clock);
  observe({queue, ticket});
  tell_activity(lock);
  return status;
}

Status StreamScheduler::synchronize_context(ContextRecord& context) {
  Lock lock(mutex_);
  std::vector<StreamMark> marks;
  StreamClock clock = retired_[&context].all;
  for (const QueuePointer& queue : queues_) {
    if (queue->context != &context) continue;
    marks.push_back({queue, queue->enqueued});
    clock.join(clock_at_end(*queue));
  }
  for (const StreamMark& mark : marks) {
    const Status status = wait(lock, mark.queue, mark.ticket);
    if (status != Status::success) return status;
    observe(mark);
  }
  see(clock);
  forget_spent_queues();
  tell_activity(lock);
  return sticky_code(context);
}

Status StreamScheduler::query(const QueuePointer& queue) {
  Lock lock(mutex_);
  const std::uint64_t ticket = queue->enqueued;
  const bool asked_before = queue->asked >= ticket || ASSAY_MODEL_BROKEN("work_is_late");
  queue->asked = ticket;
  const StreamClock clock = clock_at_end(*queue);
  const Status status = query(lock, queue, ticket, asked_before);
  if (status == Status::success) see(clock);
  return status;
}

Status StreamScheduler::query(Lock& lock, const QueuePointer& queue, std::uint64_t ticket,
                              bool asked_before) {
  bool gated = false;
  while (asked_before && queue->completed < ticket && !stopping_) {
    const QueuePointer runnable = next(queue, ticket, gated);
    if (runnable == nullptr) break;
    run_front(lock, runnable);
  }
  if (const Status sticky = sticky_code(*queue->context); sticky != Status::success) return sticky;
  if (queue->completed < ticket) return Status::not_ready;
  if (!ASSAY_MODEL_BROKEN("query_observes")) observe({queue, ticket});
  tell_activity(lock);
  return Status::success;
}

Status StreamScheduler::wait(Lock& lock, const QueuePointer& queue, std::uint64_t ticket) {
  while (queue->completed < ticket) {
    if (stopping_) return Status::deinitialized;
    if (sticky_code(*queue->context) != Status::success) break;
    bool gated = false;
    if (const QueuePointer runnable = next(queue, ticket, gated)) {
      run_front(lock, runnable);
    } else {
      pause(lock, gated);
    }
  }
  return sticky_code(*queue->context);
}

// --- Events ---

Event StreamScheduler::create_event(ContextRecord& context, unsigned flags, Site site) {
  return events_.insert(std::make_shared<StreamEvent>(&context, flags, site));
}

Status StreamScheduler::find_event(Event handle, EventPointer& event) {
  auto found = events_.find(handle);
  event = std::move(found.object);
  if (event != nullptr) return Status::success;
  using State = decltype(found.state);
  return found.state == State::dead ? Status::context_is_destroyed : Status::invalid_handle;
}

Status StreamScheduler::destroy_event(Event handle) {
  EventPointer event;
  const Status status = find_event(handle, event);
  if (status != Status::success) return status;
  return events_.erase(handle) == nullptr ? Status::context_is_destroyed : Status::success;
}

void StreamScheduler::record(const EventPointer& event, const QueuePointer& queue, Site site) {
  const Lock lock(mutex_);
  auto stamp = std::make_shared<EventStamp>();
  Operation mark;
  mark.name = "cuEventRecord";
  mark.site = site;
  mark.run = [stamp] {
    stamp->reached = std::chrono::steady_clock::now();
    return Status::success;
  };
  enqueue_locked(queue, std::move(mark));
  event->recorded = {queue, queue->enqueued};
  event->clock = queue->clock;
  event->clock.reach(queue->life, queue->enqueued);
  event->stamp = std::move(stamp);
  event->asked = false;
}

void StreamScheduler::wait_event(const QueuePointer& queue, const EventPointer& event, Site site) {
  const Lock lock(mutex_);
  const StreamMark mark = event->recorded;  // the record as of now: later ones don't count [hdr]
  advance_clock(queue);  // a wait in a default stream orders, whatever it waits for
  if (mark.queue == nullptr || mark.queue == queue || ASSAY_MODEL_BROKEN("events_order")) return;
  queue->clock.join(event->clock);
  if (!worth_waiting_for(*mark.queue)) return;
  Operation wait;
  wait.name = "cuStreamWaitEvent";
  wait.site = site;
  enqueue_locked(queue, std::move(wait), {mark});
}

Status StreamScheduler::query(const EventPointer& event) {
  Lock lock(mutex_);
  const StreamMark mark = event->recorded;
  if (mark.queue == nullptr) return Status::success;
  const bool asked_before = std::exchange(event->asked, true);
  const StreamClock clock = event->clock;
  const Status status = query(lock, mark.queue, mark.ticket, asked_before);
  if (status == Status::success) see(clock);
  return status;
}

Status StreamScheduler::synchronize(const EventPointer& event) {
  Lock lock(mutex_);
  const StreamMark mark = event->recorded;
  if (mark.queue == nullptr) return Status::success;
  const StreamClock clock = event->clock;
  const Status status = wait(lock, mark.queue, mark.ticket);
  if (status == Status::success) see(clock);
  observe(mark);
  tell_activity(lock);
  return status;
}

bool StreamScheduler::is_recorded(const StreamEvent& event) {
  const Lock lock(mutex_);
  return event.recorded.queue != nullptr;
}

Status StreamScheduler::elapsed(const EventPointer& start, const EventPointer& end, float& ms) {
  const Lock lock(mutex_);
  for (const EventPointer& event : {start, end}) {
    const bool untimed = (event->flags & event_disable_timing) != 0;
    if (untimed || event->recorded.queue == nullptr) return Status::invalid_handle;
  }
  for (const EventPointer& event : {start, end}) {
    if (event->recorded.queue->completed < event->recorded.ticket) return Status::not_ready;
  }
  see(end->clock);
  see(start->clock);
  ms =
      std::chrono::duration<float, std::milli>(end->stamp->reached - start->stamp->reached).count();
  return Status::success;
}

// --- Memory in use ---

std::optional<PendingWork> StreamScheduler::pending_work(Range range) {
  const Lock lock(mutex_);
  for (const QueuePointer& queue : queues_) {
    for (const QueueEntry& entry : queue->pending) {
      if (touches(entry.operation, range)) {
        return PendingWork{entry.operation.name, entry.operation.site};
      }
    }
  }
  return std::nullopt;
}

std::optional<PendingWork> StreamScheduler::pending_write(Range range) {
  const Lock lock(mutex_);
  for (const QueuePointer& queue : queues_) {
    for (const QueueEntry& entry : queue->pending) {
      const auto& writes = entry.operation.writes;
      if (std::any_of(writes.begin(), writes.end(),
                      [&](Range written) { return share(written, range); })) {
        return PendingWork{entry.operation.name, entry.operation.site};
      }
    }
  }
  return std::nullopt;
}

void StreamScheduler::wait_for_range(Range range) {
  wait_for_users(range, false);
}

void StreamScheduler::wait_for_sync_forms(Range range) {
  wait_for_users(range, true);
}

void StreamScheduler::wait_for_users(Range range, bool sync_forms_only) {
  Lock lock(mutex_);
  std::vector<StreamMark> users;
  for (const QueuePointer& queue : queues_) {
    for (const QueueEntry& entry : queue->pending) {
      const Operation& operation = entry.operation;
      if (sync_forms_only && !operation.sync_form) continue;
      if (touches(operation, range)) users.push_back({queue, entry.ticket});
    }
  }
  for (const StreamMark& user : users) {
    if (wait(lock, user.queue, user.ticket) != Status::success) return;
  }
}

bool StreamScheduler::may_change(Range range) {
  const Lock lock(mutex_);
  for (const QueuePointer& queue : queues_) {
    for (const QueueEntry& entry : queue->pending) {
      const Operation& operation = entry.operation;
      if (operation.host_function || operation.ready) return true;
      if (std::any_of(operation.writes.begin(), operation.writes.end(),
                      [&](Range written) { return share(written, range); })) {
        return true;
      }
    }
  }
  return false;
}

// --- Contexts ---

// Entries that run now are left to whoever runs them. `dropped` is destroyed without the lock.
void StreamScheduler::drop_pending(ContextRecord& context, std::vector<QueueEntry>& dropped) {
  for (const QueuePointer& queue : queues_) {
    if (queue->context != &context) continue;
    queue->dropped = true;
    const auto called = std::find(host_calls_.begin(), host_calls_.end(), queue);
    if (called != host_calls_.end()) {
      host_calls_.erase(called);
      queue->running = false;
    }
    while (queue->pending.size() > (queue->running ? 1U : 0U)) {
      leave_passage(queue->pending.back());
      dropped.push_back(std::move(queue->pending.back()));
      queue->pending.pop_back();
    }
    if (!queue->running) queue->completed = queue->enqueued;
    queue->joins.clear();
  }
  changed_.notify_all();
}

std::vector<PendingWork> StreamScheduler::end_context(ContextRecord& context) {
  std::vector<QueueEntry> dropped;
  Lock lock(mutex_);
  drop_pending(context, dropped);
  const auto ours = [&](const QueuePointer& queue) { return queue->context == &context; };
  changed_.wait(lock, [&] {
    return std::none_of(queues_.begin(), queues_.end(),
                        [&](const QueuePointer& queue) { return ours(queue) && queue->running; });
  });
  for (const auto& [handle, queue] : streams_.all()) {
    if (ours(queue)) streams_.erase(handle);
  }
  for (const auto& [handle, event] : events_.all()) {
    if (event->context == &context) events_.erase(handle);
  }
  end_order_of(context);
  std::erase_if(queues_, ours);
  std::erase_if(defaults_, ours);
  tell_activity(lock);
  lock.unlock();
  std::vector<PendingWork> lost;
  for (const QueueEntry& entry : dropped) {
    const Operation& operation = entry.operation;
    if (operation.reaches_host) lost.push_back({operation.name, operation.site});
  }
  return lost;
}

// A destroyed stream stays as long as something of it is pending, or may keep the device busy.
void StreamScheduler::forget_spent_queues() {
  std::erase_if(queues_, [&](const QueuePointer& queue) {
    return queue->destroyed && !queue->running && queue->pending.empty() &&
           !worth_waiting_for(*queue);
  });
}

void StreamScheduler::open_gates() {
  const Lock lock(mutex_);
  for (const QueuePointer& queue : queues_) {
    for (QueueEntry& entry : queue->pending) {
      if (entry.operation.ready) entry.forced = true;
    }
  }
  changed_.notify_all();
}

void StreamScheduler::stop() {
  const Lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  host_wanted_.notify_all();
}

std::vector<QueuePointer> StreamScheduler::live_streams() const {
  std::vector<QueuePointer> live;
  for (auto& [handle, queue] : streams_.all()) live.push_back(std::move(queue));
  return live;
}

std::vector<std::pair<Event, EventPointer>> StreamScheduler::live_event_handles() const {
  return events_.all();
}

std::vector<EventPointer> StreamScheduler::live_events() const {
  std::vector<EventPointer> live;
  for (auto& [handle, event] : events_.all()) live.push_back(std::move(event));
  return live;
}

}  // namespace assay::cuda::model
