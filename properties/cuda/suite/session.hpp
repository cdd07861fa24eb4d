// Session: the driver as a test finds it, loaded only as far as the test wants.
#pragma once

#include <expected>
#include <string>

#include "suite/test.hpp"

namespace assay::conformance {

struct Session {
  cuda::abi::DriverTable table{};
  const assay_model_control* model = nullptr;
  int version = 0;
  bool initialised = false;
  Ref<cuda::Driver> driver;   ///< null if unloaded
  cuda::DeviceFacts facts{};  ///< of device 0, once initialised
  cuda::abi::Context context = nullptr;

  [[nodiscard]] bool has(cuda::Feature feature) const noexcept;
};

/// Why there is no session.
struct NoSession {
  bool nothing_to_run = false;  ///< no library or no device: the normal state without a GPU
  /// The library that was named is none, or no driver, or a model that cannot be as it is told.
  bool unusable = false;
  std::string why;
};

/// Loads the driver at `path` (empty: $ASSAY_CUDA_DRIVER, else libcuda.so.1) as far as `start`.
[[nodiscard]] std::expected<Session, NoSession> open_session(const std::string& path, Start start);

/// Why the test cannot run here, or empty.
[[nodiscard]] std::string unmet(const Needs& needs, const Session& session);

}  // namespace assay::conformance
