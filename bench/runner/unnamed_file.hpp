// UnnamedFile: what a row reads, made by the row and gone with it, however the process ends.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "assay/base/error.hpp"

namespace assay::bench {

/// A file in the temporary folder that has no name there.
class UnnamedFile {
 public:
  /// **Errors** io, told by `error()`.
  UnnamedFile();
  ~UnnamedFile();
  UnnamedFile(const UnnamedFile&) = delete;
  UnnamedFile& operator=(const UnnamedFile&) = delete;

  /// Does nothing after an error. **Errors** io, told by `error()`.
  void append(std::span<const std::byte> bytes);

  /// The first error; of code `none` if there was none.
  [[nodiscard]] const Error& error() const noexcept { return error_; }
  /// Opens the file, in this process.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  int descriptor_ = -1;
  std::string path_;
  Error error_;
};

}  // namespace assay::bench
