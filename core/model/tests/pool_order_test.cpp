// The place of a pool's memory in stream order: what is diagnosed, and what never is.
#include <atomic>
#include <bitset>
#include <functional>
#include <random>
#include <set>
#include <utility>

#include "stream_driver.hpp"

namespace assay::model_tests {
namespace {

struct PoolOrderTest : DriverTest {
  ~PoolOrderTest() override {
    control.open_gates();
    EXPECT_EQ(cu.cuCtxSynchronize(), Status::success);
    for (const DevicePointer address : live) release_at_once(address);
    EXPECT_EQ(control.live_objects(assay_model_pooled), 0U);
  }
  void release_at_once(DevicePointer address) {
    EXPECT_EQ(cu.cuMemFree_v2(address), Status::success);
  }
  DevicePointer allocate(Stream in) {
    DevicePointer address = 0;
    EXPECT_EQ(cu.cuMemAllocAsync(&address, size, in), Status::success);
    live.insert(address);
    return address;
  }
  void use(DevicePointer address, Stream in) {
    EXPECT_EQ(cu.cuMemsetD8Async(address, 1, size, in), Status::success);
  }
  void release(DevicePointer address, Stream in) {
    EXPECT_EQ(cu.cuMemFreeAsync(address, in), Status::success);
    live.erase(address);
  }
  /// All later work of `after` waits for all earlier work of `before`.
  void order(Stream before, Stream after) {
    const Event made = event();
    EXPECT_EQ(cu.cuEventRecord(made, before), Status::success);
    EXPECT_EQ(cu.cuStreamWaitEvent(after, made, 0), Status::success);
    EXPECT_EQ(cu.cuEventDestroy_v2(made), Status::success);
  }
  void expect_clean() { EXPECT_EQ(control.diagnosis_count(), 0U) << control.diagnosis(0); }
  /// One diagnosis, of that rule, which names the block's maker.
  void expect_one(const std::string& rule) {
    EXPECT_EQ(control.diagnosis_count(), 1U);
    EXPECT_TRUE(diagnosed(rule + ": "));
    EXPECT_TRUE(diagnosed("made by cuMemAllocAsync (call "));
    control.forget_diagnoses();
  }

