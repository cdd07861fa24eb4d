// mapped_file: a window of a regular file, mapped instead of read.
#pragma once

#include <cstddef>
#include <span>

#include "assay/backing/file.hpp"

namespace assay {

namespace detail {
class WatchedMapping;
}

/// The Source of a private read-only mapping of a window: host access, no byte copied, pages come
/// at first touch. An opt-in, because a mapping is not a snapshot: what is written to the file in
/// place shows in it.
///
///     | head | memory() ................. |rest|       whole pages; offset and size need not be
///
/// **Change and truncation.** verify() and every copy out compare the file as File does, and say
/// source_changed. A page that the file no longer has never ends the process: at the first touch
/// of one, the mapping reads zero from that page to its end, for good, and says source_changed from
/// then on. So a span that was handed out may turn to zeros; whoever must know asks verify() after
/// the last look. A system call that is given such a page before anyone touched it fails with
/// EFAULT. A page that cannot be read from the disk is the same case.
///
/// For this, the first open of the process installs a handler of SIGBUS, which mends these pages
/// and hands every other SIGBUS to what was installed before. Who installs a handler later must
/// hand on to the one that it replaces.
///
/// **Invariants** never written: copies in and fills are not_supported. **Threads** safe from any
/// thread.
class MappedFile final : public Source {
 public:
  /// **Pre**, **Errors** as File::open; also io with errno if the file system cannot map, and
  /// out_of_memory. **Cost** three system calls, no byte read; two more the first time.
  [[nodiscard]] static Result<Ref<MappedFile>> open(const char* path,
                                                    FileRegion region = {}) noexcept;
  ~MappedFile() override;

  /// The window, at the address of its pages plus what the offset is past a page; empty, and null,
  /// for an empty window.
  [[nodiscard]] std::span<const std::byte> memory() const noexcept;
  /// As given to `open`.
  [[nodiscard]] const char* path() const noexcept override;

  static void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    return node_pool::allocate(size);
  }
  static void operator delete(void* node) noexcept {
    node_pool::deallocate(node, sizeof(MappedFile));
  }
  static void operator delete(void* node, const std::nothrow_t&) noexcept {
    node_pool::deallocate(node, sizeof(MappedFile));
  }

 private:
  explicit MappedFile(detail::OpenFileHandle file) noexcept;
  [[nodiscard]] Result<void> map() noexcept;
  [[nodiscard]] std::size_t head() const noexcept;
  [[nodiscard]] Result<void> verify_as(const char* feature, std::size_t requested) const noexcept;
  Freed do_deallocate(Block block, const Release& release) noexcept override;
  Result<void> do_verify(Block block) noexcept override;
  Result<void> do_copy_in(Block block, std::size_t offset,
                          std::span<const std::byte> from) noexcept override;
  Result<void> do_copy_out(Block block, std::size_t offset,
                           std::span<std::byte> to) noexcept override;
  Result<void> do_fill(Block block, std::size_t offset, std::size_t size,
                       std::byte value) noexcept override;

  detail::OpenFileHandle file_;
  std::span<std::byte> pages_{};  ///< the mapping, whole pages
  detail::WatchedMapping* watched_ = nullptr;
};

}  // namespace assay
