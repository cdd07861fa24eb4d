// Child processes: start, limit, wait, and collect what they said.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "assay/base/result.hpp"

namespace assay::harness {

struct ChildSpec {
  std::vector<std::string> arguments;                            ///< [0] is the path of the program
  std::vector<std::pair<std::string, std::string>> environment;  ///< added or replaced
  std::chrono::milliseconds timeout{0};  ///< 0: none. When it passes the child is killed.
  bool capture = true;                   ///< collect stdout and stderr; otherwise inherit both
  /// Called with each complete line of standard error while the child runs, if set.
  std::function<void(const std::string& line)> on_stderr_line{};
};

/// How a child ended.
struct ChildResult {
  enum class End { exited, signalled, timed_out } end = End::exited;
  int code = 0;  ///< exit status or signal number
  std::string standard_output;
  std::string standard_error;

  [[nodiscard]] bool succeeded() const noexcept { return end == End::exited && code == 0; }
  /// "exit 3", "killed by signal 11 (Segmentation fault)" or "timed out after 5000 ms".
  [[nodiscard]] std::string describe() const;
  std::chrono::milliseconds timeout{0};
};

/// Runs a child to its end; it does not outlive this process. **Errors** io if it cannot be started
/// (errno in `native`).
Result<ChildResult> run_child(const ChildSpec& spec);

/// Path of the running program.
[[nodiscard]] std::string this_program();

/// Path of a sibling program, such as "assay-preload-child": looked up in $ASSAY_LIBEXEC if that
/// is set, else beside the running program.
[[nodiscard]] std::string sibling_program(const std::string& name);

}  // namespace assay::harness
