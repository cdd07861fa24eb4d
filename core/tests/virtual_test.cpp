#include <cstdio>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "assay/backing/virtual_memory.hpp"
#include "assay/base/system.hpp"
#include "backing_probe.hpp"

namespace assay {
namespace {

using test::all_bytes;
using test::fill_all;

/// Pages of a range that the kernel holds memory for.
std::size_t resident_pages(std::uint64_t address, std::size_t size) {
  std::vector<unsigned char> pages(size / page_size());
  EXPECT_EQ(::mincore(reinterpret_cast<void*>(address), size, pages.data()), 0);
  return static_cast<std::size_t>(std::ranges::count_if(pages, [](auto one) { return one & 1; }));
}

/// Is any page of the range mapped?
bool mapped(std::uint64_t address, std::size_t size) {
  std::vector<unsigned char> pages(1);
  for (std::size_t at = 0; at < size; at += page_size()) {
    if (::mincore(reinterpret_cast<void*>(address + at), page_size(), pages.data()) == 0) {
      return true;
    }
  }
  return false;
}

// ub:W-07, fault:B-12
TEST(Virtual, ServesEveryAlignmentOfTheAddressUpToOneGiB) {
  const auto memory = VirtualMemory::make();
  for (std::size_t alignment = 1; alignment <= alignment_max; alignment *= 2) {
    for (const std::size_t size : {std::size_t{1}, page_size(), page_size() * 3 + 1}) {
      const Request request{.size = size, .alignment = alignment, .init = Init::zero};
      const auto one = memory->allocate(request).value();
      const auto two = memory->allocate(request).value();
      EXPECT_TRUE(is_aligned(one.address, alignment)) << alignment;
      EXPECT_TRUE(is_aligned(two.address, alignment)) << alignment;
      EXPECT_EQ(one.capacity, memory->footprint(request));
      EXPECT_EQ(one.capacity % page_size(), 0u);
      fill_all(*memory, one, 0x5a);
      EXPECT_TRUE(all_bytes(*memory, two, 0, two.capacity, 0));
      EXPECT_EQ(memory->deallocate(one, request), Freed::now);
      EXPECT_EQ(memory->deallocate(two, request), Freed::now);
      EXPECT_FALSE(mapped(two.address, two.capacity));
    }
  }
  EXPECT_EQ(memory->usage().live_bytes, 0u);
  EXPECT_EQ(memory->usage().reserved_bytes, 0u);
}

// ub:W-57: zero costs nothing on fresh pages, so none of them is touched.
TEST(Virtual, FreshZeroTouchesNoPage) {
  const auto memory = VirtualMemory::make();
  const Request request{.size = std::size_t{64} << 20, .init = Init::zero};
  const auto block = memory->allocate(request).value();
  EXPECT_EQ(resident_pages(block.address, block.capacity), 0u);
  memory->deallocate(block, request);
}

TEST(Virtual, GrowsInPlaceWithinItsReserveAndNeverMoves) {
  const auto memory = VirtualMemory::make();
  Request from{.size = 1, .reserve = std::size_t{1} << 30, .init = Init::zero};
  auto block = memory->allocate(from).value();
  const auto address = block.address;
  EXPECT_EQ(block.capacity, page_size());  // the reserve is address space, not memory
  EXPECT_EQ(memory->usage().reserved_bytes, from.reserve);
  for (const std::size_t size : {page_size(), page_size() * 100 + 1, from.reserve}) {
    Request to = from;
    to.size = size;
    block = memory->resize(block, from, to, MayMove::no).value();
    EXPECT_EQ(block.address, address);
    EXPECT_EQ(block.capacity, memory->footprint(to));
    EXPECT_EQ(memory->usage().live_bytes, block.capacity);
    from = to;
  }
  // Zeroed by hand were the tails of pages that the holder had, and nothing else was touched.
  EXPECT_LE(resident_pages(address, from.reserve), 2u);
  memory->deallocate(block, from);
}

// fault:B-15, ub:W-19: what a shrink left behind is neither kept nor seen again.
TEST(Virtual, ShrinkGivesPagesBackAndRegrowthReadsZero) {
  const auto memory = VirtualMemory::make();
  const std::size_t page = page_size();
  for (const std::size_t reserve : {std::size_t{0}, page * 64}) {
    const Request large{.size = page * 16, .reserve = reserve, .init = Init::zero};
    Request small = large;
    small.size = page * 3 + 100;
    const auto block = memory->allocate(large).value();
    fill_all(*memory, block, 0x5a);
    const auto shrunk = memory->resize(block, large, small, MayMove::no).value();
    EXPECT_EQ(shrunk.address, block.address);
    EXPECT_EQ(shrunk.capacity, page * 4);
    if (reserve != 0) {
      EXPECT_EQ(resident_pages(block.address, page * 16), 4u);
    } else {
      EXPECT_FALSE(mapped(block.address + page * 4, page * 12));
    }
    const auto grown = memory->resize(shrunk, small, large, MayMove::yes).value();
    EXPECT_TRUE(all_bytes(*memory, grown, 0, small.size, 0x5a));
    EXPECT_TRUE(all_bytes(*memory, grown, small.size, grown.capacity, 0));
    memory->deallocate(grown, large);
  }
  EXPECT_EQ(memory->usage().reserved_bytes, 0u);
}

TEST(Virtual, GrowthBeyondTheReserveMovesPagesAndKeepsTheAlignment) {
  const auto memory = VirtualMemory::make();
  const std::size_t page = page_size();
  for (const std::size_t alignment : {std::size_t{16}, page, page * 64}) {
    Request from{.size = page * 2, .alignment = alignment, .init = Init::zero};
    auto block = memory->allocate(from).value();
    fill_all(*memory, block, 0x5a);
    // Something right behind the block, so that it has to move.
    const auto wall = ::mmap(reinterpret_cast<void*>(block.address + block.capacity), page,
                             PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    Request to = from;
    to.size = page * 300;
    if (reinterpret_cast<std::uintptr_t>(wall) == block.address + block.capacity) {
      const auto refused = memory->resize(block, from, to, MayMove::no);
      ASSERT_FALSE(refused.has_value());
      EXPECT_EQ(refused.error().code, ErrorCode::not_supported);
      EXPECT_EQ(refused.error().limit, page * 2);
    }
    block = memory->resize(block, from, to, MayMove::yes).value();
    EXPECT_TRUE(is_aligned(block.address, alignment));
    EXPECT_TRUE(all_bytes(*memory, block, 0, page * 2, 0x5a));
    EXPECT_TRUE(all_bytes(*memory, block, page * 2, block.capacity, 0));
    EXPECT_EQ(memory->usage().live_bytes, block.capacity);
    memory->deallocate(block, to);
    ::munmap(wall, page);
  }
  EXPECT_EQ(memory->usage().live_blocks, 0u);
  EXPECT_EQ(memory->usage().reserved_bytes, 0u);
}

TEST(Virtual, HugePagesAreOnlyAHint) {
  const auto memory = VirtualMemory::make(VirtualMemory::HugePages::advised);
  const Request request{.size = std::size_t{8} << 20, .init = Init::zero};
  const auto block = memory->allocate(request).value();
  fill_all(*memory, block, 1);
  Request larger = request;
  larger.size *= 2;
  const auto grown = memory->resize(block, request, larger, MayMove::yes).value();
  EXPECT_TRUE(all_bytes(*memory, grown, 0, request.size, 1));
  EXPECT_TRUE(all_bytes(*memory, grown, request.size, larger.size, 0));
  memory->deallocate(grown, larger);
}

// fault:B-11, ub:W-05: too much is an error that says so, and nothing else changes.
TEST(Virtual, OutOfAddressSpaceIsAnError) {
  const auto memory = VirtualMemory::make();
  for (const std::size_t size : {SIZE_MAX, SIZE_MAX - 3, SIZE_MAX - 254, size_max}) {
    EXPECT_EQ(memory->allocate({.size = size}).error().code, ErrorCode::too_large);
  }
  const auto refused = memory->allocate({.size = std::size_t{1} << 60});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(refused.error().native, ENOMEM);
  EXPECT_TRUE(refused.error().retryable);
  EXPECT_EQ(memory->usage().reserved_bytes, 0u);
}

TEST(Virtual, AnAddressLimitIsAnErrorThatNamesIt) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto memory = VirtualMemory::make();
    std::size_t pages = 0;  // that the child has now, sanitizers' shadow included
    std::FILE* const statm = std::fopen("/proc/self/statm", "re");
    if (statm == nullptr || std::fscanf(statm, "%zu", &pages) != 1) ::_exit(2);
    const rlimit limit{pages * page_size() + (std::size_t{256} << 20), RLIM_INFINITY};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(3);
    const auto refused = memory->allocate({.size = std::size_t{1} << 30});
    const bool good = !refused && refused.error().code == ErrorCode::out_of_memory &&
                      refused.error().limit == limit.rlim_cur;
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(VirtualDeathTest, DestroyedWithLiveBlocksNamesCountAndBytes) {
  EXPECT_DEATH(
      {
        const auto memory = VirtualMemory::make();
        (void)memory->allocate({.size = 1});
        (void)memory->allocate({.size = 1});
      },
      "virtual destroyed with live blocks: 2 blocks, [0-9]+ bytes");
}

}  // namespace
}  // namespace assay
