#include "assay/backing/mapped_file.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "assay/backing/external.hpp"
#include "assay/base/system.hpp"
#include "open_file.hpp"
#include "watched_mapping.hpp"

namespace assay {
namespace {

constexpr const char* mapped_id = "mapped_file";

SourceInfo mapped_info(std::size_t natural_alignment) noexcept {
  return {.id = mapped_id,
          .capabilities = Capabilities::host_access | Capabilities::thread_safe,
          .granularity = 1,
          .natural_alignment = natural_alignment};
}

}  // namespace

Result<Ref<MappedFile>> MappedFile::open(const char* path, FileRegion region) noexcept {
  static_assert(sizeof(MappedFile) <= node_pool::large_node);
  ASSAY_TRY(auto file, detail::OpenFile::open(path, region, mapped_id));
  auto made = Ref<MappedFile>::adopt(new (std::nothrow) MappedFile(std::move(file)));
  if (!made) {
    return Error::make(ErrorCode::out_of_memory, "open file", mapped_id, sizeof(MappedFile));
  }
  ASSAY_TRY_VOID(made->map());
  return made;
}

MappedFile::MappedFile(detail::OpenFileHandle file) noexcept
    : Source(mapped_info(1)), file_(std::move(file)) {}

MappedFile::~MappedFile() {
  if (watched_ != nullptr) watched_->unwatch();
  if (!pages_.empty()) ::munmap(pages_.data(), pages_.size());
}

/// Bytes between the first page and the window.
std::size_t MappedFile::head() const noexcept {
  return static_cast<std::size_t>(file_->offset() & (page_size() - 1));
}

Result<void> MappedFile::map() noexcept {
  if (file_->size() == 0) return {};
  // No sum wraps: the window lies inside a file, whose size is at most size_max.
  const auto size = static_cast<std::size_t>(file_->size());
  const std::size_t length = align_up(head() + size, page_size());
  void* const base = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, file_->descriptor(),
                            static_cast<off_t>(file_->offset() - head()));
  if (base == MAP_FAILED) {
    const int native = errno;
    const auto code = native == ENOMEM ? ErrorCode::out_of_memory : ErrorCode::io;
    Error error = Error::make(code, "map file", mapped_id, size);
    error.native = native;
    return error;
  }
  pages_ = {static_cast<std::byte*>(base), length};
  watched_ = detail::WatchedMapping::watch(pages_);
  if (watched_ == nullptr) {
    return Error::make(ErrorCode::out_of_memory, "map file", mapped_id, size);
  }
  set_info(mapped_info(external_alignment(memory().data())));
  return {};
}

std::span<const std::byte> MappedFile::memory() const noexcept {
  if (pages_.empty()) return {};
  return pages_.subspan(head(), static_cast<std::size_t>(file_->size()));
}

const char* MappedFile::path() const noexcept {
  return file_->path();
}

/// A mapping is no block of its own: the pages go with the last reference.
Freed MappedFile::do_deallocate(Block, const Release&) noexcept {
  return Freed::now;
}

Result<void> MappedFile::verify_as(const char* feature, std::size_t requested) const noexcept {
  if (watched_ != nullptr && watched_->torn()) {
    return file_->changed(feature, requested,
                          "a page could not be had: from it to the end the mapping reads zero");
  }
  return file_->verify(feature, requested);
}

Result<void> MappedFile::do_verify(Block) noexcept {
  return verify_as("verify file", 0);
}

Result<void> MappedFile::do_copy_out(Block block, std::size_t offset,
                                     std::span<std::byte> to) noexcept {
  ASSAY_TRY_VOID(verify_as("read file", to.size()));
  ASSAY_TRY_VOID(Source::do_copy_out(block, offset, to));
  return verify_as("read file", to.size());
}

Result<void> MappedFile::do_copy_in(Block, std::size_t, std::span<const std::byte> from) noexcept {
  return Error::make(ErrorCode::not_supported, "copy_in", mapped_id, from.size());
}

Result<void> MappedFile::do_fill(Block, std::size_t, std::size_t size, std::byte) noexcept {
  return Error::make(ErrorCode::not_supported, "fill", mapped_id, size);
}

}  // namespace assay
