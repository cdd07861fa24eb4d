// assay's kernels on the model: modules, launches, results, faults.
#include "assay/cuda/abi/kernels.hpp"

#include <limits>
#include <thread>

#include "stream_driver.hpp"

namespace assay::model_tests {
namespace {

class KernelTest : public DriverTest {
 protected:
  static constexpr std::size_t words = size / sizeof(std::uint64_t);

  KernelTest() { EXPECT_EQ(cu.cuModuleLoadData(&module_, kernel_ptx), Status::success); }

  Function function(const char* name) {
    Function found = nullptr;
    EXPECT_EQ(cu.cuModuleGetFunction(&found, module_, name), Status::success);
    return found;
  }
  template <class Parameters>
  Status launch(Parameters parameters, Stream stream, unsigned grid = 2, unsigned block = 64) {
    std::uint64_t copies[sizeof parameters / sizeof(std::uint64_t)];
    void* arguments[sizeof parameters / sizeof(std::uint64_t)];
    std::memcpy(copies, &parameters, sizeof parameters);
    for (std::size_t i = 0; i < std::size(copies); ++i) arguments[i] = &copies[i];
    const Status status = cu.cuLaunchKernel(function(Parameters::entry), grid, 1, 1, block, 1, 1, 0,
                                            stream, arguments, nullptr);
    std::memset(copies, 0xee, sizeof copies);  // the launch has copied them
    return status;
  }
  std::vector<std::uint64_t> words_at(DevicePointer address, std::size_t count) {
    std::vector<std::uint64_t> found(count);
    EXPECT_EQ(cu.cuMemcpyDtoH_v2(found.data(), address, count * sizeof(std::uint64_t)),
              Status::success);
    return found;
  }

  Module module_ = nullptr;
};

TEST_F(KernelTest, OnlyItsOwnTextIsLoaded) {
  Module other = nullptr;
  const std::string changed = std::string(kernel_ptx) + "\n";
  const std::string shorter(kernel_ptx, kernel_ptx_text.size() - 1);
  for (const char* foreign :
       {"", ".version 7.0\n.target sm_70\n", changed.c_str(), shorter.c_str()}) {
    EXPECT_EQ(cu.cuModuleLoadData(&other, foreign), Status::invalid_ptx);
  }
  EXPECT_EQ(cu.cuModuleLoadData(&other, nullptr), Status::invalid_value);
  EXPECT_EQ(cu.cuModuleLoadData(nullptr, kernel_ptx), Status::invalid_value);
  EXPECT_EQ(other, nullptr);
}

TEST_F(KernelTest, AModuleHasFourFunctions) {
  Function found = nullptr;
  EXPECT_EQ(cu.cuModuleGetFunction(&found, module_, "assay_sort"), Status::not_found);
  EXPECT_EQ(cu.cuModuleGetFunction(&found, nullptr, "assay_fill"), Status::invalid_handle);
  EXPECT_EQ(cu.cuModuleGetFunction(&found, module_, nullptr), Status::invalid_value);
  EXPECT_EQ(found, nullptr);
  for (const KernelSignature& signature : kernel_signatures) {
    EXPECT_NE(function(signature.entry), nullptr);
    EXPECT_EQ(function(signature.entry), function(signature.entry));
  }
}

TEST_F(KernelTest, AnUnloadedModuleTakesItsFunctionsAlong) {
  const std::uint64_t before = control.live_objects(assay_model_module);
  const Function fill = function("assay_fill");
  const DevicePointer at = device();
  EXPECT_EQ(cu.cuModuleUnload(module_), Status::success);
  EXPECT_EQ(control.live_objects(assay_model_module), before - 1);
  EXPECT_EQ(cu.cuModuleUnload(module_), Status::invalid_handle);
  Function found = nullptr;
  EXPECT_EQ(cu.cuModuleGetFunction(&found, module_, "assay_fill"), Status::invalid_handle);
  std::uint64_t values[4] = {at, 1, 0, 0};
  void* arguments[4] = {&values[0], &values[1], &values[2], &values[3]};
  EXPECT_EQ(cu.cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr),
            Status::invalid_handle);
  EXPECT_EQ(cu.cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr),
            Status::invalid_handle);
}

