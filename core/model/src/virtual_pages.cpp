#include "virtual_pages.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <deque>
#include <mutex>

#include "arena.hpp"
#include "immortal.hpp"

namespace assay::cuda::model {

namespace {

struct Pages {
  std::mutex mutex;
  int file = -1;
  std::uint64_t file_size = 0;
  std::deque<Range> closed;  ///< freed reservations, which stay closed for a while
  std::uint64_t closed_bytes = 0;
};
Pages& pages() {
  static Immortal<Pages> the_pages;
  return *the_pages;
}

constexpr std::size_t closed_ranges_max = 256;

/// Pre: the lock is held, and something is closed.
void open_oldest(Pages& all) {
  const Range oldest = all.closed.front();
  all.closed.pop_front();
  all.closed_bytes -= oldest.size;
  munmap(pointer_at(oldest.address), oldest.size);
}

}  // namespace

void keep_closed(Range range) {
  Pages& all = pages();
  const std::scoped_lock lock(all.mutex);
  all.closed.push_back(range);
  all.closed_bytes += range.size;
  const std::uint64_t bytes_max = quarantine_limit();
  while (all.closed.size() > closed_ranges_max || all.closed_bytes > bytes_max) {
    open_oldest(all);
  }
}

std::uint64_t take_addresses(std::size_t size) noexcept {
  Pages& all = pages();
  for (;;) {
    const std::uint64_t address = reserve_faulting(size);
    if (address != 0) return address;
    const std::scoped_lock lock(all.mutex);
    if (all.closed.empty()) return 0;
    open_oldest(all);
  }
}

std::uint64_t take_aligned(std::size_t size, std::size_t alignment) noexcept {
  if (alignment > address_range_max) return 0;
  const std::uint64_t first = take_addresses(size + alignment);
  if (first == 0) return 0;
  const std::uint64_t address = round_up(first, alignment);
  if (address != first) release_faulting(first, address - first);
  release_faulting(address + size, first + alignment - address);
  return address;
}

bool take_window(std::size_t size, std::uint64_t& offset) noexcept {
  Pages& all = pages();
  const std::scoped_lock lock(all.mutex);
  if (all.file < 0) all.file = memfd_create("assay-cuda-model-physical", MFD_CLOEXEC);
  if (all.file < 0) return false;
  if (ftruncate(all.file, static_cast<off_t>(all.file_size + size)) != 0) return false;
  offset = all.file_size;
  all.file_size += size;
  return true;
}

void give_back_window(std::uint64_t offset, std::size_t size) noexcept {
  Pages& all = pages();
  const std::scoped_lock lock(all.mutex);
  // If it fails, the memory stays in use: nothing that the program could see.
  (void)fallocate(all.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(size));
}

std::byte* show_window(std::uint64_t offset, std::size_t size, std::byte* where) noexcept {
  const int fixed = where == nullptr ? 0 : MAP_FIXED;
  void* at = mmap(where, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | fixed,
                  pages().file, static_cast<off_t>(offset));
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

}  // namespace assay::cuda::model
