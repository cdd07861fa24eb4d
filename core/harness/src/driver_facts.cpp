#include "assay/harness/driver_facts.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "assay/cuda/abi/model_control.hpp"
#include "assay/cuda/driver.hpp"
#include "assay/harness/die_with_parent.hpp"
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

/// What a process that loaded the driver tells of it.
struct Tidings {
  ErrorCode code = ErrorCode::driver_error;
  bool is_model = false;
  std::array<char, 1024> message{};
};

[[noreturn]] void load_and_tell(int pipe, pid_t parent) {
  die_with_parent(parent);
  constexpr unsigned patience_s = 60;  // as assay-doctor has
  ::alarm(patience_s);
  // What is wrong is told here, once; what the library prints would come twice.
  if (const int quiet = ::open("/dev/null", O_WRONLY | O_CLOEXEC); quiet >= 0) {
    ::dup2(quiet, STDERR_FILENO);
  }
  Tidings tidings;
  cuda::LoadReport report;
  const auto driver = cuda::Driver::load({}, &report);
  tidings.code = driver ? ErrorCode::none : driver.error().code;
  tidings.is_model = report.is_model;
  const std::string message = driver ? "" : report.message;
  std::memcpy(tidings.message.data(), message.data(),
              std::min(message.size(), tidings.message.size() - 1));
  (void)!::write(pipe, &tidings, sizeof tidings);
  ::_exit(0);
}

Tidings driver_tidings() {
  Tidings tidings;
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return tidings;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) load_and_tell(pipe[1], parent);
  ::close(pipe[1]);
  ssize_t got = -1;
  do {
    got = ::read(pipe[0], &tidings, sizeof tidings);
  } while (got < 0 && errno == EINTR);
  ::close(pipe[0]);
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (got == static_cast<ssize_t>(sizeof tidings)) return tidings;
  tidings = {};
  const std::string end = !WIFSIGNALED(status) ? "ended without an answer"
                          : WTERMSIG(status) == SIGALRM
                              ? "did not answer within a minute"
                              : fmt::format("was killed by signal {}", WTERMSIG(status));
  fmt::format_to_n(tidings.message.data(), tidings.message.size() - 1,
                   "the program that loaded it {}", end);
  return tidings;
}

const char* named_driver() {
  const char* const named = std::getenv(cuda::Driver::path_variable);
  return named != nullptr ? named : "";
}

}  // namespace

std::string wrong_with_named_driver(const std::string& profile) {
  const std::string named = named_driver();
  if (named.empty() && profile.empty()) return "";
  const Tidings tidings = driver_tidings();
  const std::string message(tidings.message.data());
  switch (tidings.code) {
    case ErrorCode::none:
    case ErrorCode::no_device:
    case ErrorCode::driver_too_old:
      if (profile.empty() || tidings.is_model) return "";
      return fmt::format(
          "--profile {}: the driver is no model, and only the model has profiles "
          "(--driver model)",
          profile);
    case ErrorCode::no_driver:
      if (named.empty()) {
        return fmt::format(
            "--profile {}: no driver is named, and only the model has profiles "
            "(--driver model)",
            profile);
      }
      break;
    default: break;
  }
  if (named.empty()) return fmt::format("the CUDA driver cannot be used: {}", message);
  return fmt::format("the CUDA driver that {} names, {}, cannot be used: {}",
                     cuda::Driver::path_variable, named, message);
}

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
  context["driver_version"] = cuda::version_text(found.version());
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

std::string model_profile_names() {
  std::string names;
  for (const char* each : cuda::abi::model_profiles) {
    names += (names.empty() ? "" : ", ") + std::string(each);
  }
  return names;
}

bool driver_is_present() {
  if (*named_driver() != '\0') return true;
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
