// What may run next, and on which thread: the half of StreamScheduler that moves work along.
#include <algorithm>
#include <thread>
#include <utility>

#include "stream_scheduler.hpp"

namespace assay::cuda::model {

namespace {

// A gate opened by a plain host store tells nobody, so whoever waits for it looks this often.
constexpr auto gate_poll_interval = std::chrono::microseconds(200);

}  // namespace

/// One search for something to run: queues looked at, and gates found closed on the way.
struct StreamScheduler::Search {
  std::vector<const StreamQueue*> seen;
  std::vector<Range> closed;

  bool first_visit(const StreamQueue* queue) {
    if (std::find(seen.begin(), seen.end(), queue) != seen.end()) return false;
    seen.push_back(queue);
    return true;
  }
};

// A queue whose front entry may run now and brings `queue` nearer to `ticket`; null if none. Only
// the front of a queue can run, so each queue is looked at once.
QueuePointer StreamScheduler::find_runnable(const QueuePointer& queue, std::uint64_t ticket,
                                            Search& search) {
  if (queue->completed >= ticket || queue->running || queue->pending.empty()) return nullptr;
  if (!search.first_visit(queue.get())) return nullptr;
  QueueEntry& front = queue->pending.front();
  bool held_back = false;
  for (const StreamMark& mark : front.after) {
    if (mark.queue->completed >= mark.ticket) continue;
    held_back = true;
    if (QueuePointer earlier = find_runnable(mark.queue, mark.ticket, search)) return earlier;
  }
  if (held_back) return nullptr;
  if (front.operation.ready && !front.forced && !front.operation.ready()) {
    search.closed.push_back(front.operation.gate);
    return nullptr;
  }
  return queue;
}

// Hardware would run the other streams meanwhile, and one of them may open the gate: a write to
// its word, or a host function, which may do anything.
QueuePointer StreamScheduler::find_opener(Search& search) {
  for (std::size_t index = 0; index < search.closed.size(); ++index) {
    const Range gate = search.closed[index];
    for (const QueuePointer& queue : queues_) {
      std::uint64_t last = 0;
      for (const QueueEntry& entry : queue->pending) {
        const auto& writes = entry.operation.writes;
        const bool opens = entry.operation.host_function ||
                           std::any_of(writes.begin(), writes.end(),
                                       [&](Range range) { return share(range, gate); });
        if (opens) last = entry.ticket;
      }
      if (QueuePointer runnable = find_runnable(queue, last, search)) return runnable;
    }
  }
  return nullptr;
}

QueuePointer StreamScheduler::next(const QueuePointer& queue, std::uint64_t ticket, bool& gated) {
  Search search;
  QueuePointer runnable = find_runnable(queue, ticket, search);
  if (runnable == nullptr) runnable = find_opener(search);
  gated = !search.closed.empty();
  return runnable;
}

void StreamScheduler::run_front(Lock& lock, const QueuePointer& queue) {
  queue->running = true;
  const Operation& operation = queue->pending.front().operation;  // stays put until it completes
  if (operation.host_function) {
    host_calls_.push_back(queue);
    start_thread(host_thread_started_, &StreamScheduler::call_host_functions);
    host_wanted_.notify_one();
    return;
  }
  lock.unlock();
  const Status status = operation.run ? operation.run() : Status::success;
  lock.lock();
  complete(lock, queue, status);
}

void StreamScheduler::complete(Lock& lock, const QueuePointer& queue, Status status) {
  QueueEntry done = std::move(queue->pending.front());
  queue->pending.pop_front();
  queue->running = false;
  queue->completed = queue->dropped ? queue->enqueued : done.ticket;
  if (done.operation.device_work) queue->device_work_done = done.ticket;
  leave_passage(done);
  std::vector<QueueEntry> dropped;
  if (status != Status::success) {
    ContextRecord& context = *queue->context;
    Status none = Status::success;
    if (context.sticky.compare_exchange_strong(none, status)) {
      context.faulty = done.operation.site;
      if (const Site* call = this_thread().call) context.surfaced = *call;
      context.faulted.store(true, std::memory_order_release);
    }
    drop_pending(*queue->context, dropped);
  }
  if (queue->destroyed) forget_spent_queues();
  changed_.notify_all();
  lock.unlock();
  dropped.clear();
  const bool host_function = done.operation.host_function;
  done = {};  // what it holds may take locks of its own when it goes
  lock.lock();
  if (host_function) tell_activity(lock);
}

void StreamScheduler::pause(Lock& lock, bool gated) {
  if (gated) {
    changed_.wait_for(lock, gate_poll_interval);
  } else {
    changed_.wait(lock);
  }
}

// Detached: at the end of the process nobody waits for a host function that may never return.
void StreamScheduler::start_thread(bool& started, void (StreamScheduler::*body)()) {
  if (started || stopping_) return;
  started = true;
  ++threads_;
  std::thread([this, body] {
    (this->*body)();
    const Lock lock(mutex_);
    --threads_;
    changed_.notify_all();
  }).detach();
}

void StreamScheduler::work_eagerly() {
  Lock lock(mutex_);
  while (!stopping_) {
    Search search;
    QueuePointer runnable;
    for (const QueuePointer& queue : queues_) {
      runnable = find_runnable(queue, queue->enqueued, search);
      if (runnable != nullptr) break;
    }
    if (runnable != nullptr) {
      run_front(lock, runnable);
    } else {
      pause(lock, !search.closed.empty());
    }
  }
}

void StreamScheduler::call_host_functions() {
  this_thread().in_host_function = true;
  Lock lock(mutex_);
  for (;;) {
    host_wanted_.wait(lock, [&] { return stopping_ || !host_calls_.empty(); });
    if (stopping_) return;
    const QueuePointer queue = std::move(host_calls_.front());
    host_calls_.pop_front();
    const QueueEntry& entry = queue->pending.front();
    // The start of a host function has the effect of synchronising with what is before it [hdr].
    observe({queue, entry.ticket - 1});
    see(entry.before);
    tell_activity(lock);
    this_thread().host_function = &entry.operation.site;
    this_thread().host_stream = queue->handle;
    lock.unlock();
    const Status status = entry.operation.run();
    lock.lock();
    this_thread().host_function = nullptr;
    complete(lock, queue, status);
  }
}

}  // namespace assay::cuda::model
