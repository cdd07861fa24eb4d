// What is ordered after what: the half of StreamScheduler that keeps the clocks.
#include <algorithm>
#include <utility>

#include "mutants.hpp"
#include "stream_scheduler.hpp"

namespace assay::cuda::model {

namespace {

bool is_blocking(const StreamQueue& queue) {
  return (queue.flags & stream_non_blocking) == 0;
}

}  // namespace

QueuePointer StreamScheduler::known_default(const ContextRecord* context) const {
  const auto known =
      std::find_if(defaults_.begin(), defaults_.end(),
                   [&](const QueuePointer& each) { return each->context == context; });
  return known == defaults_.end() ? nullptr : *known;
}

void StreamScheduler::join_blocking(StreamClock& clock, const StreamQueue& default_queue) {
  for (const QueuePointer& other : queues_) {
    if (other->context != default_queue.context || !is_blocking(*other)) continue;
    clock.join(other->clock);
    clock.reach(other->life, other->enqueued);
  }
  const auto retired = retired_.find(default_queue.context);
  if (retired != retired_.end()) clock.join(retired->second.blocking);
}

// What is enqueued next is after all that the host has seen, and after the default stream's order.
void StreamScheduler::advance_clock(const QueuePointer& queue) {
  StreamClock& clock = queue->clock;
  clock.settle();
  clock.join(host_);
  if (!is_blocking(*queue) || ASSAY_MODEL_BROKEN("default_stream_waits")) return;
  const QueuePointer known = known_default(queue->context);
  if (known == queue) {
    join_blocking(clock, *queue);
  } else if (known != nullptr) {
    clock.join(known->clock);
    clock.reach(known->life, known->enqueued);
  }
}

void StreamScheduler::take_ticket(const QueuePointer& queue, QueueEntry& entry) {
  advance_clock(queue);
  entry.ticket = ++queue->enqueued;
  ++serial_;
  const Operation& operation = entry.operation;
  if (hooks_.enqueued && !(operation.reads.empty() && operation.writes.empty())) {
    hooks_.enqueued(operation, StreamOrder(queue->clock, {queue, entry.ticket, serial_}));
  }
  if (operation.host_function) {
    entry.before = queue->clock;
    entry.before.reach(queue->life, entry.ticket - 1);
  }
  if (operation.host_function || operation.ready) {
    entry.passage = std::make_shared<Passage>();
    entry.passage->queue = queue->life;
    entry.passage->ticket = entry.ticket;
    entry.passage->host_function = static_cast<bool>(operation.host_function);
    queue->clock.pass(entry.passage);
  }
  // A call without a stream: what it leaves pending is nobody's mistake.
  if (operation.sync_form) see(clock_at_end(*queue));
}

Status StreamScheduler::enqueue(const QueuePointer& queue, Operation operation, const Plan& plan) {
  const Lock lock(mutex_);
  advance_clock(queue);
  const StreamOrder order(queue->clock, {queue, queue->enqueued + 1, serial_ + 1});
  std::vector<StreamMark> after;
  const Status status = plan(order, operation, after);
  if (status == Status::success) enqueue_locked(queue, std::move(operation), std::move(after));
  return status;
}

void StreamScheduler::consult_host_order(const std::function<void(const StreamOrder&)>& ask) {
  const Lock lock(mutex_);
  ask(StreamOrder(host_, {}));
}

/// What the host knows once it has waited for all of the queue. Whoever waits for the default
/// stream may take it for a wait for all blocking streams: nobody is blamed for that.
StreamClock StreamScheduler::clock_at_end(const StreamQueue& queue) {
  StreamClock clock = queue.clock;
  clock.reach(queue.life, queue.enqueued);
  const QueuePointer known = known_default(queue.context);
  if (known.get() == &queue) join_blocking(clock, queue);
  return clock;
}

void StreamScheduler::see(const StreamClock& clock) {
  host_.join(clock);
  std::erase_if(unsettled_, [&](const QueuePointer& queue) {
    if (!host_.covers(queue->life, queue->enqueued)) return false;
    queue->life->settled = true;
    return true;
  });
  host_.settle();
}

// Nothing more comes from a destroyed stream, but what it has done stays before what follows.
void StreamScheduler::retire(const QueuePointer& queue) {
  Retired& retired = retired_[queue->context];
  const StreamClock clock = clock_at_end(*queue);
  for (StreamClock* each : {&retired.all, &retired.blocking}) {
    each->settle();
    if (each == &retired.all || is_blocking(*queue)) each->join(clock);
  }
  unsettled_.push_back(queue);
  see({});
}

// Its work has run or never will, and the program ended it: whatever comes is after it.
void StreamScheduler::end_order_of(const ContextRecord& context) {
  for (const QueuePointer& queue : queues_) {
    if (queue->context == &context) queue->life->settled = true;
  }
  for (const QueuePointer& queue : unsettled_) {
    if (queue->context == &context) queue->life->settled = true;
  }
  std::erase_if(unsettled_, [&](const QueuePointer& queue) { return queue->context == &context; });
  retired_.erase(&context);
  host_.settle();
}

void StreamScheduler::leave_passage(QueueEntry& entry) {
  if (entry.passage == nullptr) return;
  entry.passage->passed = true;
  if (entry.operation.host_function) {
    host_.settle();
    entry.passage->known = host_;
  } else {
    entry.passage->horizon = serial_;
  }
}

}  // namespace assay::cuda::model
