// DriverLoader: from a library's name to a Driver, by the rules of one place.
#pragma once

#include <optional>
#include <string>

#include "assay/cuda/driver.hpp"

namespace assay::cuda {

/// One attempt at loading. May throw std::bad_alloc; load() of Driver maps it.
class DriverLoader {
 public:
  explicit DriverLoader(LoadReport& report) noexcept : report_(report) {}
  Result<Ref<Driver>> load(const std::string& wanted);

  /// The error of a child forked after the driver was initialised, if this is one.
  static std::optional<Error> forked_error() noexcept;
  static Error fork_refused() noexcept;

 private:
  Result<void> open(const std::string& wanted);
  /// Everything before cuInit. A library refused here has run nothing and can be closed.
  Result<void> examine();
  Result<void> find_entries();
  Result<void> ask_version();
  void resolve_all();
  Result<void> check_required();
  Result<void> find_model();
  Result<void> initialise();

  [[nodiscard]] void* lookup(const char* symbol) const noexcept;
  /// The function of that base name and ABI version, or null; how it was found in `found_by`.
  void* resolve(const char* symbol, const char* base, int version, const char*& found_by) noexcept;
  Error refuse(ErrorCode code, const char* feature, const std::string& message) noexcept;
  Error refuse_stub();
  Error refuse_failed_lookup();

  LoadReport& report_;
  Ref<Driver> driver_;
  void* library_ = nullptr;
  bool stub_ = false;
  struct FailedLookup {
    const char* base = nullptr;
    abi::Status status{};
  };
  FailedLookup failed_lookup_;  ///< the first that failed otherwise than for want of the function
};

}  // namespace assay::cuda
