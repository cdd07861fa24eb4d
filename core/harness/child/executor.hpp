// The executor: runs the commands of a shared case on an operations table, and nothing else.
#pragma once

#include "assay/harness/executor_ops.hpp"
#include "assay/harness/shared_case.hpp"

namespace assay::harness {

/// The values of ErrorCode, without the C++ library that its header needs.
enum ChildError : std::uint32_t {
  child_error_none,
#define ASSAY_ERROR_CODE(name, retryable, advice) child_error_##name,
#include "assay/base/error_codes.def"
#undef ASSAY_ERROR_CODE
};

/// What a child serves. No C++ runtime behind it: the preloaded child has none.
struct Provider {
  void* self = nullptr;
  /// Writes the facts. Called once, in the server, before the first fork.
  void (*describe)(void* self, SharedCase& shared) = nullptr;
  /// Makes the subject in the case's own process; nonzero is an ErrorCode.
  std::uint32_t (*open)(void* self, SharedCase& shared, assay_ops& ops) = nullptr;
  /// After the subject's end: writes what is left below it. May be null.
  void (*close)(void* self, SharedCase& shared) = nullptr;
};

/// Runs the case in this process. Returns the exit status of the process: 0 if it came to its end.
int execute_case(const Provider& provider, SharedCase& shared) noexcept;

/// Serves cases until the parent closes the control socket: forks once per case, so that each
/// starts from the same heap. Returns the exit status of the program.
///
/// Protocol over `control`, one byte each way: 'r' runs the case in the shared file; the answer is
/// its wait status (an int). The case's process is reaped at the next request or at the end, so
/// that its pid, which the parent may kill, is never another process's.
int serve_cases(const Provider& provider, int shared_fd, int control_fd) noexcept;

}  // namespace assay::harness
