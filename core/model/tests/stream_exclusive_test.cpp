// Devices without concurrent managed access (spec 2.7, rows 11 and 12): while the device may be
// busy, the host may not touch managed memory. Each test is a process of its own, which ends where
// it touches what it may not.
#include "assay/cuda/abi/kernels.hpp"
#include "stream_driver.hpp"

namespace assay::model_tests {
namespace {

constexpr const char* exclusive = "no_concurrent_managed_access";

volatile std::uint8_t& byte_at(DevicePointer address) {
  return *reinterpret_cast<volatile std::uint8_t*>(address);
}

/// Managed memory, a stream with a spinning kernel or another piece of device work, on a device
/// that excludes the host.
struct Exclusive : Driver {
  Exclusive() : mine(stream()), flag(reinterpret_cast<std::uint32_t*>(pinned())) {}

  void spin(Stream on) {
    Module module = nullptr;
    Function kernel = nullptr;
    EXPECT_EQ(cu.cuModuleLoadData(&module, kernel_ptx), Status::success);
    EXPECT_EQ(cu.cuModuleGetFunction(&kernel, module, SpinParameters::entry), Status::success);
    std::uint64_t values[4] = {address_of(flag), 1, ~std::uint64_t{0}, 0};
    void* arguments[4] = {&values[0], &values[1], &values[2], &values[3]};
    EXPECT_EQ(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, on, arguments, nullptr),
              Status::success);
  }
  void end_spin() { __atomic_store_n(flag, 1U, __ATOMIC_RELEASE); }
  void attach(DevicePointer memory, unsigned flags) {
    EXPECT_EQ(cu.cuStreamAttachMemAsync(mine, memory, 0, flags), Status::success);
    sync(mine);
  }

