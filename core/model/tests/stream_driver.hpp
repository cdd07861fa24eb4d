// The model as a program sees it, for the tests of streams, copies and kernels: the driver's table,
// a context of the test's own, and child processes for what ends one.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "assay/cuda/abi/driver_table.hpp"
#include "assay/cuda/abi/model_control.hpp"

namespace assay::model_tests {

using namespace cuda::abi;

/// The model, opened once.
struct Model {
  DriverTable cu;
  const assay_model_control* control = nullptr;

  Model() {
    void* library = dlopen(ASSAY_MODEL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      ADD_FAILURE() << dlerror();
      return;
    }
#define ASSAY_DRIVER_FUNCTION(symbol, base, version, need, parameters) \
  cu.symbol = reinterpret_cast<decltype(cu.symbol)>(dlsym(library, #symbol));
#include "assay/cuda/abi/driver_functions.def"
#undef ASSAY_DRIVER_FUNCTION
    const auto marker = reinterpret_cast<decltype(&assay_cuda_model)>(dlsym(library, model_marker));
    if (marker != nullptr) control = marker();
  }
};

inline Model& model() {
  static Model the_model;
  return the_model;
}

/// Has a diagnosis of this rule been made?
inline bool diagnosed(std::string_view rule) {
  const assay_model_control& control = *model().control;
  for (std::uint64_t i = 0; i < control.diagnosis_count(); ++i) {
    if (std::string_view(control.diagnosis(i)).find(rule) != std::string_view::npos) return true;
  }
  return false;
}

/// What all tests, here and in child processes, do with the driver.
class Driver {
 public:
  static constexpr std::size_t size = 4096;

  Driver() {
    EXPECT_EQ(cu.cuInit(0), Status::success);
    EXPECT_EQ(cu.cuCtxCreate_v2(&context, 0, 0), Status::success);
    control.forget_diagnoses();
  }

  DevicePointer device(std::size_t bytes = size) {
    DevicePointer address = 0;
    EXPECT_EQ(cu.cuMemAlloc_v2(&address, bytes), Status::success);
    return address;
  }
  DevicePointer managed(unsigned flags = mem_attach_global, std::size_t bytes = size) {
    DevicePointer address = 0;
    EXPECT_EQ(cu.cuMemAllocManaged(&address, bytes, flags), Status::success);
    return address;
  }
  /// Zeroed, so that what a copy has not written shows.
  std::uint8_t* pinned(std::size_t bytes = size) {
    void* address = nullptr;
    EXPECT_EQ(cu.cuMemHostAlloc(&address, bytes, 0), Status::success);
    if (address != nullptr) std::memset(address, 0, bytes);
    return static_cast<std::uint8_t*>(address);
  }
  Stream stream(unsigned flags = stream_non_blocking) {
    Stream made = nullptr;
    EXPECT_EQ(cu.cuStreamCreate(&made, flags), Status::success);
    return made;
  }
  Event event(unsigned flags = 0) {
    Event made = nullptr;
    EXPECT_EQ(cu.cuEventCreate(&made, flags), Status::success);
    return made;
  }
  void sync(Stream stream) { EXPECT_EQ(cu.cuStreamSynchronize(stream), Status::success); }
  /// The bytes of device memory as they are once everything is done.
  std::vector<std::uint8_t> bytes_at(DevicePointer address, std::size_t count = size) {
    EXPECT_EQ(cu.cuCtxSynchronize(), Status::success);
    std::vector<std::uint8_t> bytes(count);
    EXPECT_EQ(cu.cuMemcpyDtoH_v2(bytes.data(), address, count), Status::success);
    return bytes;
  }
  static DevicePointer address_of(const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer);
  }
  static std::vector<std::uint8_t> filled(std::uint8_t value, std::size_t count = size) {
    return std::vector<std::uint8_t>(count, value);
  }

  DriverTable& cu = model().cu;
  const assay_model_control& control = *model().control;
  Context context = nullptr;
};

/// A closed gate in a stream, on a word of pinned memory.
class Gate {
 public:
  Gate(Driver& driver, Stream stream) : word_(reinterpret_cast<std::uint32_t*>(driver.pinned())) {
    EXPECT_EQ(
        driver.cu.cuStreamWaitValue32_v2(stream, Driver::address_of(word_), 1, wait_value_geq),
        Status::success);
  }
  void open() { __atomic_store_n(word_, 1U, __ATOMIC_RELEASE); }
  [[nodiscard]] DevicePointer address() const { return Driver::address_of(word_); }

 private:
  std::uint32_t* word_;
};

class DriverTest : public testing::Test, protected Driver {
 protected:
  ~DriverTest() override {
    control.open_gates();
    EXPECT_EQ(cu.cuCtxDestroy_v2(context), Status::success);
  }
};

// --- Child processes, for other profiles and for what ends a process ---

inline constexpr int touched_memory_faulted = 42;

/// From now on a bad access ends this process with that code, whichever sanitizer watches it.
inline void exit_on_fault() {
  for (const int signal : {SIGSEGV, SIGBUS}) {
    std::signal(signal, [](int) { _exit(touched_memory_faulted); });
  }
}

/// Of a child process: the model will play this profile, which is a name or the text of a file.
inline void play(const std::string& profile) {
  std::string value = profile;
  if (profile.find('=') != std::string::npos) {
    std::string path = (std::filesystem::temp_directory_path() / "assay-profile-XXXXXX").string();
    const int fd = mkstemp(path.data());
    if (fd < 0) std::abort();
    close(fd);
    std::ofstream(path) << profile << "\n";
    value = path;
  }
  setenv(model_profile_variable, value.c_str(), 1);
  static_cast<void>(model());
  if (value != profile) std::filesystem::remove(value);
}

/// Ends a child process: 0 if all its expectations held.
[[noreturn]] inline void leave() {
  std::exit(testing::Test::HasFailure() ? 1 : 0);
}

/// Runs `body` in a child process that starts anew, so that it opens the model itself.
#define ASSAY_EXPECT_CHILD(body, code)                        \
  do {                                                        \
    GTEST_FLAG_SET(death_test_style, "threadsafe");           \
    EXPECT_EXIT((body)(), testing::ExitedWithCode(code), ""); \
  } while (false)

}  // namespace assay::model_tests
