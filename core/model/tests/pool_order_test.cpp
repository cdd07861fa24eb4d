// The place of a pool's memory in stream order: what is diagnosed, and what never is.
#include <atomic>
#include <functional>
#include <set>
#include <thread>
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

TEST_F(PoolOrderTest, ThreadsEachWithAStreamOfTheirOwn) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      EXPECT_EQ(cu.cuCtxSetCurrent(context), Status::success);
      const Stream mine = stream();
      for (int i = 0; i < 100; ++i) {
        DevicePointer address = 0;
        EXPECT_EQ(cu.cuMemAllocAsync(&address, size, mine), Status::success);
        use(address, mine);
        EXPECT_EQ(cu.cuMemFreeAsync(address, mine), Status::success);
        if (i % 7 == 0) sync(mine);
      }
      sync(mine);
    });
  }
  for (std::thread& each : threads) each.join();
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

}  // namespace
}  // namespace assay::model_tests
