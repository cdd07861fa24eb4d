// Streams: handles, order, waiting, gates, host functions.
#include "stream_driver.hpp"

#include <atomic>
#include <thread>

namespace assay::model_tests {
namespace {

class StreamTest : public DriverTest {};

TEST_F(StreamTest, CreationRefusesWhatItDoesNotKnow) {
  Stream made = nullptr;
  EXPECT_EQ(cu.cuStreamCreate(&made, 2), Status::invalid_value);
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(cu.cuStreamCreate(nullptr, 0), Status::invalid_value);
  EXPECT_EQ(cu.cuStreamCreateWithPriority(&made, 4, 0), Status::invalid_value);
  EXPECT_EQ(cu.cuStreamCreateWithPriority(&made, stream_non_blocking, -1000), Status::success);
  EXPECT_NE(made, nullptr);
}

TEST_F(StreamTest, HandlesAreCounted) {
  const std::uint64_t before = control.live_objects(assay_model_stream);
  const Stream made = stream();
  EXPECT_EQ(control.live_objects(assay_model_stream), before + 1);
  EXPECT_EQ(cu.cuStreamDestroy_v2(made), Status::success);
  EXPECT_EQ(control.live_objects(assay_model_stream), before);
}

TEST_F(StreamTest, ADestroyedStreamAnswers709AndGarbage400) {
  const Stream dead = stream();
  EXPECT_EQ(cu.cuStreamDestroy_v2(dead), Status::success);
  static_cast<void>(stream());  // takes the slot
  const DevicePointer at = device();
  const auto garbage = reinterpret_cast<Stream>(~std::uintptr_t{0});
  for (const auto& [handle, code] : {std::pair{dead, Status::context_is_destroyed},
                                     std::pair{garbage, Status::invalid_handle}}) {
    Context out = nullptr;
    EXPECT_EQ(cu.cuStreamDestroy_v2(handle), code);
    EXPECT_EQ(cu.cuStreamQuery(handle), code);
    EXPECT_EQ(cu.cuStreamSynchronize(handle), code);
    EXPECT_EQ(cu.cuStreamGetCtx(handle, &out), code);
    EXPECT_EQ(cu.cuMemsetD8Async(at, 1, size, handle), code);
    EXPECT_EQ(cu.cuEventRecord(event(), handle), code);
    EXPECT_EQ(cu.cuStreamWaitEvent(handle, event(), 0), code);
    EXPECT_EQ(cu.cuLaunchHostFunc(handle, [](void*) {}, nullptr), code);
    EXPECT_EQ(out, nullptr);
  }
  EXPECT_EQ(cu.cuStreamDestroy_v2(nullptr), Status::invalid_handle);
}

TEST_F(StreamTest, AStreamBelongsToItsContext) {
  Context out = nullptr;
  EXPECT_EQ(cu.cuStreamGetCtx(stream(), &out), Status::success);
  EXPECT_EQ(out, context);
  EXPECT_EQ(cu.cuStreamGetCtx(nullptr, &out), Status::success);
  EXPECT_EQ(out, context);
  EXPECT_EQ(cu.cuStreamGetCtx(nullptr, nullptr), Status::invalid_value);
}

TEST_F(StreamTest, NoCurrentContextIs201) {
  const Stream mine = stream();
  ASSERT_EQ(cu.cuCtxSetCurrent(nullptr), Status::success);
  Stream made = nullptr;
  EXPECT_EQ(cu.cuStreamCreate(&made, 0), Status::invalid_context);
  EXPECT_EQ(cu.cuStreamSynchronize(nullptr), Status::invalid_context);
  EXPECT_EQ(cu.cuStreamSynchronize(mine), Status::invalid_context);
  ASSERT_EQ(cu.cuCtxSetCurrent(context), Status::success);
}

TEST_F(StreamTest, TheStreamsOfADestroyedContextAreDead) {
  Context second = nullptr;
  ASSERT_EQ(cu.cuCtxCreate_v2(&second, 0, 0), Status::success);
  const Stream theirs = stream();
  const Event event_of_theirs = event();
  ASSERT_EQ(cu.cuCtxDestroy_v2(second), Status::success);
  ASSERT_EQ(cu.cuCtxSetCurrent(context), Status::success);
  EXPECT_EQ(cu.cuStreamSynchronize(theirs), Status::context_is_destroyed);
  EXPECT_EQ(cu.cuEventQuery(event_of_theirs), Status::context_is_destroyed);
}

// Spec row 18: what forgot to wait sees the old bytes.
TEST_F(StreamTest, WorkIsDoneWhenItIsWaitedForAndNotBefore) {
  const DevicePointer at = device();
  std::uint8_t* host = pinned();
  const Stream mine = stream();
  EXPECT_EQ(cu.cuMemsetD8Async(at, 7, size, mine), Status::success);
  EXPECT_EQ(cu.cuMemcpyDtoHAsync_v2(host, at, size, mine), Status::success);
  EXPECT_EQ(host[0], 0);
  EXPECT_EQ(cu.cuStreamQuery(mine), Status::not_ready);
  EXPECT_EQ(host[0], 0);
  sync(mine);
  EXPECT_EQ(host[0], 7);
  EXPECT_EQ(host[size - 1], 7);
  EXPECT_EQ(cu.cuStreamQuery(mine), Status::success);
}

TEST_F(StreamTest, AProgramThatOnlyQueriesGetsThere) {
  std::uint8_t* host = pinned();
  const Stream mine = stream();
  EXPECT_EQ(cu.cuMemsetD8Async(address_of(host), 7, size, mine), Status::success);
  int refusals = 0;
  while (cu.cuStreamQuery(mine) == Status::not_ready) ++refusals;
  EXPECT_GE(refusals, 1);
  EXPECT_EQ(host[0], 7);
}

TEST_F(StreamTest, DestroyReturnsAtOnceAndTheWorkFinishes) {
  const Stream mine = stream();
  Gate gate(*this, mine);
  std::uint8_t* host = pinned();
  EXPECT_EQ(cu.cuMemsetD8Async(address_of(host), 7, size, mine), Status::success);
  EXPECT_EQ(cu.cuStreamDestroy_v2(mine), Status::success);
  EXPECT_EQ(host[0], 0);
  gate.open();
  EXPECT_EQ(cu.cuCtxSynchronize(), Status::success);
  EXPECT_EQ(host[0], 7);
}

TEST_F(StreamTest, TheNullStreamWaitsForBlockingStreamsOnly) {
  const Stream blocking = stream(0);
  const Stream apart = stream(stream_non_blocking);
  std::uint8_t* first = pinned();
  std::uint8_t* second = pinned();
  EXPECT_EQ(cu.cuMemsetD8Async(address_of(first), 1, size, blocking), Status::success);
  EXPECT_EQ(cu.cuMemsetD8Async(address_of(second), 1, size, apart), Status::success);
  EXPECT_EQ(cu.cuMemsetD8Async(device(), 1, size, nullptr), Status::success);
  sync(nullptr);
  EXPECT_EQ(first[0], 1);
  EXPECT_EQ(second[0], 0);
  EXPECT_EQ(cu.cuMemsetD8Async(address_of(first), 2, size, nullptr), Status::success);
  EXPECT_EQ(cu.cuMemsetD8Async(address_of(second), 2, size, blocking), Status::success);
  sync(blocking);
  EXPECT_EQ(first[0], 2);
  EXPECT_EQ(second[0], 2);
}

TEST_F(StreamTest, AContextSynchroniseWaitsForEveryStream) {
  std::uint8_t* host = pinned();
  EXPECT_EQ(cu.cuMemsetD8Async(address_of(host), 1, 1, stream()), Status::success);
  EXPECT_EQ(cu.cuMemsetD8Async(address_of(host + 1), 1, 1, stream(0)), Status::success);
  EXPECT_EQ(cu.cuCtxSynchronize(), Status::success);
  EXPECT_EQ(host[0] + host[1], 2);
}

TEST_F(StreamTest, PrefetchKeepsItsPlaceInTheStream) {
  const DevicePointer at = managed();
  const Stream mine = stream();
  Gate gate(*this, mine);
  ASSERT_EQ(cu.cuMemPrefetchAsync(at, size, 0, mine), Status::success);
  EXPECT_EQ(cu.cuStreamQuery(mine), Status::not_ready);
  EXPECT_EQ(cu.cuStreamQuery(mine), Status::not_ready);
  EXPECT_EQ(control.resident_bytes(at, size, 0), 0U);
  gate.open();
  sync(mine);
  EXPECT_EQ(control.resident_bytes(at, size, 0), size);
}

// --- Gates ---

class GateTest : public StreamTest {
 protected:
  /// Is a gate of this comparison open for the word?
  bool passes(std::uint32_t word, std::uint32_t value, unsigned comparison) {
    const Stream mine = stream();
    auto* host = reinterpret_cast<std::uint32_t*>(pinned());
    *host = word;
    EXPECT_EQ(cu.cuStreamWaitValue32_v2(mine, address_of(host), value, comparison),
              Status::success);
    static_cast<void>(cu.cuStreamQuery(mine));
    return cu.cuStreamQuery(mine) == Status::success;
  }
};

TEST_F(GateTest, EachComparison) {
  EXPECT_TRUE(passes(5, 5, wait_value_geq));
  EXPECT_TRUE(passes(6, 5, wait_value_geq));
  EXPECT_FALSE(passes(4, 5, wait_value_geq));
  EXPECT_TRUE(passes(1, 0xfffffff0U, wait_value_geq));  // cyclic
  EXPECT_TRUE(passes(5, 5, wait_value_eq));
  EXPECT_FALSE(passes(6, 5, wait_value_eq));
  EXPECT_TRUE(passes(6, 2, wait_value_and));
  EXPECT_FALSE(passes(4, 3, wait_value_and));
  EXPECT_TRUE(passes(1, 2, wait_value_nor));
  EXPECT_FALSE(passes(0xffff0000U, 0x0000ffffU, wait_value_nor));
}

TEST_F(GateTest, AHostStoreReleasesASynchronise) {
  const Stream mine = stream();
  Gate gate(*this, mine);
  std::uint8_t* host = pinned();
  EXPECT_EQ(cu.cuMemsetD8Async(address_of(host), 7, size, mine), Status::success);
  std::thread opener([&] { gate.open(); });
  sync(mine);
  opener.join();
  EXPECT_EQ(host[0], 7);
}

TEST_F(GateTest, AnotherStreamsWriteReleasesIt) {
  const Stream mine = stream();
  Gate gate(*this, mine);
  const Stream other = stream();
  EXPECT_EQ(cu.cuStreamWriteValue32_v2(other, gate.address(), 1, 0), Status::success);
  sync(mine);
}

TEST_F(GateTest, TheControlTableReleasesIt) {
  const Stream mine = stream();
  const Gate gate(*this, mine);
  control.open_gates();
  sync(mine);
}

TEST_F(GateTest, ItsWordLiesInDeviceOrPinnedMemory) {
  const Stream mine = stream();
  const DevicePointer on_device = device();
  EXPECT_EQ(cu.cuStreamWriteValue32_v2(mine, on_device, 9, 0), Status::success);
  EXPECT_EQ(cu.cuStreamWaitValue32_v2(mine, on_device, 9, wait_value_eq), Status::success);
  sync(mine);
  std::uint32_t pageable = 0;
  for (const DevicePointer bad :
       {managed(), on_device + 2, on_device + size, DevicePointer{0}, address_of(&pageable)}) {
    EXPECT_EQ(cu.cuStreamWaitValue32_v2(mine, bad, 0, 0), Status::invalid_value);
    EXPECT_EQ(cu.cuStreamWriteValue32_v2(mine, bad, 0, 0), Status::invalid_value);
  }
}

TEST_F(GateTest, ItsFlagsAreKnown) {
  const Stream mine = stream();
  const DevicePointer word = device();
  EXPECT_EQ(cu.cuStreamWaitValue32_v2(mine, word, 0, 4), Status::invalid_value);
  EXPECT_EQ(cu.cuStreamWaitValue32_v2(mine, word, 0, 1U << 30), Status::not_supported);
  EXPECT_EQ(cu.cuStreamWriteValue32_v2(mine, word, 0, 2), Status::invalid_value);
  EXPECT_EQ(cu.cuStreamWriteValue32_v2(mine, word, 0, 1), Status::success);
}

TEST_F(GateTest, AContextEndsBehindAClosedGate) {
  Context second = nullptr;
  ASSERT_EQ(cu.cuCtxCreate_v2(&second, 0, 0), Status::success);
  const Gate gate(*this, stream());
  ASSERT_EQ(cu.cuCtxDestroy_v2(second), Status::success);
  ASSERT_EQ(cu.cuCtxSetCurrent(context), Status::success);
}

// --- Host functions ---

TEST_F(StreamTest, AHostFunctionRunsInStreamOrder) {
  struct Seen {
    const std::uint8_t* host;
    int value = -1;
  } seen{pinned()};
  const Stream mine = stream();
  const auto at = address_of(seen.host);
  EXPECT_EQ(cu.cuMemsetD8Async(at, 7, size, mine), Status::success);
  EXPECT_EQ(cu.cuLaunchHostFunc(
                mine,
                [](void* user) {
                  auto& it = *static_cast<Seen*>(user);
                  it.value = it.host[0];
                },
                &seen),
            Status::success);
  EXPECT_EQ(cu.cuMemsetD8Async(at, 8, size, mine), Status::success);
  EXPECT_EQ(seen.value, -1);
  sync(mine);
  EXPECT_EQ(seen.value, 7);
  EXPECT_EQ(seen.host[0], 8);
  EXPECT_EQ(cu.cuLaunchHostFunc(mine, nullptr, nullptr), Status::invalid_value);
}

// Spec row 28; a wait for its own stream would never end.
TEST_F(StreamTest, AHostFunctionMayNotCallTheDriver) {
  struct Answers {
    const DriverTable* cu;
    Stream stream;
    Status free{}, sync{}, query{};
  } answers{&cu, stream()};
  EXPECT_EQ(cu.cuLaunchHostFunc(
                answers.stream,
                [](void* user) {
                  auto& it = *static_cast<Answers*>(user);
                  it.free = it.cu->cuMemFree_v2(0);
                  it.sync = it.cu->cuStreamSynchronize(it.stream);
                  it.query = it.cu->cuStreamQuery(it.stream);
                },
                &answers),
            Status::success);
  sync(answers.stream);
  EXPECT_EQ(answers.free, Status::not_permitted);
  EXPECT_EQ(answers.sync, Status::not_permitted);
  EXPECT_EQ(answers.query, Status::not_permitted);
  EXPECT_TRUE(diagnosed("call_in_host_function"));
}

// --- The end of the process, and eager streams ---

void end_with_pending_work() {
  play("h200");
  Driver driver;
  const Stream mine = driver.stream();
  const Gate gate(driver, mine);
  EXPECT_EQ(driver.cu.cuLaunchHostFunc(mine, [](void*) {}, nullptr), Status::success);
  EXPECT_EQ(driver.cu.cuMemsetD8Async(driver.device(), 1, 1, mine), Status::success);
  std::thread([mine, &driver] {
    static_cast<void>(driver.cu.cuCtxSetCurrent(driver.context));
    static_cast<void>(driver.cu.cuStreamSynchronize(mine));
  }).detach();
  leave();
}

TEST(StreamProcessTest, AClosedGateHoldsNoProcess) {
  ASSAY_EXPECT_CHILD(end_with_pending_work, 0);
}

void poll_memory() {
  setenv(model_eager_variable, "1", 1);
  play("h200");
  Driver driver;
  std::uint8_t* host = driver.pinned();
  const Stream mine = driver.stream();
  EXPECT_EQ(driver.cu.cuStreamWriteValue32_v2(mine, Driver::address_of(host), 7, 0),
            Status::success);
  while (__atomic_load_n(reinterpret_cast<std::uint32_t*>(host), __ATOMIC_ACQUIRE) != 7) {
    std::this_thread::yield();
  }
  leave();
}

TEST(StreamProcessTest, EagerStreamsServeAProgramThatPollsMemory) {
  ASSAY_EXPECT_CHILD(poll_memory, 0);
}

}  // namespace
}  // namespace assay::model_tests
