// What the host has seen complete: on devices where host and device exclude each other, it decides
// which managed memory the host may touch.
#include <algorithm>

#include "stream_scheduler.hpp"

namespace assay::cuda::model {

namespace {

// Chains of events across more streams than this count as active: host access stays refused.
constexpr int deepest_chain = 16;

}  // namespace

// Seeing a mark complete is seeing complete whatever it was ordered behind.
void StreamScheduler::observe(const StreamMark& mark) {
  if (!options_.exclusive) return;
  std::vector<StreamMark> reached{mark};
  while (!reached.empty()) {
    const StreamMark at = reached.back();
    reached.pop_back();
    if (at.ticket <= at.queue->observed) continue;
    at.queue->observed = at.ticket;
    auto& joins = at.queue->joins;
    while (!joins.empty() && joins.front().ticket <= at.ticket) {
      reached.push_back(joins.front().after);
      joins.pop_front();
    }
  }
}

// Device work that waits for a host function leaves its stream idle until that has ended [hdr].
bool StreamScheduler::behind_host_function(const StreamMark& mark, int depth) const {
  if (mark.queue->completed >= mark.ticket || depth > deepest_chain) return false;
  for (const QueueEntry& entry : mark.queue->pending) {
    if (entry.ticket > mark.ticket) return false;
    if (entry.operation.host_function) return true;
    for (const StreamMark& earlier : entry.after) {
      if (behind_host_function(earlier, depth + 1)) return true;
    }
  }
  return false;
}

bool StreamScheduler::is_active(const StreamQueue& queue) const {
  if (queue.device_work_done > queue.observed) return true;
  for (const QueueEntry& entry : queue.pending) {
    if (entry.operation.host_function) return false;
    for (const StreamMark& mark : entry.after) {
      if (behind_host_function(mark, 0)) return false;
    }
    if (entry.operation.device_work) return true;
  }
  return false;
}

std::vector<StreamScheduler::Active> StreamScheduler::active_streams() {
  const Lock lock(mutex_);
  std::vector<Active> active;
  for (const QueuePointer& queue : queues_) {
    if (is_active(*queue)) active.push_back({queue->context, queue->handle});
  }
  return active;
}

std::optional<StreamScheduler::Busy> StreamScheduler::busy_work() {
  const Lock lock(mutex_);
  for (const QueuePointer& queue : queues_) {
    if (!is_active(*queue)) continue;
    Busy busy{queue->device_work, std::nullopt};
    if (queue->destroyed) busy.destroyed = queue->ended;
    return busy;
  }
  return std::nullopt;
}

void StreamScheduler::tell_activity(Lock& lock) {
  if (!options_.exclusive || !hooks_.activity) return;
  lock.unlock();
  hooks_.activity();
  lock.lock();
}

}  // namespace assay::cuda::model
