#include "arena.hpp"
#include "immortal.hpp"
#include "mutants.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace assay::cuda::model {

namespace {

constexpr std::size_t segment_bytes = std::size_t{32} << 20;
constexpr std::uint64_t quarantine_bytes_max = std::uint64_t{64} << 30;
constexpr std::size_t quarantine_segments_max = 4096;

struct Segment {
  std::byte* view = nullptr;
  std::byte* alias = nullptr;
  std::size_t size = 0;
  View access = View::device;
  std::uint64_t offset = 0;    ///< in the memory file
  std::size_t used = 0;        ///< bytes given out, from the front
  std::size_t packed_end = 0;  ///< where the page that takes small blocks ends; 0: none
  std::size_t packed_used = 0;
  std::uint64_t blocks = 0;  ///< not given back
  /// Blocks on pages that take small ones, by page: not closed, and not given back.
  struct OnPage {
    unsigned open = 0;
    unsigned held = 0;
  };
  std::unordered_map<std::size_t, OnPage> small;

  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(view); }
};

struct Arena {
  std::mutex mutex;
  int file = -1;
  std::uint64_t file_size = 0;
  std::map<std::uint64_t, std::unique_ptr<Segment>> segments;  ///< by address; not in quarantine
  std::array<Segment*, 3> open{};                              ///< by View: takes blocks
  struct Quarantined {
    std::byte* view;
    std::size_t size;
  };
  std::deque<Quarantined> quarantine;
  std::uint64_t quarantine_bytes = 0;
};

Arena& arena() {
  static Immortal<Arena> the_arena;
  return *the_arena;
}

bool drop_oldest(Arena& all) {
  if (all.quarantine.empty()) return false;
  const Arena::Quarantined oldest = all.quarantine.front();
  all.quarantine.pop_front();
  all.quarantine_bytes -= oldest.size;
  munmap(oldest.view, oldest.size);
  return true;
}

/// Maps a window of the memory file, giving up the quarantine for it if need be. Null on failure.
std::byte* map_window(Arena& all, std::uint64_t offset, std::size_t size, int protection) {
  for (;;) {
    void* at = mmap(nullptr, size, protection, MAP_SHARED | MAP_NORESERVE, all.file,
                    static_cast<off_t>(offset));
    if (at != MAP_FAILED) return static_cast<std::byte*>(at);
    if (!drop_oldest(all)) return nullptr;
  }
}

Segment* add_segment(Arena& all, View access, std::size_t size) {
  if (all.file < 0) all.file = memfd_create("assay-cuda-model", MFD_CLOEXEC);
  if (all.file < 0) return nullptr;
  const std::uint64_t offset = all.file_size;
  if (ftruncate(all.file, static_cast<off_t>(offset + size)) != 0) return nullptr;

  auto segment = std::make_unique<Segment>();
  segment->size = size;
  segment->access = access;
  segment->offset = offset;
  segment->view = map_window(all, offset, size, PROT_NONE);
  if (segment->view == nullptr) return nullptr;
  segment->alias = map_window(all, offset, size, PROT_READ | PROT_WRITE);
  if (segment->alias == nullptr) {
    munmap(segment->view, size);
    return nullptr;
  }
  all.file_size = offset + size;
  Segment* added = segment.get();
  all.segments.emplace(added->address(), std::move(segment));
  return added;
}

void punch(const Arena& all, const Segment& segment, std::size_t at, std::size_t size) {
  // If it fails, memory stays in use until the segment goes: nothing that the program could see.
  (void)fallocate(all.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(segment.offset + at), static_cast<off_t>(size));
}

bool is_open(const Arena& all, const Segment& segment) {
  for (const Segment* open : all.open) {
    if (open == &segment) return true;
  }
  return false;
}

/// Sends the segment into quarantine if it takes no more blocks and has none left.
void retire(Arena& all, Segment& segment) {
  if (segment.blocks != 0 || is_open(all, segment)) return;
  munmap(segment.alias, segment.size);
  punch(all, segment, 0, segment.size);
  mprotect(segment.view, segment.size, PROT_NONE);  // a page whose closing had failed
  all.quarantine.push_back({segment.view, segment.size});
  all.quarantine_bytes += segment.size;
  const std::uint64_t bytes_max = quarantine_limit();
  while (all.quarantine_bytes > bytes_max || all.quarantine.size() > quarantine_segments_max) {
    drop_oldest(all);
  }
  all.segments.erase(segment.address());
}

/// The segment of which `size` bytes in whole pages can be taken.
Segment* segment_for(Arena& all, View access, std::size_t size) {
  if (size > segment_bytes / 4) return add_segment(all, access, size);
  Segment*& open = all.open[static_cast<std::size_t>(access)];
  if (open != nullptr && open->size - open->used >= size) return open;
  Segment* const full = open;
  open = add_segment(all, access, segment_bytes);
  if (open == nullptr) {
    open = full;
    return nullptr;
  }
  if (full != nullptr) retire(all, *full);
  return open;
}

