// Streams and events as the scheduler keeps them.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "stream_clock.hpp"
#include "stream_operation.hpp"

namespace assay::cuda::model {

/// Null, and 1, its other name [hdr].
[[nodiscard]] inline bool is_default_stream(Stream stream) noexcept {
  return reinterpret_cast<std::uintptr_t>(stream) <= 1;
}

struct StreamQueue;
using QueuePointer = std::shared_ptr<StreamQueue>;

/// A point in a stream: everything up to operation `ticket` of `queue`. No queue: nothing at all.
struct StreamMark {
  QueuePointer queue;
  std::uint64_t ticket = 0;
};

/// An operation as others are ordered by it: a mark, and its number among all that were enqueued.
/// No queue: something that the host did.
struct StreamPoint {
  QueuePointer queue;
  std::uint64_t ticket = 0;
  std::uint64_t serial = 0;
};

/// One operation in its queue.
struct QueueEntry {
  Operation operation;
  std::uint64_t ticket = 0;
  std::vector<StreamMark> after;     ///< what must be complete first, in other streams
  bool forced = false;               ///< open_gates came by
  std::shared_ptr<Passage> passage;  ///< of a gate or a host function
  StreamClock before;                ///< of a host function: what it is after
};

/// One stream, default streams too. Under the scheduler's lock, but for what is const.
struct StreamQueue {
  StreamQueue(ContextRecord* owner, unsigned create_flags, int create_priority, Site site)
      : context(owner), flags(create_flags), priority(create_priority), created(site) {}

  ContextRecord* const context;
  const unsigned flags;
  const int priority;
  const Site created;
  Stream handle = nullptr;  ///< null: a default stream
  bool destroyed = false;   ///< its handle is dead; pending work still finishes
  bool running = false;     ///< the front entry is being run by some thread
  bool dropped = false;     ///< its context is gone or poisoned: nothing runs here any more
  std::deque<QueueEntry> pending;
  std::uint64_t enqueued = 0;   ///< tickets given out
  std::uint64_t completed = 0;  ///< operations that ran
  std::uint64_t asked = 0;      ///< a query saw work pending up to here
  // What the host has seen complete: only where host and device exclude each other.
  std::uint64_t observed = 0;
  std::uint64_t device_work_done = 0;  ///< the last device operation that ran
  Site device_work;                    ///< the last one enqueued
  Site ended;                          ///< the call that destroyed it
  struct Join {
    std::uint64_t ticket;
    StreamMark after;
  };
  std::deque<Join> joins;  ///< `after` of the entries not seen complete
  // Order between streams: stream_order.cpp.
  const QueueLifePointer life = std::make_shared<QueueLife>();
  StreamClock clock;  ///< what the last operation is after
};

/// When an event's mark was reached. Written before its operation counts as complete.
struct EventStamp {
  std::chrono::steady_clock::time_point reached;
};

struct StreamEvent {
  StreamEvent(ContextRecord* owner, unsigned create_flags, Site site)
      : context(owner), flags(create_flags), created(site) {}

  ContextRecord* const context;
  const unsigned flags;
  const Site created;
  StreamMark recorded;                ///< of the last record; no queue: never recorded
  StreamClock clock;                  ///< what that record is after, itself included
  std::shared_ptr<EventStamp> stamp;  ///< of the same
  bool asked = false;                 ///< a query saw it pending
};
using EventPointer = std::shared_ptr<StreamEvent>;

/// The order as it stands at one point: of an operation that is being enqueued, or of the host.
/// Valid while the scheduler's lock is held.
class StreamOrder {
 public:
  StreamOrder(const StreamClock& clock, StreamPoint here) : clock_(clock), here_(std::move(here)) {}

  [[nodiscard]] const StreamPoint& here() const noexcept { return here_; }
  [[nodiscard]] bool follows(const StreamPoint& earlier) const {
    return in_same_queue(earlier) || clock_.covers(earlier.queue->life, earlier.ticket);
  }
  /// Not for certain, but by a gate or a host function that only the program knows.
  [[nodiscard]] bool may_follow(const StreamPoint& earlier) const {
    return in_same_queue(earlier) ||
           clock_.may_cover(earlier.queue->life, earlier.ticket, earlier.serial);
  }
  [[nodiscard]] static bool complete(const StreamPoint& point) {
    return point.queue == nullptr || point.queue->completed >= point.ticket;
  }

 private:
  [[nodiscard]] bool in_same_queue(const StreamPoint& earlier) const {
    return earlier.queue == nullptr || earlier.queue == here_.queue;
  }

  const StreamClock& clock_;
  StreamPoint here_;
};

}  // namespace assay::cuda::model