TEST_F(KernelTest, ALaunchRefusesWhatNoDeviceTakes) {
  const Function fill = function("assay_fill");
  std::uint64_t values[4] = {device(), 1, 0, 0};
  void* arguments[4] = {&values[0], &values[1], &values[2], &values[3]};
  struct Shape {
    unsigned grid[3], block[3], shared;
  };
  for (const Shape& bad :
       {Shape{{0, 1, 1}, {1, 1, 1}, 0}, Shape{{1, 0, 1}, {1, 1, 1}, 0},
        Shape{{1, 1, 1}, {1, 1, 0}, 0}, Shape{{1, 1, 1}, {1025, 1, 1}, 0},
        Shape{{1, 1, 1}, {512, 4, 1}, 0}, Shape{{1, 1, 1}, {1, 1, 65}, 0},
        Shape{{1, 65536, 1}, {1, 1, 1}, 0}, Shape{{0x80000000U, 1, 1}, {1, 1, 1}, 0},
        Shape{{1, 1, 1}, {1, 1, 1}, (48U << 10) + 1}}) {
    EXPECT_EQ(
        cu.cuLaunchKernel(fill, bad.grid[0], bad.grid[1], bad.grid[2], bad.block[0], bad.block[1],
                          bad.block[2], bad.shared, nullptr, arguments, nullptr),
        Status::invalid_value);
  }
  EXPECT_EQ(cu.cuLaunchKernel(fill, 1, 2, 1, 1, 1, 1, 0, nullptr, arguments, nullptr),
            Status::not_supported);
  EXPECT_EQ(cu.cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
            Status::invalid_value);
  EXPECT_EQ(cu.cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, arguments),
            Status::not_supported);
  arguments[2] = nullptr;
  EXPECT_EQ(cu.cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr),
            Status::invalid_value);
}

TEST_F(KernelTest, ALaunchNeedsItsContext) {
  Context second = nullptr;
  const Function fill = function("assay_fill");
  std::uint64_t values[4] = {device(), 1, 0, 0};
  void* arguments[4] = {&values[0], &values[1], &values[2], &values[3]};
  ASSERT_EQ(cu.cuCtxCreate_v2(&second, 0, 0), Status::success);
  EXPECT_EQ(cu.cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr),
            Status::invalid_handle);
  ASSERT_EQ(cu.cuCtxDestroy_v2(second), Status::success);
  ASSERT_EQ(cu.cuCtxSetCurrent(nullptr), Status::success);
  EXPECT_EQ(cu.cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr),
            Status::invalid_context);
  ASSERT_EQ(cu.cuCtxSetCurrent(context), Status::success);
}

TEST_F(KernelTest, FillRunsInStreamOrderWithTheArgumentsOfTheCall) {
  const DevicePointer at = device();
  const Stream mine = stream();
  EXPECT_EQ(cu.cuMemsetD8Async(at, 0xaa, size, mine), Status::success);
  EXPECT_EQ(launch(FillParameters{at, words - 1, 100, 3}, mine), Status::success);
  EXPECT_EQ(cu.cuStreamQuery(mine), Status::not_ready);
  sync(mine);
  const auto found = words_at(at, words);
  for (std::size_t i = 0; i + 1 < words; ++i) ASSERT_EQ(found[i], 100 + 3 * i);
  EXPECT_EQ(found[words - 1], 0xaaaaaaaaaaaaaaaaULL);
}

TEST_F(KernelTest, TouchReadsAndAddsByItsStride) {
  const DevicePointer at = device();
  const DevicePointer sum = device();
  const Stream mine = stream();
  EXPECT_EQ(cu.cuMemsetD8Async(at, 5, size, mine), Status::success);
  EXPECT_EQ(cu.cuMemsetD8Async(sum, 0, 8, mine), Status::success);
  EXPECT_EQ(launch(TouchParameters{at, 100, 33, 0x101, sum}, mine), Status::success);
  EXPECT_EQ(launch(TouchParameters{at, 100, 33, 0, sum}, mine), Status::success);
  EXPECT_EQ(launch(TouchParameters{at, 100, 33, 0, 0}, mine), Status::success);
  sync(mine);
  EXPECT_EQ(words_at(sum, 1)[0], 4 * 5 + 4 * 6U);  // bytes 0, 33, 66, 99
  const auto bytes = bytes_at(at, 134);
  EXPECT_EQ(bytes[33], 6);
  EXPECT_EQ(bytes[34], 5);
  EXPECT_EQ(bytes[132], 5);
  EXPECT_EQ(
      launch(TouchParameters{at, 10, std::numeric_limits<std::uint64_t>::max(), 0, sum}, mine),
      Status::success);
  sync(mine);
  EXPECT_EQ(words_at(sum, 1)[0], 44 + 6U);
}

