// Contracts: misuse by the programmer stops the program, in release builds too.
#pragma once

namespace assay::detail {

/// Prints the broken contract with its place on standard error and aborts.
[[noreturn]] void contract_failed(const char* condition, const char* message, const char* file,
                                  int line) noexcept;

}  // namespace assay::detail

/// Checks a precondition that only a programming error can break. Cost: one predictable branch.
#define ASSAY_CONTRACT(condition, message)                                       \
  do {                                                                           \
    if (!(condition)) [[unlikely]] {                                             \
      ::assay::detail::contract_failed(#condition, message, __FILE__, __LINE__); \
    }                                                                            \
  } while (false)
