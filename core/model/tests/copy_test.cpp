// Copies and sets: what they accept, when they wait, and the mistakes that they show.
#include "stream_driver.hpp"

#include <limits>

namespace assay::model_tests {
namespace {

class CopyTest : public DriverTest {
 protected:
  /// Did the last call without a stream leave work pending?
  bool left_pending() { return cu.cuStreamQuery(nullptr) == Status::not_ready; }
  DevicePointer device_holding(std::uint8_t value) {
    const DevicePointer at = device();
    EXPECT_EQ(cu.cuMemsetD8_v2(at, value, size), Status::success);
    EXPECT_EQ(cu.cuCtxSynchronize(), Status::success);
    return at;
  }
};

TEST_F(CopyTest, BytesArriveInEachDirection) {
  std::vector<std::uint8_t> source(size);
  for (std::size_t i = 0; i < size; ++i) source[i] = static_cast<std::uint8_t>(i * 7);
  const DevicePointer first = device();
  const DevicePointer second = managed();
  std::uint8_t* host = pinned();
  EXPECT_EQ(cu.cuMemcpyHtoD_v2(first, source.data(), size), Status::success);
  EXPECT_EQ(cu.cuMemcpyDtoD_v2(second, first, size), Status::success);
  EXPECT_EQ(cu.cuMemcpyDtoH_v2(host, second, size), Status::success);
  EXPECT_EQ(std::memcmp(host, source.data(), size), 0);

  const Stream mine = stream();
  const DevicePointer third = device();
  EXPECT_EQ(cu.cuMemcpyAsync(third, address_of(host), size, mine), Status::success);
  sync(mine);
  EXPECT_EQ(bytes_at(third), source);
  std::vector<std::uint8_t> back(size);
  EXPECT_EQ(cu.cuMemcpy(address_of(back.data()), third, size), Status::success);
  EXPECT_EQ(back, source);
  const DevicePointer fourth = device();
  EXPECT_EQ(cu.cuMemcpyHtoDAsync_v2(fourth + 1, source.data(), 100, mine), Status::success);
  EXPECT_EQ(cu.cuMemcpyDtoDAsync_v2(fourth + 200, fourth + 1, 100, mine), Status::success);
  back.assign(size, 0);
  EXPECT_EQ(cu.cuMemcpyDtoHAsync_v2(back.data() + 3, fourth + 200, 100, mine), Status::success);
  sync(mine);
  EXPECT_EQ(std::memcmp(back.data() + 3, source.data(), 100), 0);
  EXPECT_EQ(back[103], 0);
  EXPECT_EQ(control.diagnosis_count(), 0U);
}

TEST_F(CopyTest, ASizeThatWrapsTheAddressSpaceIsRefused) {
  std::uint8_t host[size];
  const DevicePointer from = address_of(host) + 1;
  for (const std::size_t huge : {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 4096, SIZE_MAX / 2}) {
    EXPECT_EQ(cu.cuMemcpy(from + 100, from, huge), Status::invalid_value) << huge;
    EXPECT_EQ(cu.cuMemcpyAsync(from + 100, from, huge, nullptr), Status::invalid_value) << huge;
    EXPECT_EQ(cu.cuMemHostRegister_v2(host + 1, huge, 0), Status::invalid_value) << huge;
  }
}

TEST_F(CopyTest, ARangeLiesWhollyInOneLiveAllocation) {
  const DevicePointer at = device();
  const DevicePointer gone = device();
  EXPECT_EQ(cu.cuMemFree_v2(gone), Status::success);
  std::uint8_t host[size];
  for (const DevicePointer bad : {at + 1, at + size, at - 1, gone, DevicePointer{0},
                                  DevicePointer{64}, at + std::numeric_limits<int>::max()}) {
    EXPECT_EQ(cu.cuMemcpyHtoD_v2(bad, host, size), Status::invalid_value);
    EXPECT_EQ(cu.cuMemcpyDtoH_v2(host, bad, size), Status::invalid_value);
    EXPECT_EQ(cu.cuMemcpyDtoD_v2(at, bad, size), Status::invalid_value);
    EXPECT_EQ(cu.cuMemcpyDtoDAsync_v2(bad, at, size, nullptr), Status::invalid_value);
    EXPECT_EQ(cu.cuMemcpyHtoDAsync_v2(bad, host, size, nullptr), Status::invalid_value);
    EXPECT_EQ(cu.cuMemcpyDtoHAsync_v2(host, bad, size, nullptr), Status::invalid_value);
    EXPECT_EQ(cu.cuMemsetD8_v2(bad, 0, size), Status::invalid_value);
    EXPECT_EQ(cu.cuMemsetD8Async(bad, 0, size, nullptr), Status::invalid_value);
  }
  EXPECT_EQ(cu.cuMemcpyHtoD_v2(at + 1, host, size - 1), Status::success);
  EXPECT_EQ(cu.cuMemcpyHtoD_v2(at, host, SIZE_MAX), Status::invalid_value);
  EXPECT_EQ(cu.cuMemsetD32_v2(at, 0, SIZE_MAX / 4 + 2), Status::invalid_value);
}

TEST_F(CopyTest, AHostPointerIsMappedAndNotTheDevices) {
  const DevicePointer at = device();
  const DevicePointer other = device();
  EXPECT_EQ(cu.cuMemcpyHtoD_v2(at, nullptr, size), Status::invalid_value);
  EXPECT_EQ(cu.cuMemcpyDtoH_v2(nullptr, at, size), Status::invalid_value);
  EXPECT_EQ(cu.cuMemcpyHtoD_v2(at, reinterpret_cast<void*>(other), size), Status::invalid_value);
  EXPECT_EQ(cu.cuMemcpyDtoH_v2(reinterpret_cast<void*>(other), at, size), Status::invalid_value);
  void* hole = mmap(nullptr, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(hole, MAP_FAILED);
  ASSERT_EQ(munmap(hole, 1 << 20), 0);
  EXPECT_EQ(cu.cuMemcpyDtoH_v2(hole, at, size), Status::invalid_value);
  std::uint8_t* host = pinned();
  EXPECT_EQ(cu.cuMemcpyDtoH_v2(host + 1, at, size), Status::invalid_value);  // runs past its end
}

TEST_F(CopyTest, NothingIsCopiedFromValidPointers) {
  const DevicePointer at = device();
  std::uint8_t byte = 0;
  EXPECT_EQ(cu.cuMemcpyHtoD_v2(at, &byte, 0), Status::success);
  EXPECT_EQ(cu.cuMemcpyDtoH_v2(&byte, at + size, 0), Status::success);
  EXPECT_EQ(cu.cuMemsetD8Async(at, 0, 0, stream()), Status::success);
  EXPECT_EQ(cu.cuMemcpyHtoD_v2(0, &byte, 0), Status::invalid_value);
  EXPECT_FALSE(left_pending());
}

TEST_F(CopyTest, SetsHaveWidths) {
  const DevicePointer at = device_holding(0xee);
  EXPECT_EQ(cu.cuMemsetD8_v2(at, 1, 2), Status::success);
  EXPECT_EQ(cu.cuMemsetD16_v2(at + 2, 0x0302, 1), Status::success);
  EXPECT_EQ(cu.cuMemsetD32_v2(at + 4, 0x07060504, 2), Status::success);
  EXPECT_EQ(bytes_at(at, 13),
            (std::vector<std::uint8_t>{1, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7, 0xee}));
  const Stream mine = stream();
  EXPECT_EQ(cu.cuMemsetD16Async(at, 0x0201, 1, mine), Status::success);
  EXPECT_EQ(cu.cuMemsetD32Async(at + 4, 0x04030201, 1, mine), Status::success);
  EXPECT_EQ(bytes_at(at, 8), (std::vector<std::uint8_t>{1, 2, 2, 3, 1, 2, 3, 4}));
  EXPECT_EQ(cu.cuMemsetD16_v2(at + 1, 0, 1), Status::invalid_value);
  EXPECT_EQ(cu.cuMemsetD32_v2(at + 2, 0, 1), Status::invalid_value);
  EXPECT_EQ(cu.cuMemsetD16Async(at + 1, 0, 1, mine), Status::invalid_value);
  EXPECT_EQ(cu.cuMemsetD32Async(at + 2, 0, 1, mine), Status::invalid_value);
}

TEST_F(CopyTest, AnOverlapIsDiagnosed) {
  const DevicePointer at = device();
  EXPECT_EQ(cu.cuMemcpyDtoD_v2(at + 64, at, 64), Status::success);
  EXPECT_FALSE(diagnosed("copy_overlap"));
  EXPECT_EQ(cu.cuMemcpyDtoD_v2(at + 63, at, 64), Status::success);
  EXPECT_TRUE(diagnosed("copy_overlap"));
}

// --- When calls without a stream wait (spec 2.6) ---

TEST_F(CopyTest, APageableSourceIsStagedAndTheDeviceNotWaitedFor) {
  const DevicePointer at = device();
  auto source = filled(5);
  EXPECT_EQ(cu.cuMemcpyHtoD_v2(at, source.data(), size), Status::success);
  EXPECT_TRUE(left_pending());
  source = filled(6);
  EXPECT_EQ(bytes_at(at), filled(5));
  EXPECT_EQ(control.diagnosis_count(), 0U);
}

TEST_F(CopyTest, StagingComesAfterTheDefaultStream) {
  const Stream blocking = stream(0);
  std::uint8_t* host = pinned();
  EXPECT_EQ(cu.cuMemsetD8Async(address_of(host), 7, size, blocking), Status::success);
  EXPECT_EQ(cu.cuMemsetD8Async(device(), 7, size, nullptr), Status::success);
  const auto source = filled(5);
  EXPECT_EQ(cu.cuMemcpyHtoD_v2(device(), source.data(), size), Status::success);
  EXPECT_EQ(host[0], 7);
}

TEST_F(CopyTest, APinnedSourceAndEachCopyToTheHostAreWaitedFor) {
  std::uint8_t* host = pinned();
  const DevicePointer at = device_holding(9);
  std::vector<std::uint8_t> target(size);
  EXPECT_EQ(cu.cuMemcpyHtoD_v2(at, host, size), Status::success);
  EXPECT_FALSE(left_pending());
  EXPECT_EQ(cu.cuMemcpyDtoH_v2(target.data(), at, size), Status::success);
  EXPECT_FALSE(left_pending());
  const DevicePointer shared = managed();
  EXPECT_EQ(cu.cuMemcpyDtoH_v2(reinterpret_cast<void*>(shared), at, size), Status::success);
  EXPECT_FALSE(left_pending());
  const auto source = filled(3);
  EXPECT_EQ(cu.cuMemcpy(address_of(target.data()), address_of(source.data()), size),
            Status::success);
  EXPECT_EQ(target, source);
}

TEST_F(CopyTest, CopiesWithinTheDeviceAreNotWaitedFor) {
  const DevicePointer from = device_holding(9);
  for (const DevicePointer to : {device(), managed()}) {
    EXPECT_EQ(cu.cuMemcpyDtoD_v2(to, from, size), Status::success);
    EXPECT_TRUE(left_pending());
    EXPECT_EQ(cu.cuMemcpy(to, from, size), Status::success);
    sync(nullptr);
  }
}

TEST_F(CopyTest, SetsOfDeviceMemoryAreNotWaitedForOthersAre) {
  EXPECT_EQ(cu.cuMemsetD8_v2(device(), 1, size), Status::success);
  EXPECT_TRUE(left_pending());
  sync(nullptr);
  std::uint8_t* host = pinned();
  EXPECT_EQ(cu.cuMemsetD8_v2(address_of(host), 1, size), Status::success);
  EXPECT_FALSE(left_pending());
  EXPECT_EQ(host[size - 1], 1);
  EXPECT_EQ(cu.cuMemsetD32_v2(managed(), 1, 4), Status::success);
  EXPECT_FALSE(left_pending());
}

TEST_F(CopyTest, SyncMemopsMakesThemWait) {
  const DevicePointer from = device_holding(9);
  const DevicePointer to = device();
  const unsigned on = 1;
  ASSERT_EQ(cu.cuPointerSetAttribute(&on, PointerAttribute::sync_memops, to), Status::success);
  EXPECT_EQ(cu.cuMemcpyDtoD_v2(to, from, size), Status::success);
  EXPECT_FALSE(left_pending());
  EXPECT_EQ(cu.cuMemsetD8_v2(to, 1, size), Status::success);
  EXPECT_FALSE(left_pending());
}

// --- Sources that change (spec row 19) ---

TEST_F(CopyTest, APinnedSourceReusedEarlyIsDiagnosedAndCorrupts) {
  const DevicePointer at = device();
  std::uint8_t* source = pinned();
  const Stream mine = stream();
  EXPECT_EQ(cu.cuMemcpyHtoDAsync_v2(at, source, size, mine), Status::success);
  source[17] = 1;
  sync(mine);
  EXPECT_TRUE(diagnosed("source_changed"));
  EXPECT_EQ(bytes_at(at)[17], 1);
}

TEST_F(CopyTest, APageableSourceReusedEarlyIsDiagnosed) {
  const DevicePointer at = device();
  auto source = filled(5);
  const Stream mine = stream();
  EXPECT_EQ(cu.cuMemcpyHtoDAsync_v2(at, source.data(), size, mine), Status::success);
  source[size - 1] = 1;
  sync(mine);
  EXPECT_TRUE(diagnosed("source_changed"));
  EXPECT_EQ(bytes_at(at), filled(5));
}

TEST_F(CopyTest, ASourceUnmappedEarlyIsDiagnosed) {
  const DevicePointer at = device();
  void* source = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(source, MAP_FAILED);
  const Stream mine = stream();
  EXPECT_EQ(cu.cuMemcpyHtoDAsync_v2(at, source, size, mine), Status::success);
  ASSERT_EQ(munmap(source, size), 0);
  sync(mine);
  EXPECT_TRUE(diagnosed("source_changed"));
  EXPECT_EQ(bytes_at(at), filled(0));
}

TEST_F(CopyTest, ASourceReusedAfterTheWaitIsFine) {
  const DevicePointer at = device();
  std::uint8_t* source = pinned();
  const Stream mine = stream();
  EXPECT_EQ(cu.cuMemcpyHtoDAsync_v2(at, source, size, mine), Status::success);
  sync(mine);
  source[17] = 1;
  EXPECT_EQ(bytes_at(at), filled(0));
  EXPECT_EQ(control.diagnosis_count(), 0U);
}

TEST_F(CopyTest, ASourceThatEarlierWorkWritesIsFine) {
  const DevicePointer at = device();
  std::uint8_t* between = pinned();
  const Stream mine = stream();
  EXPECT_EQ(cu.cuMemsetD8Async(address_of(between), 9, size, mine), Status::success);
  EXPECT_EQ(cu.cuMemcpyHtoDAsync_v2(at, between, size, mine), Status::success);
  sync(mine);
  EXPECT_EQ(bytes_at(at), filled(9));
  EXPECT_EQ(control.diagnosis_count(), 0U);
}

TEST_F(CopyTest, ASourceWrittenBeforeItsGateOpensIsFine) {
  const DevicePointer at = device();
  std::uint8_t* source = pinned();
  const Stream mine = stream();
  Gate gate(*this, mine);
  EXPECT_EQ(cu.cuMemcpyHtoDAsync_v2(at, source, size, mine), Status::success);
  std::memset(source, 4, size);
  gate.open();
  sync(mine);
  EXPECT_EQ(bytes_at(at), filled(4));
  EXPECT_EQ(control.diagnosis_count(), 0U);
}

TEST_F(CopyTest, ATargetUnmappedEarlyIsDiagnosed) {
  void* target = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(target, MAP_FAILED);
  const Stream mine = stream();
  EXPECT_EQ(cu.cuMemcpyDtoHAsync_v2(target, device(), size, mine), Status::success);
  ASSERT_EQ(munmap(target, size), 0);
  sync(mine);
  EXPECT_TRUE(diagnosed("host_memory_gone"));
}

// --- Frees with work in flight (spec rows 4, 5) ---

TEST_F(CopyTest, AFreeWaitsForWorkInFlightAndIsDiagnosed) {
  const DevicePointer at = device_holding(9);
  std::uint8_t* host = pinned();
  EXPECT_EQ(cu.cuMemcpyDtoHAsync_v2(host, at, size, stream()), Status::success);
  EXPECT_EQ(cu.cuMemFree_v2(at), Status::success);
  EXPECT_TRUE(diagnosed("free_in_flight"));
  EXPECT_EQ(host[0], 9);
}

TEST_F(CopyTest, WhatSynchronousCallsLeftPendingIsNoWorkInFlight) {
  const DevicePointer at = device();
  const auto source = filled(5);
  EXPECT_EQ(cu.cuMemcpyHtoD_v2(at, source.data(), size), Status::success);
  EXPECT_EQ(cu.cuMemsetD8_v2(at, 1, size), Status::success);
  EXPECT_TRUE(left_pending());
  EXPECT_EQ(cu.cuMemFree_v2(at), Status::success);
  EXPECT_EQ(control.diagnosis_count(), 0U);
}

TEST_F(CopyTest, PinnedMemoryFreedUnderACopyIsDiagnosed) {
  std::uint8_t* host = pinned();
  const DevicePointer at = device();
  EXPECT_EQ(cu.cuMemcpyHtoDAsync_v2(at, host, size, stream()), Status::success);
  EXPECT_EQ(cu.cuMemFreeHost(host), Status::success);
  EXPECT_TRUE(diagnosed("free_in_flight"));
}

TEST_F(CopyTest, MemoryUnregisteredUnderACopyIsDiagnosed) {
  auto host = filled(1);
  ASSERT_EQ(cu.cuMemHostRegister_v2(host.data(), size, 0), Status::success);
  EXPECT_EQ(cu.cuMemcpyHtoDAsync_v2(device(), host.data(), size, stream()), Status::success);
  EXPECT_EQ(cu.cuMemHostUnregister(host.data()), Status::success);
  EXPECT_TRUE(diagnosed("free_in_flight"));
}

TEST_F(CopyTest, AContextThatEndsBeforeItsCopyToTheHostIsDiagnosed) {
  auto target = filled(1);
  Context second = nullptr;
  ASSERT_EQ(cu.cuCtxCreate_v2(&second, 0, 0), Status::success);
  EXPECT_EQ(cu.cuMemsetD8_v2(device(), 1, size), Status::success);  // nobody misses that
  EXPECT_EQ(cu.cuMemcpyDtoHAsync_v2(target.data(), device(), size, stream()), Status::success);
  ASSERT_EQ(cu.cuCtxDestroy_v2(second), Status::success);
  ASSERT_EQ(cu.cuCtxSetCurrent(context), Status::success);
  EXPECT_EQ(control.diagnosis_count(), 1U);
  EXPECT_TRUE(diagnosed("context_ended_with_work"));
  EXPECT_EQ(target, filled(1));
}

// A driver need not wait in a free: then late work meets memory that is gone (spec 2.12).
void free_under_a_driver_that_does_not_wait() {
  play("base = h200\nfree_waits = 0");
  Driver driver;
  auto& cu = driver.cu;
  const DevicePointer at = driver.device();
  const Stream mine = driver.stream();
  const auto source = Driver::filled(1);
  EXPECT_EQ(cu.cuMemcpyHtoD_v2(at, source.data(), Driver::size), Status::success);
  EXPECT_EQ(cu.cuMemFree_v2(at), Status::success);  // the driver's own staging is no fault
  EXPECT_EQ(cu.cuCtxSynchronize(), Status::success);
  EXPECT_EQ(driver.control.diagnosis_count(), 0U);

  const DevicePointer second = driver.device();
  EXPECT_EQ(cu.cuMemsetD8Async(second, 1, Driver::size, mine), Status::success);
  EXPECT_EQ(cu.cuMemFree_v2(second), Status::success);
  EXPECT_TRUE(diagnosed("free_in_flight"));
  EXPECT_EQ(cu.cuStreamSynchronize(mine), Status::illegal_address);
  EXPECT_TRUE(diagnosed("access_after_free"));
  DevicePointer out = 0;
  EXPECT_EQ(cu.cuMemAlloc_v2(&out, 1), Status::illegal_address);  // sticky
  EXPECT_EQ(cu.cuStreamQuery(mine), Status::illegal_address);
  EXPECT_EQ(out, 0U);

  Context fresh = nullptr;
  EXPECT_EQ(cu.cuCtxSetCurrent(nullptr), Status::success);
  EXPECT_EQ(cu.cuCtxCreate_v2(&fresh, 0, 0), Status::success);
  EXPECT_EQ(cu.cuStreamSynchronize(mine), Status::illegal_address);  // of its own context
  EXPECT_EQ(cu.cuMemAlloc_v2(&out, 1), Status::success);
  EXPECT_EQ(cu.cuMemsetD8Async(out, 1, 1, mine), Status::illegal_address);
  leave();
}

TEST(CopyProcessTest, LateWorkOnFreedMemoryPoisonsTheContext) {
  ASSAY_EXPECT_CHILD(free_under_a_driver_that_does_not_wait, 0);
}

}  // namespace
}  // namespace assay::model_tests