TEST_F(KernelTest, ChecksumWeighsEachWord) {
  const DevicePointer at = device();
  auto* result = reinterpret_cast<std::uint64_t*>(pinned());
  *result = 1000;
  const Stream mine = stream();
  EXPECT_EQ(launch(FillParameters{at, 3, 10, 1}, mine), Status::success);
  EXPECT_EQ(launch(ChecksumParameters{at, 3, address_of(result)}, mine), Status::success);
  EXPECT_EQ(*result, 1000U);
  sync(mine);
  EXPECT_EQ(*result, 1000U + 10 * 1 + 11 * 3 + 12 * 5);
}

TEST_F(KernelTest, SpinWaitsForItsFlag) {
  auto* flag = reinterpret_cast<std::uint32_t*>(pinned());
  auto* result = flag + 1;
  const Stream mine = stream();
  const std::uint64_t an_hour = 3600ULL * 1000 * 1000 * 1000;
  EXPECT_EQ(launch(SpinParameters{address_of(flag), 2, an_hour, address_of(result)}, mine),
            Status::success);
  EXPECT_EQ(cu.cuStreamQuery(mine), Status::not_ready);
  EXPECT_EQ(cu.cuStreamQuery(mine), Status::not_ready);
  EXPECT_EQ(*result, 0U);
  std::thread opener([flag] { __atomic_store_n(flag, 2U, __ATOMIC_RELEASE); });
  sync(mine);
  opener.join();
  EXPECT_EQ(*result, spin_opened);
}

TEST_F(KernelTest, SpinGivesUp) {
  auto* flag = reinterpret_cast<std::uint32_t*>(pinned());
  auto* result = flag + 1;
  const Stream mine = stream();
  EXPECT_EQ(launch(SpinParameters{address_of(flag), 1, 1000, address_of(result)}, mine),
            Status::success);
  sync(mine);
  EXPECT_EQ(*result, spin_timed_out);
}

// A fault ends a context, so each of these has its own.
class KernelFaultTest : public KernelTest {
 protected:
  template <class Parameters>
  void expect_fault(Parameters parameters, Status code, const char* rule) {
    const Stream mine = stream();
    EXPECT_EQ(launch(parameters, mine), Status::success);
    EXPECT_EQ(cu.cuStreamSynchronize(mine), code);
    EXPECT_TRUE(diagnosed(rule));
    EXPECT_EQ(cu.cuCtxSynchronize(), code);
    DevicePointer out = 0;
    EXPECT_EQ(cu.cuMemAlloc_v2(&out, 1), code);
    ASSERT_EQ(cu.cuCtxDestroy_v2(context), Status::success);
    ASSERT_EQ(cu.cuCtxCreate_v2(&context, 0, 0), Status::success);
  }
};

TEST_F(KernelFaultTest, FreedMemory) {
  const DevicePointer gone = device();
  ASSERT_EQ(cu.cuMemFree_v2(gone), Status::success);
  expect_fault(FillParameters{gone, 1, 0, 0}, Status::illegal_address, "access_nowhere");
}

TEST_F(KernelFaultTest, PastTheEnd) {
  expect_fault(FillParameters{device(), words + 1, 0, 0}, Status::illegal_address,
               "access_nowhere");
}

TEST_F(KernelFaultTest, AResultThatIsNowhere) {
  expect_fault(ChecksumParameters{device(), words, 8}, Status::illegal_address, "access_nowhere");
}

TEST_F(KernelFaultTest, AFlagThatIsNowhere) {
  expect_fault(SpinParameters{8, 1, ~std::uint64_t{0}, 0}, Status::illegal_address,
               "access_nowhere");
}

TEST_F(KernelFaultTest, WordsThatAreMisaligned) {
  expect_fault(FillParameters{device() + 4, 1, 0, 0}, static_cast<Status>(716),
               "access_misaligned");
}

TEST_F(KernelFaultTest, AStrideOfZero) {
  expect_fault(TouchParameters{device(), 8, 0, 0, 0}, Status::launch_failed, "touch_stride");
}

}  // namespace
}  // namespace assay::model_tests
