#include "assay/harness/output.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <system_error>

#include <sys/stat.h>
#include <unistd.h>

namespace assay::harness {
namespace {

namespace fs = std::filesystem;

constexpr int exit_lost_output = 2;
constexpr int exit_internal = 70;

int lost_output(const char* program, const char* why) noexcept {
  std::fprintf(stderr, "%s: standard output cannot be written: %s\n", program, why);
  return exit_lost_output;
}

/// An exception of `body`; a failed write to standard output may have been its cause.
int uncaught(const char* program, const char* what) noexcept {
  if (std::ferror(stdout) != 0) return lost_output(program, what);
  std::fprintf(stderr, "%s: internal error: %s\n", program, what);
  return exit_internal;
}

Error cannot_open(int native) noexcept {
  Error error = Error::make(ErrorCode::io, "open");
  error.native = native;
  return error;
}

/// A device, a pipe or a socket: it cannot be replaced by renaming, only written to.
bool is_special(const std::string& path) {
  struct stat facts{};
  return ::stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode);
}

}  // namespace

int run_program(const char* name, const std::function<int()>& body) noexcept {
  try {
    const int code = body();
    errno = 0;
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
    return lost_output(name, errno != 0 ? std::strerror(errno) : "an earlier write failed");
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) return lost_output(name, std::strerror(error.code().value()));
    return uncaught(name, error.what());
  } catch (const std::exception& error) {
    return uncaught(name, error.what());
  } catch (...) {
    return uncaught(name, "an exception of unknown type");
  }
}

Result<void> check_writable(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return cannot_open(EISDIR);
  if (is_special(path)) {
    return ::access(path.c_str(), W_OK) == 0 ? Result<void>() : cannot_open(errno);
  }
  fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return cannot_open(errno);
  if (!fs::is_directory(folder, ignored)) return cannot_open(ENOTDIR);
  return {};
}

Result<void> check_folder(const std::string& path) {
  std::error_code error;
  fs::path nearest = fs::absolute(path, error);
  while (nearest.has_relative_path() && !fs::exists(nearest, error)) {
    nearest = nearest.parent_path();
  }
  if (!fs::is_directory(nearest, error)) return cannot_open(ENOTDIR);
  if (::access(nearest.c_str(), W_OK | X_OK) != 0) return cannot_open(errno);
  return {};
}

}  // namespace assay::harness
