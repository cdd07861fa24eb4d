#include "open_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

namespace assay::detail {
namespace {

constexpr const char* opening = "open file";

bool same_time(const timespec& a, const timespec& b) noexcept {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/// Why a file of this kind is refused, or null for a regular one.
const char* refused_kind(mode_t mode) noexcept {
  switch (mode & S_IFMT) {
    case S_IFREG: return nullptr;
    case S_IFDIR: return "a directory, not a regular file";
    case S_IFIFO: return "a FIFO, not a regular file";
    case S_IFSOCK: return "a socket, not a regular file";
    case S_IFCHR: return "a character device, not a regular file";
    case S_IFBLK: return "a block device, not a regular file";
    default: return "not a regular file";
  }
}

}  // namespace

void CloseFile::operator()(OpenFile* file) const noexcept {
  delete file;
}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Error OpenFile::failure(ErrorCode code, int native) const noexcept {
  Error error = Error::make(code, opening, id_);
  error.native = native;
  return error;
}

Error OpenFile::refusal(const char* reason, int native) const noexcept {
  Error error = failure(ErrorCode::invalid_argument, native);
  error.native_text = reason;
  return error;
}

Error OpenFile::changed(const char* feature, std::uint64_t requested,
                        const char* reason) const noexcept {
  Error error = Error::make(ErrorCode::source_changed, feature, id_, requested);
  error.native_text = reason;
  return error;
}

Result<OpenFileHandle> OpenFile::open(const char* path, FileRegion region,
                                      const char* id) noexcept {
  ASSAY_CONTRACT(path != nullptr, "open of no path");
  static_assert(sizeof(OpenFile) <= node_pool::large_node);
  OpenFileHandle file(new (std::nothrow) OpenFile(id));
  if (!file) return Error::make(ErrorCode::out_of_memory, opening, id, sizeof(OpenFile));
  ASSAY_TRY_VOID(file->keep_path(path));
  ASSAY_TRY_VOID(file->open_path());
  ASSAY_TRY_VOID(file->check_kind());
  ASSAY_TRY_VOID(file->place_window(region));
  return file;
}

Result<OpenFileHandle> OpenFile::open(int descriptor, FileRegion region, const char* id) noexcept {
  static_assert(sizeof(OpenFile) <= node_pool::large_node);
  OpenFileHandle file(new (std::nothrow) OpenFile(id));
  if (!file) return Error::make(ErrorCode::out_of_memory, opening, id, sizeof(OpenFile));
  ASSAY_TRY_VOID(file->duplicate(descriptor));
  ASSAY_TRY_VOID(file->check_kind());
  ASSAY_TRY_VOID(file->place_window(region));
  return file;
}

Result<void> OpenFile::keep_path(const char* path) noexcept {
  const std::size_t size = std::strlen(path) + 1;
  path_.reset(new (std::nothrow) char[size]);
  if (!path_) return Error::make(ErrorCode::out_of_memory, opening, id_, size);
  std::memcpy(path_.get(), path, size);
  return {};
}

/// O_NONBLOCK, so that no FIFO makes the open wait; it means nothing to the regular files kept.
Result<void> OpenFile::open_path() noexcept {
  constexpr int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  do {
    descriptor_ = ::open(path_.get(), flags);
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) return failure(ErrorCode::io, errno);
  return {};
}

Result<void> OpenFile::duplicate(int descriptor) noexcept {
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags < 0) return refusal("not an open descriptor", errno);
  if ((flags & O_PATH) != 0 || (flags & O_ACCMODE) == O_WRONLY) {
    return refusal("a descriptor that is not open for reading");
  }
  if ((flags & O_DIRECT) != 0) return refusal("a descriptor that reads past the page cache");
  descriptor_ = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (descriptor_ < 0) return failure(ErrorCode::io, errno);
  return {};
}

Result<void> OpenFile::check_kind() noexcept {
  struct stat at_open{};
  if (::fstat(descriptor_, &at_open) != 0) return failure(ErrorCode::io, errno);
  if (const char* const reason = refused_kind(at_open.st_mode)) return refusal(reason);
  mode_ = at_open.st_mode;
  owner_ = at_open.st_uid;
  group_ = at_open.st_gid;
  links_ = at_open.st_nlink;
  device_ = at_open.st_dev;
  inode_ = at_open.st_ino;
  file_size_ = static_cast<std::uint64_t>(at_open.st_size);
  modified_ = at_open.st_mtim;
  status_changed_ = at_open.st_ctim;
  return {};
}

/// No sum of the two figures is made, so none can wrap; the kernel's sizes are at most size_max.
Result<void> OpenFile::place_window(FileRegion region) noexcept {
  static_assert(sizeof(off_t) == 8 && size_max == INT64_MAX);
  const bool starts_inside = region.offset <= file_size_;
  const std::uint64_t rest = starts_inside ? file_size_ - region.offset : 0;
  if (starts_inside && region.size == FileRegion::to_end) region.size = rest;
  if (!starts_inside || region.size > rest) {
    Error error = failure(ErrorCode::out_of_range, 0);
    error.requested = starts_inside ? region.size : region.offset;
    error.limit = starts_inside ? rest : file_size_;
    error.native_text = starts_inside ? "the region's size passes the end of the file"
                                      : "the region's offset lies past the end of the file";
    return error;
  }
  region_ = region;
  return {};
}

/// Something else than a write explains that the time of status change moved.
bool OpenFile::status_change_is_harmless(const struct stat& now) const noexcept {
  if (now.st_nlink != links_ || now.st_mode != mode_ || now.st_uid != owner_ ||
      now.st_gid != group_) {
    return true;
  }
  if (!path_) return false;
  struct stat named{};
  return ::stat(path_.get(), &named) != 0 || named.st_dev != device_ || named.st_ino != inode_;
}

Result<void> OpenFile::verify(const char* feature, std::uint64_t requested) const noexcept {
  struct stat now{};
  if (::fstat(descriptor_, &now) != 0) {
    Error error = Error::make(ErrorCode::io, feature, id_, requested);
    error.native = errno;
    return error;
  }
  const auto size = static_cast<std::uint64_t>(now.st_size);
  const char* reason = nullptr;
  if (size != file_size_) {
    reason = "the file has another size than at open";
  } else if (!same_time(now.st_mtim, modified_)) {
    reason = "the file was modified since it was opened";
  } else if (now.st_dev != device_ || now.st_ino != inode_) {
    reason = "the descriptor leads to another file";
  } else if (!same_time(now.st_ctim, status_changed_) && !status_change_is_harmless(now)) {
    reason = "the file's status changed since it was opened";
  }
  if (reason == nullptr) return {};
  Error error = changed(feature, requested, reason);
  error.limit = size;
  return error;
}

}  // namespace assay::detail