  Stream one = stream();
  Stream two = stream();
  std::set<DevicePointer> live;
};

TEST_F(PoolOrderTest, UseInAnotherStreamNeedsOrderAfterTheAllocation) {
  const DevicePointer address = allocate(one);
  use(address, two);
  expect_one("pool_use_unordered");
  order(one, two);
  use(address, two);
  order(two, one);
  release(address, one);
  expect_clean();
}

TEST_F(PoolOrderTest, AnEventRecordedBeforeTheAllocationOrdersNothing) {
  use(device(), one);
  const Event early = event();
  EXPECT_EQ(cu.cuEventRecord(early, one), Status::success);
  const DevicePointer address = allocate(one);
  EXPECT_EQ(cu.cuStreamWaitEvent(two, early, 0), Status::success);
  use(address, two);
  expect_one("pool_use_unordered");
  EXPECT_EQ(cu.cuEventRecord(early, one), Status::success);  // again: it counts from now on
  const Stream three = stream();
  EXPECT_EQ(cu.cuStreamWaitEvent(three, early, 0), Status::success);
  use(address, three);
  expect_clean();
}

TEST_F(PoolOrderTest, AWaitForWhatIsCompleteIsAnOrderToo) {
  const DevicePointer address = allocate(one);
  const Event done = event();
  EXPECT_EQ(cu.cuEventRecord(done, one), Status::success);
  use(address, one);
  const Stream other = stream();
  order(one, other);
  sync(other);  // by which all of `one` ran
  EXPECT_EQ(cu.cuStreamWaitEvent(two, done, 0), Status::success);
  use(address, two);
  expect_clean();
}

TEST_F(PoolOrderTest, WhatTheHostHasSeenComesFirst) {
  const auto seen_by = [&](const std::function<void(Event)>& wait) {
    const DevicePointer address = allocate(one);
    const Event end = event();
    EXPECT_EQ(cu.cuEventRecord(end, one), Status::success);
    wait(end);
    const Stream fresh = stream();
    use(address, fresh);
    expect_clean();
    release(address, fresh);
    expect_clean();
  };
  seen_by([&](Event) { sync(one); });
  seen_by([&](Event) { EXPECT_EQ(cu.cuCtxSynchronize(), Status::success); });
  seen_by([&](Event end) { EXPECT_EQ(cu.cuEventSynchronize(end), Status::success); });
  seen_by([&](Event) {
    while (cu.cuStreamQuery(one) != Status::success) {
    }
  });
  seen_by([&](Event end) {
    while (cu.cuEventQuery(end) != Status::success) {
    }
  });
  const DevicePointer address = allocate(one);
  EXPECT_EQ(cu.cuStreamQuery(one), Status::not_ready);
  use(address, stream());
  expect_one("pool_use_unordered");
}

TEST_F(PoolOrderTest, UseAfterTheFree) {
  const DevicePointer address = allocate(one);
  use(address, one);
  release(address, one);
  use(address, one);  // in order after it
  EXPECT_TRUE(diagnosed("cuMemsetD8Async (call "));
  EXPECT_TRUE(diagnosed("after its free by cuMemFreeAsync (call "));
  expect_one("pool_use_after_free");
  use(address, two);  // in no order with it
  EXPECT_TRUE(diagnosed("unordered with its free by cuMemFreeAsync (call "));
  expect_one("pool_use_races_free");
  sync(one);
  sync(two);
  use(address, two);  // the free has run
  expect_one("pool_use_after_free");
  std::vector<std::uint8_t> bytes(size);
  EXPECT_EQ(cu.cuMemcpyDtoH_v2(bytes.data(), address, size), Status::success);
  EXPECT_EQ(bytes, filled(1));  // stale, and there
  expect_one("pool_use_after_free");
}

TEST_F(PoolOrderTest, FreeIsAfterAllUses) {
  const DevicePointer address = allocate(one);
  order(one, two);
  use(address, two);
  release(address, one);
  EXPECT_TRUE(diagnosed("its use by cuMemsetD8Async (call "));
  expect_one("pool_free_races_use");
}

TEST_F(PoolOrderTest, FreeInAnotherStreamIsAfterTheAllocation) {
  release(allocate(one), two);
  expect_one("pool_free_unordered");
  const DevicePointer address = allocate(one);
  order(one, two);
  release(address, two);
  expect_clean();
}

TEST_F(PoolOrderTest, DefaultStreamOrdersBlockingStreams) {
  const Stream blocking = stream(0);
  const Stream other = stream(0);
  const DevicePointer address = allocate(blocking);
  use(address, other);
  expect_one("pool_use_unordered");
  use(address, nullptr);
  use(address, other);
  release(address, blocking);  // after the default stream, but `other` came later
  expect_one("pool_free_races_use");

  const DevicePointer second = allocate(nullptr);
  use(second, other);
  use(second, one);  // non-blocking
  expect_one("pool_use_unordered");
}

TEST_F(PoolOrderTest, DestroyedStreamsStayInOrder) {
  const Stream blocking = stream(0);
  const DevicePointer address = allocate(blocking);
  use(address, blocking);
  EXPECT_EQ(cu.cuStreamDestroy_v2(blocking), Status::success);
  use(address, nullptr);
  EXPECT_EQ(cu.cuCtxSynchronize(), Status::success);
  release(address, one);
  expect_clean();

  const Stream gone = stream();
  const DevicePointer second = allocate(gone);
  EXPECT_EQ(cu.cuStreamDestroy_v2(gone), Status::success);
  use(second, one);  // a destroy is no wait
  expect_one("pool_use_unordered");
  EXPECT_EQ(cu.cuCtxSynchronize(), Status::success);
  use(second, two);
  sync(two);
  release(second, one);
  expect_clean();
}

TEST_F(PoolOrderTest, OrderGoesThroughOtherStreams) {
  const Stream three = stream();
  const DevicePointer address = allocate(one);
  order(one, two);
  order(two, three);  // nothing of `two` in between
  use(address, three);
  order(three, one);
  release(address, one);
  expect_clean();
}

TEST_F(PoolOrderTest, TwoContexts) {
  const DevicePointer address = allocate(one);
  Context other = nullptr;
  ASSERT_EQ(cu.cuCtxCreate_v2(&other, 0, 0), Status::success);
  const Stream theirs = stream();
  use(address, theirs);
  expect_one("pool_use_unordered");
  ASSERT_EQ(cu.cuCtxSetCurrent(context), Status::success);
  EXPECT_EQ(cu.cuCtxSynchronize(), Status::success);
  ASSERT_EQ(cu.cuCtxSetCurrent(other), Status::success);
  const Stream fresh = stream();
  use(address, fresh);
  expect_clean();
  ASSERT_EQ(cu.cuCtxDestroy_v2(other), Status::success);  // ends what uses the block there
  ASSERT_EQ(cu.cuCtxPushCurrent_v2(context), Status::success);
  release(address, one);
  expect_clean();
}

TEST_F(PoolOrderTest, HostFunctionsTellTheHost) {
  std::atomic<bool> told{false};
  const DevicePointer address = allocate(one);
  EXPECT_EQ(cu.cuLaunchHostFunc(
                one, [](void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); }, &told),
            Status::success);
  while (!told) static_cast<void>(cu.cuStreamQuery(one));
  use(address, two);
  expect_clean();
}

TEST_F(PoolOrderTest, GatesMayOrderAnything) {
  const DevicePointer address = allocate(one);
  Gate gate(*this, two);
  use(address, two);  // the program may open the gate after the allocation
  expect_clean();
  EXPECT_EQ(cu.cuStreamWriteValue32_v2(one, gate.address(), 1, 0), Status::success);
  order(two, one);
  release(address, one);
  expect_clean();
  sync(one);
}

TEST_F(PoolOrderTest, CallsWithoutAStreamAreNobodysMistake) {
  const DevicePointer address = allocate(one);
  sync(one);
  std::vector<std::uint8_t> bytes(size, 4);
  EXPECT_EQ(cu.cuMemcpyHtoD_v2(address, bytes.data(), size), Status::success);
  release(address, one);
  expect_clean();
}

// --- Reuse ---

struct PoolReuseTest : PoolOrderTest {
  static constexpr std::uint64_t step = 32ULL << 20;

