#include "assay/backing/virtual_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include <sys/mman.h>
#include <sys/resource.h>

#include "assay/base/system.hpp"
#include "live_blocks.hpp"

namespace assay {
namespace {

SourceInfo virtual_info() noexcept {
  return {.id = "virtual",
          .capabilities = Capabilities::host_access | Capabilities::thread_safe |
                          Capabilities::resize_in_place | Capabilities::resize_moves |
                          Capabilities::moves_pages | Capabilities::zeroed_fresh,
          .granularity = page_size(),
          .natural_alignment = page_size()};
}

/// Size of a transparent huge page, or 0 where the kernel has none.
std::size_t huge_page_size() noexcept {
  std::FILE* file = std::fopen("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "re");
  if (file == nullptr) return 0;
  std::uint64_t size = 0;
  const bool read = std::fscanf(file, "%" SCNu64, &size) == 1;
  std::fclose(file);
  return read && is_alignment(size) ? size : 0;
}

void* pointer_to(std::uint64_t address) noexcept {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

std::byte* at(void* base, std::size_t offset) noexcept {
  return static_cast<std::byte*>(base) + offset;
}

/// A mapping of `length` bytes at a multiple of `alignment`, or null with errno set. A mapping that
/// reserves more than it commits is not counted by the kernel's overcommit check, as no page of
/// the reserve may ever be touched.
void* map_aligned(std::size_t length, std::size_t alignment, bool reserves,
                  std::size_t page) noexcept {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (reserves ? MAP_NORESERVE : 0);
  const std::size_t padding = alignment > page ? alignment - page : 0;
  void* const base =
      ::mmap(nullptr, length + padding, PROT_READ | PROT_WRITE, flags, -1, 0);  // checked: no wrap
  if (base == MAP_FAILED) return nullptr;
  if (padding == 0) return base;
  const auto first = reinterpret_cast<std::uintptr_t>(base);
  const std::size_t head = align_up(first, alignment) - first;
  const std::size_t tail = padding - head;
  // Cutting a mapping can fail where the process has too many of them.
  const bool cut = (head == 0 || ::munmap(base, head) == 0) &&
                   (tail == 0 || ::munmap(at(base, head + length), tail) == 0);
  if (cut) return at(base, head);
  const int why = errno;
  ::munmap(base, length + padding);
  errno = why;
  return nullptr;
}

/// Gives pages back so that they read zero. Locked pages stay and are zeroed by hand.
void discard(std::byte* from, std::size_t size) noexcept {
  if (size == 0) return;
  if (::madvise(from, size, MADV_DONTNEED) != 0) std::memset(from, 0, size);
}

}  // namespace

Ref<VirtualMemory> VirtualMemory::make(HugePages huge_pages) {
  return Ref<VirtualMemory>::adopt(new VirtualMemory(huge_pages));
}

VirtualMemory::VirtualMemory(HugePages huge_pages) noexcept
    : Backing(virtual_info()),
      page_(page_size()),
      huge_page_(huge_pages == HugePages::advised ? huge_page_size() : 0) {}

VirtualMemory::~VirtualMemory() {
  const auto live = committed_.total();
  detail::check_none_live(info().id, live.blocks, live.bytes);
}

std::uint64_t VirtualMemory::failed_frees() const noexcept {
  return failed_frees_.load(std::memory_order_relaxed);
}

std::size_t VirtualMemory::mapping_size(const Request& request) const noexcept {
  return align_up(std::max(request.size, request.reserve), page_);
}

std::size_t VirtualMemory::placement(const Request& request) const noexcept {
  const bool huge = huge_page_ != 0 && mapping_size(request) >= huge_page_;
  return huge ? std::max(request.alignment, huge_page_) : request.alignment;
}

Error VirtualMemory::refusal(const char* feature, std::size_t requested, int native) noexcept {
  Error error = Error::make(ErrorCode::out_of_memory, feature, info().id, requested);
  error.native = native;
  error.in_use = committed_.total().bytes;
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    error.limit = limit.rlim_cur;
  }
  return error;
}

Block VirtualMemory::do_allocate(const Request& request, Error& error) noexcept {
  const std::size_t capacity = align_up(request.size, page_);
  const std::size_t length = mapping_size(request);
  const std::size_t alignment = placement(request);
  void* const base = map_aligned(length, alignment, length > capacity, page_);
  if (base == nullptr) {
    error = refusal("allocate", request.size, errno);
    return {};
  }
  // Only a hint: a kernel without huge pages serves small ones.
  if (huge_page_ != 0 && length >= huge_page_) ::madvise(base, length, MADV_HUGEPAGE);
  committed_.add(capacity);
  mapped_.add(length);
  return {reinterpret_cast<std::uintptr_t>(base), capacity};
}

Freed VirtualMemory::do_deallocate(Block block, const Release& release) noexcept {
  const std::size_t length = mapping_size(release.request);
  committed_.remove(block.capacity);
  if (::munmap(pointer_to(block.address), length) != 0) {
    failed_frees_.fetch_add(1, std::memory_order_relaxed);
    // Too many mappings, most likely: the range stays ours, but its pages can still go back.
    ::madvise(pointer_to(block.address), length, MADV_DONTNEED);
    return Freed::failed;
  }
  mapped_.remove(length);
  return Freed::now;
}

std::size_t VirtualMemory::do_footprint(const Request& request) const noexcept {
  return align_up(request.size, page_);
}

Usage VirtualMemory::do_usage() const noexcept {
  const auto committed = committed_.total();
  return {committed.blocks, committed.bytes, mapped_.total().bytes};
}

/// The base after growth, or null with `error` set and the mapping as before.
void* VirtualMemory::grow_mapping(void* base, const Request& from, const Request& to,
                                  MayMove may_move, Error& error) noexcept {
  const std::size_t old_length = mapping_size(from);
  const std::size_t new_length = mapping_size(to);
  if (::mremap(base, old_length, new_length, 0) != MAP_FAILED) return base;
  if (may_move == MayMove::no) {
    error = Error::make(ErrorCode::not_supported, "resize in place", info().id, to.size);
    error.native = errno;
    error.limit = old_length;
    return nullptr;
  }
  void* moved = MAP_FAILED;
  const std::size_t alignment = placement(to);
  if (alignment <= page_) {
    moved = ::mremap(base, old_length, new_length, MREMAP_MAYMOVE);
  } else if (void* const target = map_aligned(new_length, alignment, to.reserve > to.size, page_)) {
    moved = ::mremap(base, old_length, new_length, MREMAP_MAYMOVE | MREMAP_FIXED, target);
    if (moved == MAP_FAILED) {
      const int why = errno;
      ::munmap(target, new_length);
      errno = why;
    }
  }
  if (moved != MAP_FAILED) return moved;
  error = refusal("resize", to.size, errno);
  return nullptr;
}

Block VirtualMemory::do_resize(Block block, const Request& from, const Request& to,
                               MayMove may_move, Error& error) noexcept {
  void* base = pointer_to(block.address);
  const std::size_t old_length = mapping_size(from);
  const std::size_t new_length = mapping_size(to);
  const std::size_t capacity = align_up(to.size, page_);
  if (new_length > old_length) {
    base = grow_mapping(base, from, to, may_move, error);
    if (base == nullptr) return {};
    // A mapping that was too small for huge pages when it was made may hold some now.
    if (huge_page_ != 0 && new_length >= huge_page_) ::madvise(base, new_length, MADV_HUGEPAGE);
  } else if (new_length < old_length &&
             ::munmap(at(base, new_length), old_length - new_length) != 0) {
    error = refusal("resize", to.size, errno);
    return {};
  }
  if (capacity < block.capacity) {
    discard(at(base, capacity), std::min(block.capacity, new_length) - capacity);
  }
  // What was never exposed is zero; what the holder may have written is not.
  const std::size_t written = std::min(to.size, block.capacity);
  if (to.init == Init::zero && written > from.size) {
    std::memset(at(base, from.size), 0, written - from.size);
  }
  committed_.resize(block.capacity, capacity);
  mapped_.resize(old_length, new_length);
  return {reinterpret_cast<std::uintptr_t>(base), capacity};
}

}  // namespace assay
