// The scheduler by itself: order, laziness, waiting, dropping, and what counts as busy.
#include "stream_scheduler.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace assay::cuda::model {

// The scheduler asks for this one thing of the contexts' side.
ThreadState& this_thread() noexcept {
  thread_local ThreadState state;
  return state;
}

namespace {

using Options = StreamScheduler::Options;

class SchedulerTest : public testing::Test {
 protected:
  explicit SchedulerTest(Options options = {}) : scheduler_({.activity = {}}, options) {}

  QueuePointer stream(unsigned flags = stream_non_blocking) {
    return queue_of(scheduler_.create_stream(context_, flags, 0, {}));
  }
  QueuePointer queue_of(Stream handle) {
    QueuePointer queue;
    EXPECT_EQ(scheduler_.find_stream(handle, &context_, queue), Status::success);
    return queue;
  }
  EventPointer event() {
    EventPointer found;
    EXPECT_EQ(scheduler_.find_event(scheduler_.create_event(context_, 0, {}), found),
              Status::success);
    return found;
  }
  /// Appends its letter to the log.
  Operation note(char letter) {
    Operation operation;
    operation.name = "note";
    operation.device_work = true;
    operation.run = [this, letter] {
      log_ += letter;
      return Status::success;
    };
    return operation;
  }
  /// Closed until `open_` is set; its word is the one that `opener` writes.
  Operation gate() {
    Operation operation;
    operation.name = "gate";
    operation.gate = gate_word;
    operation.ready = [this] { return open_.load(); };
    return operation;
  }
  Operation opener() {
    Operation operation;
    operation.name = "opener";
    operation.writes = {gate_word};
    operation.run = [this] {
      open_.store(true);
      return Status::success;
    };
    return operation;
  }
  Operation host_function(std::function<void()> function) {
    Operation operation;
    operation.name = "host";
    operation.host_function = true;
    operation.reaches_host = true;
    operation.run = [function = std::move(function)] {
      function();
      return Status::success;
    };
    return operation;
  }