  PoolReuseTest() {
    MemPoolProps wanted{};
    wanted.alloc_type = AllocationType::pinned;
    wanted.location = {LocationType::device, 0};
    EXPECT_EQ(cu.cuMemPoolCreate(&pool, &wanted), Status::success);
    for (const auto flag : {MemPoolAttribute::reuse_follow_event_dependencies,
                            MemPoolAttribute::reuse_allow_opportunistic,
                            MemPoolAttribute::reuse_allow_internal_dependencies}) {
      set(flag, 0);
    }
    freed = take(one);
    release(freed, one);
  }
  ~PoolReuseTest() override { EXPECT_EQ(cu.cuMemPoolDestroy(pool), Status::success); }
  void set(MemPoolAttribute flag, int value) {
    EXPECT_EQ(cu.cuMemPoolSetAttribute(pool, flag, &value), Status::success);
  }
  DevicePointer take(Stream in) {
    DevicePointer address = 0;
    EXPECT_EQ(cu.cuMemAllocFromPoolAsync(&address, step, pool, in), Status::success);
    live.insert(address);
    return address;
  }
  std::uint64_t steps() {
    std::uint64_t bytes = 0;
    EXPECT_EQ(cu.cuMemPoolGetAttribute(pool, MemPoolAttribute::reserved_mem_current, &bytes),
              Status::success);
    return bytes / step;
  }

  MemPool pool = nullptr;
  DevicePointer freed = 0;
};

TEST_F(PoolReuseTest, TheSameStreamReuses) {
  EXPECT_NE(take(one), freed);  // the bytes, not the address
  EXPECT_EQ(steps(), 1U);
}

TEST_F(PoolReuseTest, AnotherStreamDoesNotUnlessPermitted) {
  take(two);
  EXPECT_EQ(steps(), 2U);
}

TEST_F(PoolReuseTest, EventOrder) {
  order(one, two);
  const Stream three = stream();
  order(one, three);
  take(three);
  EXPECT_EQ(steps(), 2U);
  set(MemPoolAttribute::reuse_follow_event_dependencies, 1);
  take(stream());
  EXPECT_EQ(steps(), 3U);
  take(two);
  EXPECT_EQ(steps(), 3U);
}

TEST_F(PoolReuseTest, Opportunistic) {
  set(MemPoolAttribute::reuse_allow_opportunistic, 1);
  take(two);
  EXPECT_EQ(steps(), 2U);
  const Stream other = stream();
  order(one, other);
  while (cu.cuStreamQuery(other) != Status::success) {
  }  // no synchronise: nothing is given back
  take(two);
  EXPECT_EQ(steps(), 2U);
}

TEST_F(PoolReuseTest, InternalDependencyIsAWait) {
  set(MemPoolAttribute::reuse_allow_internal_dependencies, 1);
  Gate gate(*this, one);
  const DevicePointer held = take(one);
  release(held, one);  // behind the gate
  const DevicePointer address = take(two);
  EXPECT_EQ(steps(), 1U);
  use(address, two);
  static_cast<void>(cu.cuStreamQuery(two));
  EXPECT_EQ(cu.cuStreamQuery(two), Status::not_ready);
  gate.open();
  sync(two);
  expect_clean();
}

// --- Against a reference that keeps, for each operation, all operations before it ---

constexpr std::size_t operations_max = 2048;
using Before = std::bitset<operations_max>;

struct Reference {
  struct Queue {
    Stream stream = nullptr;
    bool blocking = false;
    Before reached;  ///< all that its next operation is after
  };
  std::vector<Queue> queues;
  Before host;
  std::size_t operations = 0;
  Before of_blocking;  ///< all of blocking streams, destroyed ones too
  Before of_default;
  Before of_destroyed;

