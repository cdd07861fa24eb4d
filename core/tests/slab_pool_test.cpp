#include "assay/backing/slab_pool.hpp"

#include <set>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "assay/backing/quota.hpp"
#include "assay/backing/virtual_memory.hpp"
#include "assay/base/system.hpp"
#include "backing_probe.hpp"

namespace assay {
namespace {

using test::all_bytes;
using test::fill_all;
using test::Probe;

constexpr std::size_t KiB = 1024;
constexpr std::size_t MiB = KiB * KiB;

struct Held {
  Block block;
  Request request;
};

// ub:W-07, fault:B-12: in a fresh pool and in one whose slots were all used before.
TEST(SlabPool, AlignsTheAddressAndKeepsItAligned) {
  const auto pool = SlabPool::make(VirtualMemory::make());
  for (int round = 0; round < 2; ++round) {
    std::vector<Held> held;
    for (std::size_t alignment = 8; alignment <= 2 * MiB; alignment *= 2) {
      for (const std::size_t size : {alignment - 1, alignment, alignment + 1}) {
        for (int copy = 0; copy < 3; ++copy) {
          const Request request{.size = size, .alignment = alignment};
          const auto block = pool->allocate(request).value();
          ASSERT_TRUE(is_aligned(block.address, alignment)) << size << " at " << alignment;
          ASSERT_EQ(block.capacity, pool->footprint(request));
          held.push_back({block, request});
        }
      }
    }
    for (auto& [block, request] : held) {
      const std::size_t alignment = request.alignment;
      for (const std::size_t size :
           {std::size_t{1}, alignment, alignment + 1, 8 * alignment, alignment}) {
        Request to = request;
        to.size = size;
        block = pool->resize(block, request, to, MayMove::yes).value();
        ASSERT_TRUE(is_aligned(block.address, alignment)) << size << " at " << alignment;
        request = to;
      }
      ASSERT_EQ(pool->deallocate(block, request), Freed::now);
    }
  }
  EXPECT_EQ(pool->usage().live_bytes, 0u);
}

// ub:W-58: what was freed last is used first, and the upstream is not asked again.
TEST(SlabPool, ReusesFreedBlocksAtOnce) {
  const auto probe = Probe::make();
  const auto pool = SlabPool::make(probe);
  for (const std::size_t size : {std::size_t{24}, 5 * KiB, 300 * KiB}) {
    const Request request{.size = size};
    const auto one = pool->allocate(request).value();
    const auto two = pool->allocate(request).value();
    const auto calls = probe->allocations();
    pool->deallocate(one, request);
    pool->deallocate(two, request);
    EXPECT_EQ(pool->allocate(request).value(), two);
    EXPECT_EQ(pool->allocate(request).value(), one);
    EXPECT_EQ(probe->allocations(), calls);
    pool->deallocate(one, request);
    pool->deallocate(two, request);
  }
}

// Ten times the slab goes through without a reset (perf.md P6).
TEST(SlabPool, HoldsNoMoreThanItsPeakForEver) {
  const auto probe = Probe::make();
  const auto pool = SlabPool::make(probe);
  std::vector<Held> held;
  for (std::size_t step = 0; step < 20000; ++step) {
    const Request request{.size = 16 + step * 37 % 4000};
    held.push_back({pool->allocate(request).value(), request});
    if (held.size() == 50) {
      for (const auto& one : held) pool->deallocate(one.block, one.request);
      held.clear();
    }
  }
  for (const auto& one : held) pool->deallocate(one.block, one.request);
  EXPECT_LE(probe->held_peak(), 100 * slab_rounding_probe());
}

}  // namespace
}  // namespace assay