bool protect(const Segment& segment, std::size_t at, std::size_t size, bool open) {
  return mprotect(segment.view + at, size, open ? PROT_READ | PROT_WRITE : PROT_NONE) == 0;
}

/// Takes whole pages; their offset in `segment`.
std::optional<std::size_t> take_pages(Arena& all, View access, std::size_t size,
                                      Segment*& segment) {
  segment = segment_for(all, access, size);
  if (segment == nullptr) return std::nullopt;
  const std::size_t at = segment->used;
  const bool open = access != View::device || ASSAY_MODEL_BROKEN("device_memory_is_closed");
  if (open && !protect(*segment, at, size, true)) {
    if (!is_open(all, *segment)) retire(all, *segment);
    return std::nullopt;
  }
  segment->used += size;
  return at;
}

Block block_at(const Segment& segment, std::size_t at, std::size_t capacity) {
  return {segment.address() + at, segment.alias + at, capacity};
}

std::optional<Block> take_packed(Arena& all, View access, std::size_t capacity) {
  const std::size_t page = page_size();
  Segment* segment = all.open[static_cast<std::size_t>(access)];
  if (segment == nullptr || segment->packed_end - segment->packed_used < capacity) {
    const std::optional<std::size_t> at = take_pages(all, access, page, segment);
    if (!at) return std::nullopt;
    segment->packed_used = *at;
    segment->packed_end = *at + page;
  }
  const std::size_t at = segment->packed_used;
  segment->packed_used += capacity;
  Segment::OnPage& blocks = segment->small[at / page];
  ++blocks.open;
  ++blocks.held;
  ++segment->blocks;
  return block_at(*segment, at, capacity);
}

/// The segment of a block. Pre: the block is not given back.
Segment& segment_of(Arena& all, const Block& block) {
  return *std::prev(all.segments.upper_bound(block.address))->second;
}

}  // namespace

std::size_t page_size() noexcept {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

std::uint64_t quarantine_limit() noexcept {
  constexpr std::uint64_t share = 64;
  rlimit limit{};
  const bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return limited ? std::min(quarantine_bytes_max, limit.rlim_cur / share) : quarantine_bytes_max;
}

std::uint64_t quarantined_bytes() noexcept {
  Arena& all = arena();
  const std::scoped_lock lock(all.mutex);
  return all.quarantine_bytes;
}

std::optional<Block> take_block(View access, std::size_t size) {
  constexpr std::size_t size_max = std::size_t{1} << 47;
  if (size == 0 || size > size_max) return std::nullopt;
  Arena& all = arena();
  const std::scoped_lock lock(all.mutex);
  const std::size_t packed = round_up(size, block_alignment);
  if (access != View::host && packed < page_size()) return take_packed(all, access, packed);
  const std::size_t capacity = round_up(size, page_size());
  Segment* segment = nullptr;
  const std::optional<std::size_t> at = take_pages(all, access, capacity, segment);
  if (!at) return std::nullopt;
  ++segment->blocks;
  return block_at(*segment, *at, capacity);
}

void close_block(const Block& block) noexcept {
  Arena& all = arena();
  const std::scoped_lock lock(all.mutex);
  Segment& segment = segment_of(all, block);
  if (segment.access == View::device) return;  // was never open
  if (ASSAY_MODEL_BROKEN("freed_memory_is_closed")) return;
  const std::size_t at = block.address - segment.address();
  const std::size_t page = round_down(at, page_size());
  const auto packed = segment.small.find(page / page_size());
  if (packed == segment.small.end()) {
    protect(segment, at, block.capacity, false);
  } else if (--packed->second.open == 0) {
    protect(segment, page, page_size(), false);
    if (segment.packed_end == page + page_size()) segment.packed_end = segment.packed_used = 0;
  }
}

void give_back(const Block& block) noexcept {
  Arena& all = arena();
  const std::scoped_lock lock(all.mutex);
  Segment& segment = segment_of(all, block);
  const std::size_t at = block.address - segment.address();
  const std::size_t page = round_down(at, page_size());
  const auto packed = segment.small.find(page / page_size());
  if (packed == segment.small.end()) {
    punch(all, segment, at, block.capacity);
  } else if (--packed->second.held == 0 && segment.packed_end != page + page_size()) {
    punch(all, segment, page, page_size());
    segment.small.erase(packed);
  }
  --segment.blocks;
  retire(all, segment);
}

void protect_block(const Block& block, bool open) noexcept {
  Arena& all = arena();
  const std::scoped_lock lock(all.mutex);
  const Segment& segment = segment_of(all, block);
  const std::size_t at = block.address - segment.address();
  const std::size_t first = round_down(at, page_size());
  protect(segment, first, round_up(at + block.capacity, page_size()) - first, open);
}

std::uint64_t reserve_faulting(std::size_t size) noexcept {
  void* at = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? 0 : reinterpret_cast<std::uint64_t>(at);
}

void release_faulting(std::uint64_t address, std::size_t size) noexcept {
  munmap(reinterpret_cast<void*>(address), size);
}

}  // namespace assay::cuda::model
