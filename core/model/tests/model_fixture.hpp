// The model as the tests see it: opened by path, called through the table of exported names.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "assay/cuda/abi/driver_table.hpp"
#include "assay/cuda/abi/model_control.hpp"

namespace assay::cuda::model_test {

using namespace abi;

struct Library {
  void* handle = nullptr;
  DriverTable driver;  ///< by dlsym: a null pointer is a symbol that is not there
  const assay_model_control* control = nullptr;
};

/// Opened at the first use; not initialised.
inline const Library& library() {
  static const Library loaded = [] {
    Library model;
    model.handle = dlopen(ASSAY_MODEL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (model.handle == nullptr) {
      ADD_FAILURE() << dlerror();
      std::abort();
    }
#define ASSAY_DRIVER_FUNCTION(symbol, base, version, need, parameters) \
  model.driver.symbol =                                                \
      reinterpret_cast<decltype(model.driver.symbol)>(dlsym(model.handle, #symbol));
#include "assay/cuda/abi/driver_functions.def"
#undef ASSAY_DRIVER_FUNCTION
    const auto marker =
        reinterpret_cast<decltype(&assay_cuda_model)>(dlsym(model.handle, model_marker));
    model.control = marker();
    return model;
  }();
  return loaded;
}

inline const DriverTable& driver() {
  return library().driver;
}
inline const assay_model_control& control() {
  return *library().control;
}

/// Runs `body` in a process of its own, which loads the model anew and sees the environment set so
/// far; its expectations count.
inline void in_fresh_process(const std::function<void()>& body) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        body();
        std::exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

/// Does `body` end its process by an access fault?
inline void expect_access_fault(const std::function<void()>& body) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::signal(SIGSEGV, SIG_DFL);  // also under a sanitizer, which would report and exit
        body();
      },
      testing::KilledBySignal(SIGSEGV), "");
}

/// An environment variable for the scope.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() { unsetenv(name_); }

 private:
  const char* name_;
};

/// A file that is gone at the end of the scope. A fresh process runs its test from the beginning;
/// there the object stands for the same file, which stays its maker's.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& text = "") {
    static std::map<std::string, int> made;
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    std::string key = std::string("ASSAY_TEST_FILE_") + test.test_suite_name() + test.name();
    key += std::to_string(made[key]++);
    if (const char* path = std::getenv(key.c_str())) {
      path_ = path;
      return;
    }
    std::string name = testing::TempDir() + "assay-model-XXXXXX";
    const int fd = mkstemp(name.data());
    EXPECT_GE(fd, 0) << name;
    EXPECT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(fd);
    path_ = name;
    mine_ = true;
    setenv(key.c_str(), name.c_str(), 1);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile() {
    if (mine_) std::remove(path_.c_str());
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string text() const {
    std::string all;
    std::FILE* file = std::fopen(path_.c_str(), "r");
    for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) all += static_cast<char>(c);
    std::fclose(file);
    return all;
  }

 private:
  std::string path_;
  bool mine_ = false;
};

inline void expect_status(Status actual, unsigned expected, const char* call) {
  EXPECT_EQ(static_cast<unsigned>(actual), expected) << call;
}
#define EXPECT_STATUS(expected, call) \
  ::assay::cuda::model_test::expect_status(driver().call, expected, #call)

/// cuInit and the primary context of device 0, current on this thread.
inline Context start() {
  EXPECT_STATUS(0, cuInit(0));
  Context context = nullptr;
  EXPECT_STATUS(0, cuDevicePrimaryCtxRetain(&context, 0));
  EXPECT_STATUS(0, cuCtxSetCurrent(context));
  return context;
}

inline DevicePointer device_memory(std::size_t size) {
  DevicePointer address = 0;
  EXPECT_STATUS(0, cuMemAlloc_v2(&address, size));
  return address;
}

inline DevicePointer managed_memory(std::size_t size, unsigned flags = mem_attach_global) {
  DevicePointer address = 0;
  EXPECT_STATUS(0, cuMemAllocManaged(&address, size, flags));
  return address;
}

inline std::byte* host_view(DevicePointer address) {
  return reinterpret_cast<std::byte*>(address);
}

/// The text of the last diagnosis; empty if there is none.
inline std::string last_diagnosis() {
  const std::uint64_t count = control().diagnosis_count();
  return count == 0 ? "" : control().diagnosis(count - 1);
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace assay::cuda::model_test
