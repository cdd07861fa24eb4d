#include "result_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "assay/harness/output.hpp"

namespace assay::bench {
namespace {

namespace fs = std::filesystem;

Error io_error(const char* feature, int native) {
  Error error = Error::make(ErrorCode::io, feature);
  error.native = native;
  return error;
}

/// A device, a pipe or a socket: it cannot be replaced by renaming, only written to.
bool is_special(const std::string& path) {
  struct stat facts{};
  return ::stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode);
}

Result<void> write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(fd, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return io_error("write", wrote < 0 ? errno : ENOSPC);
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return {};
}

Result<void> write_special(const std::string& path, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return io_error("open", errno);
  const auto wrote = write_all(fd, text);
  const bool closed = ::close(fd) == 0;
  if (!wrote) return wrote;
  if (!closed) return io_error("close", errno);
  return {};
}

Result<void> write_temporary(int fd, std::string_view text) {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ASSAY_TRY_VOID(write_all(fd, text));
  if (::fchmod(fd, 0666 & ~mask) != 0) return io_error("set the mode", errno);
  if (::fsync(fd) != 0) return io_error("write", errno);
  return {};
}

}  // namespace

Result<void> write_whole(const std::string& path, std::string_view text) {
  ASSAY_TRY_VOID(harness::check_writable(path));
  if (is_special(path)) return write_special(path, text);
  std::error_code ignored;
  // Through a symbolic link, the file it leads to is replaced, not the link.
  const fs::path target =
      fs::is_symlink(path, ignored) ? fs::weakly_canonical(path, ignored) : fs::path(path);
  std::string temporary = target.string() + ".XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return io_error("open", errno);
  Result<void> done = write_temporary(fd, text);
  if (::close(fd) != 0 && done) done = io_error("close", errno);
  if (done && ::rename(temporary.c_str(), target.c_str()) != 0) done = io_error("rename", errno);
  if (!done) ::unlink(temporary.c_str());
  return done;
}

}  // namespace assay::bench
