// What a program leaves behind: its standard output and its files, none of which may be lost.
#pragma once

#include <functional>
#include <string>

#include "assay/base/result.hpp"

namespace assay::harness {

/// The frame of every program's `main`: runs `body`, sees that all of standard output was written,
/// and returns the exit code of `body`. Where output was lost it says so on standard error and
/// returns 2; where `body` throws it says what and returns 70.
[[nodiscard]] int run_program(const char* name, const std::function<int()>& body) noexcept;

/// Can `path` be written? Asked before a long run. **Errors** io, errno in `native`.
[[nodiscard]] Result<void> check_writable(const std::string& path);

/// Can files be made in the folder `path`, which may have to be made itself? **Errors** io, errno
/// in `native`.
[[nodiscard]] Result<void> check_folder(const std::string& path);

}  // namespace assay::harness
