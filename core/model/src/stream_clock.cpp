#include "stream_clock.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace assay::cuda::model {

void StreamClock::join(const StreamClock& other) {
  if (&other == this) return;
  for (const Component& each : other.components_) reach(each.queue, each.ticket);
  for (const PassagePointer& each : other.passages_) pass(each);
  horizon_ = std::max(horizon_, other.horizon_);
}

void StreamClock::reach(const QueueLifePointer& queue, std::uint64_t ticket) {
  if (queue->settled || ticket == 0) return;
  const auto at = std::lower_bound(components_.begin(), components_.end(), queue.get(),
                                   [](const Component& each, const QueueLife* wanted) {
                                     return std::less<>{}(each.queue.get(), wanted);
                                   });
  if (at != components_.end() && at->queue == queue) {
    at->ticket = std::max(at->ticket, ticket);
  } else {
    components_.insert(at, {queue, ticket});
  }
}

void StreamClock::pass(const PassagePointer& passage) {
  if (passage->passed) {
    horizon_ = std::max(horizon_, passage->horizon);
    join(passage->known);
    return;
  }
  const auto known =
      std::find_if(passages_.begin(), passages_.end(), [&](const PassagePointer& each) {
        return each->queue == passage->queue && each->host_function == passage->host_function;
      });
  if (known == passages_.end()) {
    passages_.push_back(passage);
  } else if ((*known)->ticket < passage->ticket) {
    *known = passage;
  }
}

void StreamClock::settle() {
  for (const PassagePointer& each : std::exchange(passages_, {})) pass(each);
  std::erase_if(components_, [](const Component& each) { return each.queue->settled; });
}

bool StreamClock::covers(const QueueLifePointer& queue, std::uint64_t ticket) const {
  if (queue->settled || ticket == 0) return true;
  return std::any_of(components_.begin(), components_.end(), [&](const Component& each) {
    return each.queue == queue && each.ticket >= ticket;
  });
}

bool StreamClock::may_cover(const QueueLifePointer& queue, std::uint64_t ticket,
                            std::uint64_t serial) const {
  if (serial <= horizon_ || covers(queue, ticket)) return true;
  return std::any_of(passages_.begin(), passages_.end(), [&](const PassagePointer& each) {
    return !each->passed || serial <= each->horizon || each->known.may_cover(queue, ticket, serial);
  });
}

}  // namespace assay::cuda::model