  Stream mine;
  std::uint32_t* flag;
};

/// A child process: `body` sets up, then the touch decides with which code it ends.
template <class Body>
void child(Body body) {
  play(exclusive);
  exit_on_fault();
  Exclusive driver;
  const DevicePointer touched = body(driver);
  if (testing::Test::HasFailure()) std::exit(1);
  byte_at(touched) = 1;
  driver.control.open_gates();
  leave();
}

#define ASSAY_EXCLUSIVE_TEST(name, code, body)                            \
  TEST(ExclusiveTest, name) {                                             \
    ASSAY_EXPECT_CHILD([] { child([](Exclusive & driver) body); }, code); \
  }

constexpr int open = 0;
constexpr int closed = touched_memory_faulted;

ASSAY_EXCLUSIVE_TEST(AnIdleDeviceLeavesItOpen, open, { return driver.managed(); })

ASSAY_EXCLUSIVE_TEST(ASpinningKernelClosesUnrelatedMemory, closed, {
  const DevicePointer memory = driver.managed();
  driver.spin(driver.mine);
  return memory;
})

ASSAY_EXCLUSIVE_TEST(MemoryMadeMeanwhileIsClosed, closed, {
  driver.spin(driver.mine);
  return driver.managed();
})

ASSAY_EXCLUSIVE_TEST(ASetInAStreamClosesIt, closed, {
  const DevicePointer memory = driver.managed();
  EXPECT_EQ(driver.cu.cuMemsetD8Async(driver.device(), 1, 1, driver.mine), Status::success);
  return memory;
})

ASSAY_EXCLUSIVE_TEST(ASynchroniseReopensIt, open, {
  const DevicePointer memory = driver.managed();
  driver.spin(driver.mine);
  driver.end_spin();
  driver.sync(driver.mine);
  return memory;
})

ASSAY_EXCLUSIVE_TEST(AContextSynchroniseReopensIt, open, {
  const DevicePointer memory = driver.managed();
  driver.spin(driver.mine);
  driver.end_spin();
  EXPECT_EQ(driver.cu.cuCtxSynchronize(), Status::success);
  return memory;
})

ASSAY_EXCLUSIVE_TEST(TheEndOfTheKernelAloneDoesNot, closed, {
  const DevicePointer memory = driver.managed();
  driver.spin(driver.mine);
  driver.end_spin();
  return memory;
})

ASSAY_EXCLUSIVE_TEST(AQueryThatIsNotReadyDoesNot, closed, {
  const DevicePointer memory = driver.managed();
  driver.spin(driver.mine);
  EXPECT_EQ(driver.cu.cuStreamQuery(driver.mine), Status::not_ready);
  return memory;
})

ASSAY_EXCLUSIVE_TEST(AQueryThatSucceedsReopensIt, open, {
  const DevicePointer memory = driver.managed();
  driver.spin(driver.mine);
  driver.end_spin();
  EXPECT_EQ(driver.cu.cuStreamQuery(driver.mine), Status::not_ready);
  EXPECT_EQ(driver.cu.cuStreamQuery(driver.mine), Status::success);
  return memory;
})

ASSAY_EXCLUSIVE_TEST(AnEventReopensIt, open, {
  const DevicePointer memory = driver.managed();
  const Event mark = driver.event();
  driver.spin(driver.mine);
  driver.end_spin();
  EXPECT_EQ(driver.cu.cuEventRecord(mark, driver.mine), Status::success);
  EXPECT_EQ(driver.cu.cuEventSynchronize(mark), Status::success);
  return memory;
})

// Taking the destruction of a stream for a synchronise (spec row 12).
ASSAY_EXCLUSIVE_TEST(DestroyingTheStreamDoesNot, closed, {
  const DevicePointer memory = driver.managed();
  driver.spin(driver.mine);
  driver.end_spin();
  EXPECT_EQ(driver.cu.cuStreamDestroy_v2(driver.mine), Status::success);
  return memory;
})

ASSAY_EXCLUSIVE_TEST(ASynchroniseOfAnotherStreamDoesNot, closed, {
  const DevicePointer memory = driver.managed();
  driver.spin(driver.mine);
  driver.end_spin();
  driver.sync(driver.stream());
  return memory;
})

ASSAY_EXCLUSIVE_TEST(AGateIsNoDeviceWork, open, {
  const DevicePointer memory = driver.managed();
  const Gate gate(driver, driver.mine);
  return memory;
})

ASSAY_EXCLUSIVE_TEST(MemoryOfTheHostStaysOpen, open, {
  const DevicePointer memory = driver.managed(mem_attach_host);
  driver.spin(driver.mine);
  return memory;
})

ASSAY_EXCLUSIVE_TEST(MemoryAttachedToTheHostStaysOpen, open, {
  const DevicePointer memory = driver.managed();
  driver.attach(memory, mem_attach_host);
  driver.spin(driver.mine);
  return memory;
})

ASSAY_EXCLUSIVE_TEST(MemoryAttachedToAnotherStreamStaysOpen, open, {
  const DevicePointer memory = driver.managed();
  driver.attach(memory, mem_attach_single);
  driver.spin(driver.stream());
  return memory;
})

ASSAY_EXCLUSIVE_TEST(MemoryAttachedToTheBusyStreamIsClosed, closed, {
  const DevicePointer memory = driver.managed();
  driver.attach(memory, mem_attach_single);
  driver.spin(driver.mine);
  return memory;
})

ASSAY_EXCLUSIVE_TEST(AnAttachmentTakesItsPlaceInTheStream, closed, {
  const DevicePointer memory = driver.managed();
  EXPECT_EQ(driver.cu.cuStreamAttachMemAsync(driver.mine, memory, 0, mem_attach_host),
            Status::success);
  driver.spin(driver.stream());
  return memory;
})

ASSAY_EXCLUSIVE_TEST(AnAttachmentEndsWithItsStream, closed, {
  const DevicePointer memory = driver.managed();
  driver.attach(memory, mem_attach_single);
  EXPECT_EQ(driver.cu.cuStreamDestroy_v2(driver.mine), Status::success);
  driver.spin(driver.stream());
  return memory;
})

ASSAY_EXCLUSIVE_TEST(AHostFunctionFindsItOpen, open, {
  static DevicePointer memory;
  memory = driver.managed();
  EXPECT_EQ(driver.cu.cuMemsetD8Async(driver.device(), 1, 1, driver.mine), Status::success);
  EXPECT_EQ(driver.cu.cuLaunchHostFunc(
                driver.mine, [](void*) { byte_at(memory) = 2; }, nullptr),
            Status::success);
  EXPECT_EQ(driver.cu.cuMemsetD8Async(driver.device(), 1, 1, driver.mine), Status::success);
  driver.sync(driver.mine);
  EXPECT_EQ(byte_at(memory), 2);
  return memory;
})

class AttachTest : public DriverTest {};

TEST_F(AttachTest, RefusesWhatItDoesNotKnow) {
  const DevicePointer memory = managed();
  const Stream mine = stream();
  for (const unsigned flags : {0U, 3U, 8U}) {
    EXPECT_EQ(cu.cuStreamAttachMemAsync(mine, memory, 0, flags), Status::invalid_value);
  }
  EXPECT_EQ(cu.cuStreamAttachMemAsync(mine, memory, size - 1, mem_attach_single),
            Status::invalid_value);
  EXPECT_EQ(cu.cuStreamAttachMemAsync(mine, device(), 0, mem_attach_single), Status::invalid_value);
  EXPECT_EQ(cu.cuStreamAttachMemAsync(nullptr, memory, 0, mem_attach_single),
            Status::invalid_value);
  EXPECT_EQ(cu.cuStreamAttachMemAsync(mine, memory, size, mem_attach_single), Status::success);
  EXPECT_EQ(cu.cuStreamAttachMemAsync(nullptr, memory, 0, mem_attach_global), Status::success);
}

// A kernel that uses what is attached elsewhere: undefined, so it is diagnosed.
void use_memory_attached_to_the_host() {
  play(exclusive);
  Exclusive driver;
  const DevicePointer memory = driver.managed(mem_attach_host);
  Module module = nullptr;
  Function kernel = nullptr;
  EXPECT_EQ(driver.cu.cuModuleLoadData(&module, kernel_ptx), Status::success);
  EXPECT_EQ(driver.cu.cuModuleGetFunction(&kernel, module, FillParameters::entry), Status::success);
  std::uint64_t values[4] = {memory, 1, 0, 0};
  void* arguments[4] = {&values[0], &values[1], &values[2], &values[3]};
  const auto launch_and_sync = [&] {
    EXPECT_EQ(
        driver.cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, driver.mine, arguments, nullptr),
        Status::success);
    driver.sync(driver.mine);
  };
  driver.attach(memory, mem_attach_single);
  launch_and_sync();
  EXPECT_EQ(driver.control.diagnosis_count(), 0U);
  driver.attach(memory, mem_attach_host);
  launch_and_sync();
  EXPECT_TRUE(diagnosed("access_attached"));
  leave();
}

TEST(ExclusiveTest, DeviceWorkOnMemoryAttachedToTheHostIsDiagnosed) {
  ASSAY_EXPECT_CHILD(use_memory_attached_to_the_host, 0);
}

}  // namespace
}  // namespace assay::model_tests
