// OpenFile: a descriptor of a regular file, what the file was at open, and the window asked for.
#pragma once

#include <sys/stat.h>

#include <cstdint>

#include "assay/backing/file.hpp"

namespace assay::detail {

/// **Invariants** the window lay inside the file at open; nothing changes after that. **Threads**
/// safe from any thread.
class OpenFile {
 public:
  /// `id` names the source in errors. **Errors** as File::open.
  static Result<OpenFileHandle> open(const char* path, FileRegion region, const char* id) noexcept;
  static Result<OpenFileHandle> open(int descriptor, FileRegion region, const char* id) noexcept;
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] std::uint64_t offset() const noexcept { return region_.offset; }
  [[nodiscard]] std::uint64_t size() const noexcept { return region_.size; }
  [[nodiscard]] const char* path() const noexcept { return path_ ? path_.get() : ""; }

  /// Is the file what it was at open? **Errors** source_changed (`limit` is the file's size now),
  /// io. **Cost** one fstat, and a stat if only the time of status change moved.
  [[nodiscard]] Result<void> verify(const char* feature, std::uint64_t requested) const noexcept;
  /// The source_changed error for a reason.
  [[nodiscard]] Error changed(const char* feature, std::uint64_t requested,
                              const char* reason) const noexcept;

  static void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    return node_pool::allocate(size);
  }
  static void operator delete(void* node) noexcept {
    node_pool::deallocate(node, sizeof(OpenFile));
  }
  static void operator delete(void* node, const std::nothrow_t&) noexcept {
    node_pool::deallocate(node, sizeof(OpenFile));
  }

 private:
  explicit OpenFile(const char* id) noexcept : id_(id) {}
  [[nodiscard]] Result<void> keep_path(const char* path) noexcept;
  [[nodiscard]] Result<void> open_path() noexcept;
  [[nodiscard]] Result<void> duplicate(int descriptor) noexcept;
  [[nodiscard]] Result<void> check_kind() noexcept;
  [[nodiscard]] Result<void> place_window(FileRegion region) noexcept;
  [[nodiscard]] bool status_change_is_harmless(const struct stat& now) const noexcept;
  [[nodiscard]] Error failure(ErrorCode code, int native) const noexcept;
  [[nodiscard]] Error refusal(const char* reason, int native = 0) const noexcept;

  const char* id_;
  std::unique_ptr<char[]> path_;
  FileRegion region_{};
  int descriptor_ = -1;
  // What the file was at open.
  mode_t mode_ = 0;
  uid_t owner_ = 0;
  gid_t group_ = 0;
  nlink_t links_ = 0;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::uint64_t file_size_ = 0;
  timespec modified_{};
  timespec status_changed_{};
};

}  // namespace assay::detail
