// StreamScheduler: queues of work in stream order, run as late as the driver's rules allow.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "handle_table.hpp"
#include "stream_queue.hpp"

namespace assay::cuda::model {

/// Runs operations in stream order.
///
/// Nothing runs when it is enqueued: an operation runs on the thread that waits for it, or for what
/// depends on it, or asks about it a second time (the first query answers "not ready", so that a
/// program which takes one query for a wait reads old bytes). Host functions run on a thread of
/// the scheduler's own, because a program may hold a lock across a query that its host function
/// takes. With `eager` a worker thread runs whatever can run: for programs that poll memory
/// instead of asking the driver.
///
/// **Invariants** an entry runs after all earlier entries of its queue and after its `after` marks;
/// those are older than itself, so entries form no cycle. The lock is not held while an operation
/// runs. One that faults poisons its context, where nothing runs from then on.
/// **Threads** everything may be called from any thread but that of host functions. Hooks are
/// called with no lock held, but for `enqueued`.
class StreamScheduler {
 public:
  struct Hooks {
    /// Which streams keep their device busy may have changed (only where `exclusive`).
    std::function<void()> activity;
    /// An operation that reads or writes memory is being enqueued. Under the lock: it takes no
    /// lock but those that come after.
    std::function<void(const Operation&, const StreamOrder&)> enqueued = {};
  };
  struct Options {
    bool eager = false;
    /// Host and device exclude each other: keep what the host has seen complete.
    bool exclusive = false;
  };
  StreamScheduler(Hooks hooks, Options options);
  ~StreamScheduler();
  StreamScheduler(const StreamScheduler&) = delete;
  StreamScheduler& operator=(const StreamScheduler&) = delete;

  [[nodiscard]] Stream create_stream(ContextRecord& context, unsigned flags, int priority,
                                     Site site);
  /// Null, and 1, its other name, are the default stream of `current`.
  /// Errors: 400 never valid, 709 destroyed, 201 null without a context.
  [[nodiscard]] Status find_stream(Stream stream, ContextRecord* current, QueuePointer& queue);
  [[nodiscard]] Status destroy_stream(Stream stream);

  void enqueue(const QueuePointer& queue, Operation operation);
  /// The same for an operation that depends on the order of streams. `plan` is called under the
  /// lock, as Hooks::enqueued is; it completes the operation, may add marks that have to be
  /// reached first, and may refuse: then nothing is enqueued.
  using Plan = std::function<Status(const StreamOrder&, Operation&, std::vector<StreamMark>&)>;
  Status enqueue(const QueuePointer& queue, Operation operation, const Plan& plan);
  /// Shows what the host has seen, or is after for other reasons. Called as a plan is.
  void consult_host_order(const std::function<void(const StreamOrder&)>& ask);
  /// Returns once everything enqueued before is complete. Errors: what the context is poisoned
  /// with; 4 once stopped.
  [[nodiscard]] Status synchronize(const QueuePointer& queue);
  [[nodiscard]] Status synchronize_context(ContextRecord& context);
  /// success or not_ready.
  [[nodiscard]] Status query(const QueuePointer& queue);

  [[nodiscard]] Event create_event(ContextRecord& context, unsigned flags, Site site);
  /// Errors: 400 never valid, 709 destroyed.
  [[nodiscard]] Status find_event(Event handle, EventPointer& event);
  [[nodiscard]] Status destroy_event(Event handle);
  void record(const EventPointer& event, const QueuePointer& queue, Site site);
  void wait_event(const QueuePointer& queue, const EventPointer& event, Site site);
  [[nodiscard]] Status query(const EventPointer& event);
  [[nodiscard]] Status synchronize(const EventPointer& event);
  [[nodiscard]] bool is_recorded(const StreamEvent& event);
  /// Errors: 400 never recorded or without timing, 600 not complete.
  [[nodiscard]] Status elapsed(const EventPointer& start, const EventPointer& end, float& ms);

  /// Pending work that touches the range: the first found.
  [[nodiscard]] std::optional<PendingWork> pending_work(Range range);
  [[nodiscard]] std::optional<PendingWork> pending_write(Range range);
  void wait_for_range(Range range);
  /// The same for what calls without a stream have left to do: a driver has it in hand.
  void wait_for_sync_forms(Range range);
  /// May something pending rightly change these bytes before what is enqueued next runs? A gate or
  /// a host function (the host may), or an operation that writes them.
  [[nodiscard]] bool may_change(Range range);

