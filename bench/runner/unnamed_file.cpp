#include "unnamed_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

namespace assay::bench {
namespace {

Error io_error(const char* feature, int native) {
  Error error = Error::make(ErrorCode::io, feature);
  error.native = native;
  return error;
}

}  // namespace

UnnamedFile::UnnamedFile() {
  std::error_code wrong;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(wrong);
  if (wrong) {
    error_ = io_error("temporary folder (TMPDIR)", wrong.value());
    return;
  }
  std::string name = (folder / "assay-bench-XXXXXX").string();
  descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor_ < 0) {
    error_ = io_error("make a file in the temporary folder (TMPDIR)", errno);
    return;
  }
  ::unlink(name.c_str());
  path_ = fmt::format("/proc/self/fd/{}", descriptor_);
}

UnnamedFile::~UnnamedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void UnnamedFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty() && error_.code == ErrorCode::none) {
    const ssize_t wrote = ::write(descriptor_, bytes.data(), bytes.size());
    if (wrote > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(wrote));
    } else if (wrote == 0 || errno != EINTR) {
      error_ =
          io_error("write a file in the temporary folder (TMPDIR)", wrote < 0 ? errno : ENOSPC);
    }
  }
}

}  // namespace assay::bench
