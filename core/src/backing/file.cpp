#include "assay/backing/file.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "open_file.hpp"

namespace assay {
namespace {

constexpr const char* file_id = "file";
constexpr const char* reading = "read file";

/// The kernel brings at most 2 GiB less a page a call.
constexpr std::size_t piece_max = std::size_t{1} << 30;

/// Stands for "there is a block"; nothing lies there. A page, so that an offset in the window is
/// as aligned as it looks.
constexpr std::uint64_t nominal_address = 4096;

SourceInfo file_info() noexcept {
  return {.id = file_id,
          .capabilities = Capabilities::thread_safe,
          .granularity = 1,
          .natural_alignment = 1};
}

}  // namespace

Result<Ref<File>> File::open(const char* path, FileRegion region) noexcept {
  return make(detail::OpenFile::open(path, region, file_id));
}

Result<Ref<File>> File::open(int descriptor, FileRegion region) noexcept {
  return make(detail::OpenFile::open(descriptor, region, file_id));
}

Result<Ref<File>> File::make(Result<detail::OpenFileHandle> opened) noexcept {
  static_assert(sizeof(File) <= node_pool::large_node);
  ASSAY_TRY(auto file, std::move(opened));
  auto made = Ref<File>::adopt(new (std::nothrow) File(std::move(file)));
  if (!made) return Error::make(ErrorCode::out_of_memory, "open file", file_id, sizeof(File));
  return made;
}

File::File(detail::OpenFileHandle file) noexcept : Source(file_info()), file_(std::move(file)) {}

Block File::block() const noexcept {
  if (size() == 0) return {};
  return {nominal_address, static_cast<std::size_t>(size())};
}

std::uint64_t File::size() const noexcept {
  return file_->size();
}

const char* File::path() const noexcept {
  return file_->path();
}

File::Reads File::reads() const noexcept {
  return {calls_.load(std::memory_order_relaxed), bytes_.load(std::memory_order_relaxed)};
}

/// A window is no memory: the descriptor goes with the last reference.
Freed File::do_deallocate(Block, const Release&) noexcept {
  return Freed::now;
}

Result<void> File::do_verify(Block) noexcept {
  return file_->verify("verify file", 0);
}

Result<void> File::do_copy_out(Block, std::size_t offset, std::span<std::byte> to) noexcept {
  // The block is the caller's word; the window is what was checked.
  if (offset > size() || to.size() > size() - offset) {
    Error error = Error::make(ErrorCode::out_of_range, reading, file_id, to.size());
    error.limit = offset > size() ? 0 : size() - offset;
    return error;
  }
  ASSAY_TRY_VOID(file_->verify(reading, to.size()));
  ASSAY_TRY_VOID(read(offset, to));
  return file_->verify(reading, to.size());
}

Result<void> File::read(std::uint64_t offset, std::span<std::byte> to) noexcept {
  const std::size_t asked = to.size();
  while (!to.empty()) {
    const auto position = static_cast<off_t>(file_->offset() + offset);
    const ssize_t got =
        ::pread(file_->descriptor(), to.data(), std::min(to.size(), piece_max), position);
    const int native = errno;
    calls_.fetch_add(1, std::memory_order_relaxed);
    if (got < 0) {
      if (native == EINTR) continue;
      Error error = Error::make(ErrorCode::read_failed, reading, file_id, asked);
      error.native = native;
      return error;
    }
    if (got == 0) {
      ASSAY_TRY_VOID(file_->verify(reading, asked));
      return file_->changed(reading, asked, "the file ends before the size that it tells");
    }
    const auto part = static_cast<std::size_t>(got);
    bytes_.fetch_add(part, std::memory_order_relaxed);
    to = to.subspan(part);
    offset += part;
  }
  return {};
}

}  // namespace assay
