#include "assay/harness/driver_facts.hpp"

#include <cstdlib>
#include <filesystem>

#include <dlfcn.h>
#include <fmt/format.h>

#include "assay/cuda/driver.hpp"
#include "assay/harness/process.hpp"

namespace assay::harness {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* model_file = "libassay_cuda_model.so";

/// The model beside this program: in ../lib of its folder, as it is built and installed.
std::string model_path() {
  const std::filesystem::path program(this_program());
  return (program.parent_path().parent_path() / "lib" / model_file).string();
}

}  // namespace

std::string choose_driver(const std::string& driver, const std::string& profile) {
  std::string path = driver;
  if (driver == "model") path = model_path();
  if (!path.empty()) {
    std::error_code unreadable;
    // A bare name is the loader's to find, and so may be absent here.
    if (path.find('/') != std::string::npos && !std::filesystem::exists(path, unreadable)) {
      return fmt::format("--driver {}: there is no {}", driver, path);
    }
    ::setenv(cuda::Driver::path_variable, path.c_str(), 1);
  }
  if (!profile.empty()) ::setenv(cuda::abi::model_profile_variable, profile.c_str(), 1);
  return "";
}

Json driver_context() {
  Json context;
  const auto driver = cuda::Driver::instance();
  context["driver"] = "none";
  if (!driver) return context;
  const cuda::Driver& found = *driver.value();
  context["driver"] = found.kind();
  context["driver_version"] =
      fmt::format("{}.{}", found.version() / 1000, found.version() % 1000 / 10);
  const auto facts = found.device_facts(0);
  context["device_name"] = facts ? facts.value().name : "unknown";
  if (found.model() != nullptr) context["driver_profile"] = found.profile();
  return context;
}

std::string why_no_driver(ErrorCode code) {
  switch (code) {
    case ErrorCode::no_driver:
      return "no CUDA driver: install the NVIDIA driver, or name one in ASSAY_CUDA_DRIVER (the "
             "model verifies without a GPU)";
    case ErrorCode::no_device: return "no CUDA device: see CUDA_VISIBLE_DEVICES and nvidia-smi";
    case ErrorCode::driver_too_old: return "the CUDA driver is too old: update it to 11.8 or newer";
    case ErrorCode::not_supported: return "the device has no such memory";
    default: return "";
  }
}

bool driver_is_present() {
  const char* const named = std::getenv(cuda::Driver::path_variable);
  if (named != nullptr && *named != '\0') return true;
  // Only looked at, never run: RTLD_LAZY binds nothing, and the driver initialises in cuInit.
  void* const library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return false;
  ::dlclose(library);
  return true;
}

bool driver_is_model() {
  const auto driver = cuda::Driver::instance();
  return driver && driver.value()->model() != nullptr;
}

}  // namespace assay::harness