  /// Drops what is pending in the context and kills its streams and events. Waits for what runs
  /// now. Returns what was dropped and would have reached the host.
  std::vector<PendingWork> end_context(ContextRecord& context);
  /// Lets every gate pass that is closed now.
  void open_gates();
  /// Nothing starts any more and waits end: the process does.
  void stop();

  /// A stream that keeps its device busy: it has device work that the host has not seen complete,
  /// other than behind a host function that has not ended.
  struct Active {
    ContextRecord* context;
    Stream stream;  ///< null: a default stream, or a destroyed one
  };
  [[nodiscard]] std::vector<Active> active_streams();
  /// Device work that keeps one of them busy, and the call that destroyed its stream.
  struct Busy {
    Site work;
    std::optional<Site> destroyed;
  };
  [[nodiscard]] std::optional<Busy> busy_work();

  [[nodiscard]] std::vector<QueuePointer> live_streams() const;
  [[nodiscard]] std::vector<EventPointer> live_events() const;
  [[nodiscard]] std::vector<std::pair<Event, EventPointer>> live_event_handles() const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Search;

  [[nodiscard]] QueuePointer default_queue(ContextRecord* context);
  void enqueue_locked(const QueuePointer& queue, Operation operation,
                      std::vector<StreamMark> after = {});
  void add_default_order(const QueuePointer& queue, std::vector<StreamMark>& after);
  [[nodiscard]] bool worth_waiting_for(const StreamQueue& queue) const noexcept;
  void wait_for_users(Range range, bool sync_forms_only);
  [[nodiscard]] Status wait(Lock& lock, const QueuePointer& queue, std::uint64_t ticket);
  [[nodiscard]] Status query(Lock& lock, const QueuePointer& queue, std::uint64_t ticket,
                             bool asked_before);
  void drop_pending(ContextRecord& context, std::vector<QueueEntry>& dropped);
  void forget_spent_queues();

  // stream_pump.cpp: what runs, and where.
  [[nodiscard]] QueuePointer find_runnable(const QueuePointer& queue, std::uint64_t ticket,
                                           Search& search);
  [[nodiscard]] QueuePointer find_opener(Search& search);
  [[nodiscard]] QueuePointer next(const QueuePointer& queue, std::uint64_t ticket, bool& gated);
  void run_front(Lock& lock, const QueuePointer& queue);
  void complete(Lock& lock, const QueuePointer& queue, Status status);
  void pause(Lock& lock, bool gated);
  void start_thread(bool& started, void (StreamScheduler::*body)());
  void work_eagerly();
  void call_host_functions();

  // stream_order.cpp: what is ordered after what.
  void advance_clock(const QueuePointer& queue);
  void take_ticket(const QueuePointer& queue, QueueEntry& entry);
  [[nodiscard]] QueuePointer known_default(const ContextRecord* context) const;
  void join_blocking(StreamClock& clock, const StreamQueue& default_queue);
  [[nodiscard]] StreamClock clock_at_end(const StreamQueue& queue);
  void see(const StreamClock& clock);
  void retire(const QueuePointer& queue);
  void end_order_of(const ContextRecord& context);
  void leave_passage(QueueEntry& entry);

  // stream_activity.cpp: what the host has seen complete.
  void observe(const StreamMark& mark);
  [[nodiscard]] bool behind_host_function(const StreamMark& mark, int depth) const;
  [[nodiscard]] bool is_active(const StreamQueue& queue) const;
  void tell_activity(Lock& lock);

  const Hooks hooks_;
  const Options options_;
  HandleTable<StreamQueue, Stream, 0x5a> streams_;
  HandleTable<StreamEvent, Event, 0x5b> events_;

  std::mutex mutex_;
  std::condition_variable changed_;      ///< an operation completed, or something was enqueued
  std::condition_variable host_wanted_;  ///< a host function is to be called
  std::vector<QueuePointer> queues_;     ///< every stream with a handle or pending work
  std::vector<QueuePointer> defaults_;   ///< one for each context that has used it
  StreamClock host_;                     ///< what the host has seen: later operations are after it
  std::uint64_t serial_ = 0;             ///< operations enqueued, in all streams
  /// What destroyed streams of a context have done: all of them, and those that were blocking.
  struct Retired {
    StreamClock all;
    StreamClock blocking;
  };
  std::map<const ContextRecord*, Retired> retired_;
  std::vector<QueuePointer> unsettled_;  ///< destroyed, but not seen complete
  std::deque<QueuePointer> host_calls_;  ///< the front entry of each is a host function to call
  bool worker_started_ = false;
  bool host_thread_started_ = false;
  int threads_ = 0;  ///< of the two, those that have not ended
  bool stopping_ = false;
};

}  // namespace assay::cuda::model
