// Judge: what a scenario saw while a driver call failed, and whether that was right.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "assay/base/result.hpp"
#include "assay/cuda/abi/types.hpp"

namespace assay::sweep {

/// The code that one call is made to answer, once or from then on.
struct Injection {
  cuda::abi::Status code;
  bool sticky;

  [[nodiscard]] std::uint32_t number() const noexcept { return static_cast<std::uint32_t>(code); }
};

/// Collects what went wrong in a scenario. The scenario goes on after an error, as a program would.
class Judge {
 public:
  explicit Judge(Injection injection) noexcept : injection_(injection) {}

  /// True if the result is good; its error must be one that the injected code explains.
  template <class T>
  bool good(const Result<T>& result) {
    if (result) return true;
    blame(result.error());
    return false;
  }
  /// An operation that must be refused without a call of the driver.
  template <class T>
  void not_supported(const Result<T>& result, const char* what) {
    if (result || result.error().code != ErrorCode::not_supported || result.error().native != 0) {
      wrong(fmt::format("{}: {}", what, result ? "not refused" : describe(result.error())));
    }
  }
  void require(bool holds, const char* what) {
    if (!holds) wrong(what);
  }
  void wrong(const std::string& what) {
    if (what_.empty()) what_ = what;
  }

  [[nodiscard]] std::uint64_t errors() const noexcept { return errors_; }
  [[nodiscard]] const std::string& what() const noexcept { return what_; }

 private:
  /// Every error comes from the driver, and says so.
  void blame(const Error& error) {
    ++errors_;
    if (static_cast<std::uint32_t>(error.native) != injection_.number() ||
        error.native_name[0] == '\0') {
      wrong(fmt::format("an error without the driver's code: {}", describe(error)));
    }
    const bool memory = injection_.code == cuda::abi::Status::out_of_memory;
    if (memory != (error.code == ErrorCode::out_of_memory)) {
      wrong(fmt::format("code {} told as {}", injection_.number(), describe(error)));
    }
  }

  Injection injection_;
  std::uint64_t errors_ = 0;
  std::string what_;
};

}  // namespace assay::sweep
