// file: a window of a regular file, opened and checked at once, read on demand.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "assay/backing/source.hpp"
#include "assay/base/node_pool.hpp"

namespace assay {

/// A range of a file, in bytes.
struct FileRegion {
  static constexpr std::uint64_t to_end = UINT64_MAX;
  std::uint64_t offset = 0;
  std::uint64_t size = to_end;  ///< to_end: from `offset` to the end of the file as it is at open
};

namespace detail {
class OpenFile;
struct CloseFile {
  void operator()(OpenFile* file) const noexcept;
};
using OpenFileHandle = std::unique_ptr<OpenFile, CloseFile>;
}  // namespace detail

/// The Source of a window of a regular file: no host access, every copy out is a read.
///
///     path --open--> descriptor, identity            later reads never look at the path again
///                    | file ...... [ window ) ...... |
///                                  ^ offset 0 of block()
///
/// **What counts as the same file.** The descriptor keeps the file that was opened, so a path that
/// is unlinked, or renamed over by another file, changes nothing: the bytes stay those of the old
/// file. Before and after each read, and by verify(), the file is compared with what it was at
/// open; source_changed is for good, since nothing tells which bytes are still the old ones.
/// - Another size or time of modification is a change. So is a mere `touch`, which looks the same.
/// - A time of status change that moved alone is a change too, as it is what a write leaves that
///   sets the time of modification back, unless there is another reason for it: the number of
///   links, the mode or the owner differ, or the path no longer names this file (a rename moves
///   that time as well). Without a path only the former can be asked. So a change of the
///   extended attributes, or a link made and removed again, can be a false alarm.
/// - Not seen: a write within the clock tick of the file's last change before the open (kernels
///   before 6.13 stamp by the tick, 1 to 10 ms), one that sets the time back and also gives one of
///   the reasons above, and writes below the file system. No check of times can do more.
/// A file whose size the kernel gives as 0, like those of /proc, is an empty window.
///
/// **Invariants** `size()`, `path()` and the window never change. **Threads** safe from any thread;
/// reads share one descriptor and no position. **Errors** An Error holds static text only: for the
/// path ask `path()`, or the caller of `open`; `native` is the errno.
class File final : public Source {
 public:
  /// Opens the regular file at `path` for reading.
  /// **Pre** `path` is not null. **Errors** io with errno: it cannot be opened. invalid_argument:
  /// no regular file (`native_text` says what it is). out_of_range: `region` starts (`requested` is
  /// its offset) or ends (`requested` is its size) past the end; `limit` is what would have been
  /// right. out_of_memory. **Cost** two system calls, no byte read.
  [[nodiscard]] static Result<Ref<File>> open(const char* path, FileRegion region = {}) noexcept;
  /// As above, by a duplicate of a descriptor. **Errors** also invalid_argument: `descriptor` is
  /// none, not open for reading, or reads past the page cache (O_DIRECT).
  [[nodiscard]] static Result<Ref<File>> open(int descriptor, FileRegion region = {}) noexcept;

  /// The window: its address only tells that there is one, its offsets are offsets in the window.
  /// No block for an empty window.
  [[nodiscard]] Block block() const noexcept;
  [[nodiscard]] std::uint64_t size() const noexcept;
  /// As given to `open`; "" for a descriptor.
  [[nodiscard]] const char* path() const noexcept override;

  struct Reads {
    std::uint64_t calls = 0;  ///< pread system calls, failed ones included
    std::uint64_t bytes = 0;  ///< what they brought
  };
  [[nodiscard]] Reads reads() const noexcept;

  static void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    return node_pool::allocate(size);
  }
  static void operator delete(void* node) noexcept { node_pool::deallocate(node, sizeof(File)); }
  static void operator delete(void* node, const std::nothrow_t&) noexcept {
    node_pool::deallocate(node, sizeof(File));
  }

 private:
  explicit File(detail::OpenFileHandle file) noexcept;
  static Result<Ref<File>> make(Result<detail::OpenFileHandle> opened) noexcept;
  Freed do_deallocate(Block block, const Release& release) noexcept override;
  Result<void> do_verify(Block block) noexcept override;
  /// Reads straight into `to`. **Errors** source_changed, also for a file that ends early;
  /// read_failed with errno; then `to` may have been written.
  Result<void> do_copy_out(Block block, std::size_t offset,
                           std::span<std::byte> to) noexcept override;
  Result<void> read(std::uint64_t offset, std::span<std::byte> to) noexcept;

  detail::OpenFileHandle file_;
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace assay