  /// The operation that is enqueued now: its number, and in `reached` all that is before it.
  std::size_t enqueue(Queue& queue, bool is_default) {
    queue.reached |= host;
    if (is_default) queue.reached |= of_blocking;
    if (queue.blocking && !is_default) queue.reached |= of_default;
    before = queue.reached;
    queue.reached.set(operations);
    if (is_default) of_default = queue.reached;
    if (is_default || queue.blocking) of_blocking |= queue.reached;
    return operations++;
  }
  Before before;
};

struct Recorded {
  Event event = nullptr;
  Before reached;
};

struct TrackedBlock {
  DevicePointer address = 0;
  std::size_t allocated = 0;
  std::vector<std::size_t> last_use;  ///< by queue; operations_max: none
};

TEST_F(PoolOrderTest, RandomProgramsAreJudgedAsByTheReference) {
  std::uint64_t diagnosed_in_all = 0;
  for (unsigned seed = 1; seed <= 30; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::size_t end) { return random() % end; };
    EXPECT_EQ(cu.cuCtxSynchronize(), Status::success);
    Reference reference;
    reference.queues = {{nullptr, true, {}}, {stream(0), true, {}}, {stream(0), true, {}}};
    for (int i = 0; i < 3; ++i) reference.queues.push_back({stream(), false, {}});
    std::vector<Recorded> events(3);
    for (Recorded& each : events) each.event = event();
    std::vector<TrackedBlock> blocks;

    for (int i = 0; i < 300; ++i) {
      const std::size_t index = below(reference.queues.size());
      Reference::Queue& queue = reference.queues[index];
      Recorded& recorded = events[below(events.size())];
      control.forget_diagnoses();
      std::uint64_t expected = 0;
      const std::size_t choice = below(100);
      if (choice < 15 || blocks.empty()) {
        TrackedBlock block;
        block.address = allocate(queue.stream);
        block.allocated = reference.enqueue(queue, index == 0);
        block.last_use.assign(reference.queues.size(), operations_max);
        blocks.push_back(block);
      } else if (choice < 45) {
        TrackedBlock& block = blocks[below(blocks.size())];
        use(block.address, queue.stream);
        block.last_use[index] = reference.enqueue(queue, index == 0);
        expected = reference.before.test(block.allocated) ? 0 : 1;
      } else if (choice < 55) {
        const std::size_t which = below(blocks.size());
        const TrackedBlock& block = blocks[which];
        release(block.address, queue.stream);
        reference.enqueue(queue, index == 0);
        expected = reference.before.test(block.allocated) ? 0 : 1;
        for (const std::size_t used : block.last_use) {
          if (used != operations_max && !reference.before.test(used)) ++expected;
        }
        blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(which));
      } else if (choice < 70) {
        EXPECT_EQ(cu.cuEventRecord(recorded.event, queue.stream), Status::success);
        reference.enqueue(queue, index == 0);
        recorded.reached = queue.reached;
      } else if (choice < 88) {
        EXPECT_EQ(cu.cuStreamWaitEvent(queue.stream, recorded.event, 0), Status::success);
        queue.reached |= recorded.reached;
        reference.enqueue(queue, index == 0);
      } else if (choice < 92) {
        EXPECT_EQ(cu.cuEventSynchronize(recorded.event), Status::success);
        reference.host |= recorded.reached;
      } else if (choice < 96 && index != 0) {
        sync(queue.stream);
        reference.host |= queue.reached;
      } else if (choice < 97) {
        EXPECT_EQ(cu.cuCtxSynchronize(), Status::success);
        for (const Reference::Queue& each : reference.queues) reference.host |= each.reached;
        reference.host |= reference.of_destroyed;
      } else if (index != 0) {
        EXPECT_EQ(cu.cuStreamDestroy_v2(queue.stream), Status::success);
        for (TrackedBlock& block : blocks) {
          block.last_use.push_back(std::exchange(block.last_use[index], operations_max));
        }
        reference.of_destroyed |= queue.reached;
        queue = {stream(queue.blocking ? 0 : stream_non_blocking), queue.blocking, {}};
      }
      ASSERT_EQ(control.diagnosis_count(), expected) << "seed " << seed << ", step " << i;
      diagnosed_in_all += expected;
    }
    EXPECT_EQ(cu.cuCtxSynchronize(), Status::success);
    for (const TrackedBlock& block : blocks) release(block.address, one);
    for (const Recorded& each : events) {
      EXPECT_EQ(cu.cuEventDestroy_v2(each.event), Status::success);
    }
    for (std::size_t i = 1; i < reference.queues.size(); ++i) {
      EXPECT_EQ(cu.cuStreamDestroy_v2(reference.queues[i].stream), Status::success);
    }
  }
  EXPECT_GT(diagnosed_in_all, 300U);  // not all of it was in order
  EXPECT_EQ(control.live_objects(assay_model_pooled), 0U);
}

}  // namespace
}  // namespace assay::model_tests