  static constexpr Range gate_word{0x1000, 4};
  ContextRecord context_;
  std::string log_;
  std::atomic<bool> open_{false};
  StreamScheduler scheduler_;
};

TEST_F(SchedulerTest, NothingRunsUntilItIsWaitedFor) {
  const QueuePointer queue = stream();
  scheduler_.enqueue(queue, note('a'));
  scheduler_.enqueue(queue, note('b'));
  EXPECT_EQ(log_, "");
  EXPECT_EQ(scheduler_.synchronize(queue), Status::success);
  EXPECT_EQ(log_, "ab");
}

TEST_F(SchedulerTest, AWaitForOneStreamLeavesOthersAlone) {
  const QueuePointer one = stream();
  const QueuePointer other = stream();
  scheduler_.enqueue(other, note('x'));
  scheduler_.enqueue(one, note('a'));
  EXPECT_EQ(scheduler_.synchronize(one), Status::success);
  EXPECT_EQ(log_, "a");
  EXPECT_EQ(scheduler_.synchronize_context(context_), Status::success);
  EXPECT_EQ(log_, "ax");
}

TEST_F(SchedulerTest, TheFirstQueryNeverSeesPendingWorkDone) {
  const QueuePointer queue = stream();
  EXPECT_EQ(scheduler_.query(queue), Status::success);
  scheduler_.enqueue(queue, note('a'));
  EXPECT_EQ(scheduler_.query(queue), Status::not_ready);
  EXPECT_EQ(log_, "");
  EXPECT_EQ(scheduler_.query(queue), Status::success);
  EXPECT_EQ(log_, "a");
}

TEST_F(SchedulerTest, AnEventOrdersTwoStreams) {
  const QueuePointer first = stream();
  const QueuePointer second = stream();
  const EventPointer mark = event();
  scheduler_.enqueue(first, note('a'));
  scheduler_.record(mark, first, {});
  scheduler_.enqueue(first, note('z'));  // after the record: not waited for
  scheduler_.wait_event(second, mark, {});
  scheduler_.enqueue(second, note('b'));
  EXPECT_EQ(scheduler_.synchronize(second), Status::success);
  EXPECT_EQ(log_, "ab");
}

TEST_F(SchedulerTest, AWaitTakesTheRecordOfItsTime) {
  const QueuePointer first = stream();
  const QueuePointer second = stream();
  const EventPointer mark = event();
  scheduler_.record(mark, first, {});
  scheduler_.wait_event(second, mark, {});
  scheduler_.enqueue(first, note('z'));
  scheduler_.record(mark, first, {});
  EXPECT_EQ(scheduler_.synchronize(second), Status::success);
  EXPECT_EQ(log_, "");
  EXPECT_EQ(scheduler_.synchronize(mark), Status::success);
  EXPECT_EQ(log_, "z");
}

TEST_F(SchedulerTest, TheDefaultStreamWaitsForBlockingStreamsAndTheyForIt) {
  const QueuePointer blocking = stream(0);
  const QueuePointer apart = stream(stream_non_blocking);
  const QueuePointer legacy = queue_of(nullptr);
  EXPECT_EQ(queue_of(reinterpret_cast<Stream>(std::uintptr_t{1})), legacy);
  scheduler_.enqueue(apart, note('x'));
  scheduler_.enqueue(blocking, note('a'));
  scheduler_.enqueue(legacy, note('b'));
  scheduler_.enqueue(blocking, note('c'));
  EXPECT_EQ(scheduler_.synchronize(legacy), Status::success);
  EXPECT_EQ(log_, "ab");
  EXPECT_EQ(scheduler_.synchronize(blocking), Status::success);
  EXPECT_EQ(log_, "abc");
}

TEST_F(SchedulerTest, ABlockingStreamRunsTheDefaultStreamFirst) {
  const QueuePointer blocking = stream(0);
  const QueuePointer legacy = queue_of(nullptr);
  scheduler_.enqueue(legacy, note('a'));
  scheduler_.enqueue(blocking, note('b'));
  EXPECT_EQ(scheduler_.synchronize(blocking), Status::success);
  EXPECT_EQ(log_, "ab");
}

TEST_F(SchedulerTest, AClosedGateHoldsUntilTheHostOpensIt) {
  const QueuePointer queue = stream();
  scheduler_.enqueue(queue, gate());
  scheduler_.enqueue(queue, note('a'));
  EXPECT_EQ(scheduler_.query(queue), Status::not_ready);
  EXPECT_EQ(scheduler_.query(queue), Status::not_ready);
  EXPECT_EQ(log_, "");
  std::thread host([this] { open_.store(true); });
  EXPECT_EQ(scheduler_.synchronize(queue), Status::success);
  host.join();
  EXPECT_EQ(log_, "a");
}

TEST_F(SchedulerTest, AWriteOfAnotherStreamOpensAGate) {
  const QueuePointer gated = stream();
  const QueuePointer writer = stream();
  const QueuePointer unrelated = stream();
  scheduler_.enqueue(unrelated, note('x'));
  scheduler_.enqueue(gated, gate());
  scheduler_.enqueue(gated, note('b'));
  scheduler_.enqueue(writer, note('a'));
  scheduler_.enqueue(writer, opener());
  scheduler_.enqueue(writer, note('z'));  // not needed for the gate
  EXPECT_EQ(scheduler_.synchronize(gated), Status::success);
  EXPECT_EQ(log_, "ab");
}

TEST_F(SchedulerTest, AHostFunctionOfAnotherStreamOpensAGate) {
  const QueuePointer gated = stream();
  const QueuePointer caller = stream();
  scheduler_.enqueue(gated, gate());
  scheduler_.enqueue(caller, host_function([this] { open_.store(true); }));
  EXPECT_EQ(scheduler_.synchronize(gated), Status::success);
}

TEST_F(SchedulerTest, OpenGatesLetsPassWhatIsClosedNow) {
  const QueuePointer queue = stream();
  scheduler_.enqueue(queue, gate());
  scheduler_.open_gates();
  EXPECT_EQ(scheduler_.synchronize(queue), Status::success);
  scheduler_.enqueue(queue, gate());
  EXPECT_EQ(scheduler_.query(queue), Status::not_ready);
  EXPECT_EQ(scheduler_.query(queue), Status::not_ready);
}

TEST_F(SchedulerTest, HostFunctionsRunOnAThreadOfTheirOwnInStreamOrder) {
  const QueuePointer queue = stream();
  std::thread::id caller;
  bool marked = false;
  scheduler_.enqueue(queue, note('a'));
  scheduler_.enqueue(queue, host_function([&] {
                       caller = std::this_thread::get_id();
                       marked = this_thread().in_host_function;
                       log_ += 'h';
                     }));
  scheduler_.enqueue(queue, note('b'));
  EXPECT_EQ(scheduler_.synchronize(queue), Status::success);
  EXPECT_EQ(log_, "ahb");
  EXPECT_NE(caller, std::this_thread::get_id());
  EXPECT_TRUE(marked);
}

// A program may ask about a stream while it holds a lock that its host function takes.
TEST_F(SchedulerTest, AQueryDoesNotWaitForAHostFunction) {
  const QueuePointer queue = stream();
  std::mutex held;
  scheduler_.enqueue(queue, host_function([&] { const std::scoped_lock lock(held); }));
  {
    const std::scoped_lock lock(held);
    EXPECT_EQ(scheduler_.query(queue), Status::not_ready);
    EXPECT_EQ(scheduler_.query(queue), Status::not_ready);
  }
  EXPECT_EQ(scheduler_.synchronize(queue), Status::success);
}

TEST_F(SchedulerTest, ADestroyedStreamFinishesItsWork) {
  const Stream handle = scheduler_.create_stream(context_, stream_non_blocking, 0, {});
  scheduler_.enqueue(queue_of(handle), note('a'));
  EXPECT_EQ(scheduler_.destroy_stream(handle), Status::success);
  EXPECT_EQ(log_, "");
  QueuePointer queue;
  EXPECT_EQ(scheduler_.find_stream(handle, &context_, queue), Status::context_is_destroyed);
  EXPECT_EQ(scheduler_.synchronize_context(context_), Status::success);
  EXPECT_EQ(log_, "a");
}

TEST_F(SchedulerTest, HandlesTellDeadFromNeverValid) {
  const Stream first = scheduler_.create_stream(context_, 0, 0, {});
  EXPECT_EQ(scheduler_.destroy_stream(first), Status::success);
  EXPECT_EQ(scheduler_.destroy_stream(first), Status::context_is_destroyed);
  const Stream second = scheduler_.create_stream(context_, 0, 0, {});
  EXPECT_NE(first, second);
  QueuePointer queue;
  EXPECT_EQ(scheduler_.find_stream(first, &context_, queue), Status::context_is_destroyed);
  for (const std::uint64_t garbage : {~std::uint64_t{0}, std::uint64_t{0x1234560}}) {
    EXPECT_EQ(scheduler_.find_stream(reinterpret_cast<Stream>(garbage), &context_, queue),
              Status::invalid_handle);
  }
  EXPECT_EQ(scheduler_.find_stream(nullptr, nullptr, queue), Status::invalid_context);
}

TEST_F(SchedulerTest, AFaultPoisonsTheContextAndDropsTheRest) {
  const QueuePointer queue = stream();
  const QueuePointer other = stream();
  Operation faulty = note('f');
  faulty.run = [] { return Status::illegal_address; };
  scheduler_.enqueue(queue, std::move(faulty));
  scheduler_.enqueue(queue, note('a'));
  scheduler_.enqueue(other, note('b'));
  EXPECT_EQ(scheduler_.synchronize(queue), Status::illegal_address);
  EXPECT_EQ(context_.sticky.load(), Status::illegal_address);
  EXPECT_EQ(scheduler_.synchronize_context(context_), Status::illegal_address);
  EXPECT_EQ(scheduler_.query(other), Status::illegal_address);
  EXPECT_EQ(log_, "");
}

TEST_F(SchedulerTest, AContextTakesItsWorkAlong) {
  const Stream handle = scheduler_.create_stream(context_, 0, 0, {});
  const QueuePointer queue = queue_of(handle);
  const Event mark = scheduler_.create_event(context_, 0, {});
  scheduler_.enqueue(queue, note('a'));
  scheduler_.enqueue(queue, host_function([this] { log_ += 'h'; }));
  const std::vector<PendingWork> lost = scheduler_.end_context(context_);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_STREQ(lost[0].name, "host");
  EXPECT_EQ(log_, "");
  QueuePointer found;
  EventPointer dead;
  EXPECT_EQ(scheduler_.find_stream(handle, &context_, found), Status::context_is_destroyed);
  EXPECT_EQ(scheduler_.find_event(mark, dead), Status::context_is_destroyed);
  EXPECT_TRUE(scheduler_.live_streams().empty());
}

TEST_F(SchedulerTest, PendingWorkIsFoundByTheMemoryItUses) {
  const QueuePointer queue = stream();
  Operation copy = note('a');
  copy.reads = {{0x2000, 16}};
  copy.writes = {{0x3000, 16}};
  scheduler_.enqueue(queue, std::move(copy));
  scheduler_.enqueue(queue, note('b'));
  EXPECT_TRUE(scheduler_.pending_work({0x200f, 1}).has_value());
  EXPECT_FALSE(scheduler_.pending_work({0x2010, 16}).has_value());
  EXPECT_TRUE(scheduler_.may_change({0x3000, 1}));
  EXPECT_FALSE(scheduler_.may_change({0x2000, 16}));
  scheduler_.wait_for_range({0x3008, 1});
  EXPECT_EQ(log_, "a");
  EXPECT_FALSE(scheduler_.pending_work({0x3000, 16}).has_value());
}

TEST_F(SchedulerTest, AGateMayChangeAnything) {
  const QueuePointer queue = stream();
  EXPECT_FALSE(scheduler_.may_change({0x9000, 1}));
  scheduler_.enqueue(queue, gate());
  EXPECT_TRUE(scheduler_.may_change({0x9000, 1}));
}

TEST_F(SchedulerTest, StopEndsAWaitBehindAClosedGate) {
  const QueuePointer queue = stream();
  scheduler_.enqueue(queue, gate());
  std::thread host([this] { scheduler_.stop(); });
  EXPECT_EQ(scheduler_.synchronize(queue), Status::deinitialized);
  host.join();
}

TEST_F(SchedulerTest, ElapsedTimeNeedsTwoTimedRecordsThatAreDone) {
  const QueuePointer queue = stream();
  const EventPointer start = event();
  const EventPointer end = event();
  float ms = -1;
  EXPECT_EQ(scheduler_.elapsed(start, end, ms), Status::invalid_handle);
  scheduler_.record(start, queue, {});
  scheduler_.record(end, queue, {});
  EXPECT_EQ(scheduler_.elapsed(start, end, ms), Status::not_ready);
  EXPECT_EQ(ms, -1);
  EXPECT_EQ(scheduler_.synchronize(end), Status::success);
  EXPECT_EQ(scheduler_.elapsed(start, end, ms), Status::success);
  EXPECT_GE(ms, 0);
  EventPointer untimed;
  const Event handle = scheduler_.create_event(context_, event_disable_timing, {});
  ASSERT_EQ(scheduler_.find_event(handle, untimed), Status::success);
  scheduler_.record(untimed, queue, {});
  EXPECT_EQ(scheduler_.synchronize(untimed), Status::success);
  EXPECT_EQ(scheduler_.elapsed(start, untimed, ms), Status::invalid_handle);
}

// Threads that enqueue, wait and order among themselves: each stream's work runs in its order.
TEST_F(SchedulerTest, ThreadsShareStreams) {
  constexpr int threads = 4;
  constexpr int rounds = 200;
  const QueuePointer shared = stream();
  int total = 0;  // only operations of `shared` touch it
  std::vector<std::thread> crew;
  for (int index = 0; index < threads; ++index) {
    crew.emplace_back([&] {
      const QueuePointer own = stream();
      const EventPointer mark = event();
      for (int round = 0; round < rounds; ++round) {
        Operation add;
        add.name = "add";
        add.run = [&total] {
          ++total;
          return Status::success;
        };
        scheduler_.enqueue(shared, std::move(add));
        scheduler_.record(mark, shared, {});
        scheduler_.wait_event(own, mark, {});
        if (round % 3 == 0) {
          EXPECT_EQ(scheduler_.synchronize(own), Status::success);
        }
      }
      EXPECT_EQ(scheduler_.synchronize(own), Status::success);
    });
  }
  for (std::thread& thread : crew) thread.join();
  EXPECT_EQ(scheduler_.synchronize(shared), Status::success);
  EXPECT_EQ(total, threads * rounds);
}

class ExclusiveSchedulerTest : public SchedulerTest {
 protected:
  ExclusiveSchedulerTest() : SchedulerTest({.eager = false, .exclusive = true}) {}
  bool busy() { return !scheduler_.active_streams().empty(); }
};

TEST_F(ExclusiveSchedulerTest, DeviceWorkKeepsTheDeviceBusyUntilTheHostHasSeenItDone) {
  const QueuePointer queue = stream();
  EXPECT_FALSE(busy());
  scheduler_.enqueue(queue, note('a'));
  EXPECT_TRUE(busy());
  EXPECT_EQ(scheduler_.query(queue), Status::not_ready);
  EXPECT_TRUE(busy());
  EXPECT_EQ(scheduler_.query(queue), Status::success);
  EXPECT_FALSE(busy());
}

TEST_F(ExclusiveSchedulerTest, WorkThatRanForSomeoneElseIsNotSeenDone) {
  const QueuePointer queue = stream();
  Operation copy = note('a');
  copy.writes = {{0x2000, 16}};
  scheduler_.enqueue(queue, std::move(copy));
  scheduler_.wait_for_range({0x2000, 16});
  EXPECT_EQ(log_, "a");
  EXPECT_TRUE(busy());
  EXPECT_EQ(scheduler_.synchronize(queue), Status::success);
  EXPECT_FALSE(busy());
}

TEST_F(ExclusiveSchedulerTest, OneStreamSeenDoneLeavesTheOtherBusy) {
  const QueuePointer one = stream();
  const QueuePointer other = stream();
  scheduler_.enqueue(one, note('a'));
  scheduler_.enqueue(other, note('b'));
  EXPECT_EQ(scheduler_.synchronize(one), Status::success);
  EXPECT_TRUE(busy());
  EXPECT_EQ(scheduler_.synchronize_context(context_), Status::success);
  EXPECT_FALSE(busy());
}

TEST_F(ExclusiveSchedulerTest, AStreamDestroyedIsNotSeenDone) {
  const Stream handle = scheduler_.create_stream(context_, stream_non_blocking, 0, {});
  scheduler_.enqueue(queue_of(handle), note('a'));
  EXPECT_EQ(scheduler_.destroy_stream(handle), Status::success);
  EXPECT_TRUE(busy());
  EXPECT_EQ(scheduler_.synchronize_context(context_), Status::success);
  EXPECT_FALSE(busy());
}

TEST_F(ExclusiveSchedulerTest, SeeingAJoinedStreamDoneSeesWhatItJoined) {
  const QueuePointer first = stream();
  const QueuePointer second = stream();
  const EventPointer mark = event();
  scheduler_.enqueue(first, note('a'));
  scheduler_.record(mark, first, {});
  scheduler_.wait_event(second, mark, {});
  EXPECT_EQ(scheduler_.synchronize(second), Status::success);
  EXPECT_FALSE(busy());
  scheduler_.enqueue(first, note('b'));
  EXPECT_EQ(scheduler_.synchronize(second), Status::success);
  EXPECT_TRUE(busy());
  EXPECT_EQ(scheduler_.synchronize(first), Status::success);
  EXPECT_FALSE(busy());
}

TEST_F(ExclusiveSchedulerTest, GatesAndMarksKeepNoDeviceBusy) {
  const QueuePointer queue = stream();
  const EventPointer mark = event();
  scheduler_.enqueue(queue, gate());
  scheduler_.record(mark, queue, {});
  EXPECT_FALSE(busy());
  scheduler_.open_gates();
}

TEST_F(ExclusiveSchedulerTest, AHostFunctionFindsItsStreamIdle) {
  const QueuePointer queue = stream();
  const QueuePointer behind = stream();
  const EventPointer mark = event();
  bool busy_within = true;
  scheduler_.enqueue(queue, note('a'));
  scheduler_.enqueue(queue, host_function([&] { busy_within = busy(); }));
  scheduler_.record(mark, queue, {});
  scheduler_.enqueue(queue, note('b'));
  scheduler_.wait_event(behind, mark, {});
  scheduler_.enqueue(behind, note('c'));  // ordered behind the host function: no stream is active
  EXPECT_TRUE(busy());
  EXPECT_EQ(scheduler_.synchronize(mark), Status::success);
  EXPECT_FALSE(busy_within);
  EXPECT_TRUE(busy());  // 'b' and 'c' count again
  EXPECT_EQ(scheduler_.synchronize_context(context_), Status::success);
  EXPECT_FALSE(busy());
}

// A program may leave thousands of host functions pending: each keeps a clock.
TEST(StreamClock, KeepsOnePassageOfAKindForEachStream) {
  const auto queue = std::make_shared<QueueLife>();
  StreamClock clock;
  for (std::uint64_t ticket = 1; ticket <= 100; ++ticket) {
    const auto passage = std::make_shared<Passage>();
    passage->queue = queue;
    passage->ticket = ticket;
    passage->host_function = true;
    clock.pass(passage);
  }
  EXPECT_EQ(clock.passages(), 1U);
}

}  // namespace
}  // namespace assay::cuda::model
