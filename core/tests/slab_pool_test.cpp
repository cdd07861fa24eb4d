#include "assay/backing/slab_pool.hpp"

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
  // 40 MB went through; the pool never held more than a chunk for each class it met.
  EXPECT_LE(probe->held_peak(), 8 * MiB);
}

// ub:W-57: zero is what was asked for, whatever the slot held, and nothing is zeroed twice.
TEST(SlabPool, ZeroesWhatMayBeDirtyAndNothingElse) {
  const auto pool = SlabPool::make(VirtualMemory::make());
  for (const std::size_t size : {std::size_t{100}, 5000 * std::size_t{1}, 400 * KiB, 3 * MiB}) {
    const Request zero{.size = size, .init = Init::zero};
    const Request undefined{.size = size};
    auto block = pool->allocate(zero).value();
    const auto before = pool->figures().zeroed_bytes;
    EXPECT_TRUE(all_bytes(*pool, block, 0, block.capacity, 0));
    fill_all(*pool, block, 0x5a);
    pool->deallocate(block, zero);
    block = pool->allocate(undefined).value();
    EXPECT_EQ(pool->figures().zeroed_bytes, before) << "undefined zeroes nothing";
    fill_all(*pool, block, 0x5a);
    pool->deallocate(block, undefined);
    block = pool->allocate(zero).value();
    EXPECT_TRUE(all_bytes(*pool, block, 0, block.capacity, 0));
    const auto after = pool->figures().zeroed_bytes;
    EXPECT_GE(after - before, size > MiB ? 0 : size);
    // Given back as zero, it is zero without another pass.
    pool->deallocate(block, Release{zero, true});
    block = pool->allocate(zero).value();
    EXPECT_EQ(pool->figures().zeroed_bytes, after);
    EXPECT_TRUE(all_bytes(*pool, block, 0, block.capacity, 0));
    pool->deallocate(block, zero);
  }
  EXPECT_GT(pool->figures().zeroed_bytes, 0u);
}

// The first blocks of a chunk that is fresh from a backing with zeroed_fresh need no pass.
TEST(SlabPool, FreshZeroIsNotZeroedAgain) {
  const auto pool = SlabPool::make(VirtualMemory::make());
  const Request request{.size = 1000, .init = Init::zero};
  std::vector<Block> blocks;
  for (int i = 0; i < 300; ++i) blocks.push_back(pool->allocate(request).value());
  EXPECT_EQ(pool->figures().zeroed_bytes, 0u);
  for (const Block& block : blocks) {
    EXPECT_TRUE(all_bytes(*pool, block, 0, block.capacity, 0));
    pool->deallocate(block, request);
  }
}

// A slot that was larger once is not known to be zero past what its new holder could vouch for.
TEST(SlabPool, KnownZeroCoversOnlyWhatItsHolderSaw) {
  const auto pool = SlabPool::make(VirtualMemory::make());
  const Request large{.size = 576};
  const Request small{.size = 528};  // of the same class
  const Request zero{.size = 576, .init = Init::zero};
  auto block = pool->allocate(large).value();
  fill_all(*pool, block, 0x5a);
  pool->deallocate(block, large);
  block = pool->allocate(small).value();
  ASSERT_TRUE(pool->fill(block, 0, block.capacity, std::byte{0}).has_value());
  pool->deallocate(block, Release{small, true});
  const auto again = pool->allocate(zero).value();
  ASSERT_EQ(again.address, block.address);
  EXPECT_TRUE(all_bytes(*pool, again, 0, again.capacity, 0));
  // The same by a shrink in place.
  fill_all(*pool, again, 0x5a);
  Request shrunk = zero;
  shrunk.size = 528;
  const auto less = pool->resize(again, zero, shrunk, MayMove::no).value();
  ASSERT_TRUE(pool->fill(less, 0, less.capacity, std::byte{0}).has_value());
  pool->deallocate(less, Release{shrunk, true});
  const auto last = pool->allocate(zero).value();
  ASSERT_EQ(last.address, block.address);
  EXPECT_TRUE(all_bytes(*pool, last, 0, last.capacity, 0));
  pool->deallocate(last, zero);
}

// fault:B-15, through slots that other blocks have dirtied, in place and by moving.
TEST(SlabPool, RegrowthReadsZero) {
  const auto pool = SlabPool::make(VirtualMemory::make());
  for (const std::size_t size : {std::size_t{1000}, 6144 * std::size_t{1}, 2 * MiB}) {
    for (const std::size_t alignment : {std::size_t{16}, std::size_t{1024}}) {
      const Request full{.size = size, .alignment = alignment, .init = Init::zero};
      const auto dirty = pool->allocate(full).value();
      fill_all(*pool, dirty, 0x5a);
      pool->deallocate(dirty, full);
      auto block = pool->allocate(full).value();
      fill_all(*pool, block, 0x5a);
      Request from = full;
      for (const std::size_t next : {size / 2, size / 2 + 1, size, size * 3, size, size * 4}) {
        Request to = full;
        to.size = next;
        const std::size_t kept = std::min(from.size, next);
        block = pool->resize(block, from, to, MayMove::yes).value();
        ASSERT_GE(block.capacity, next);
        ASSERT_TRUE(all_bytes(*pool, block, 0, kept, 0x5a)) << next;
        ASSERT_TRUE(all_bytes(*pool, block, kept, next, 0)) << next;
        ASSERT_TRUE(pool->fill(block, 0, block.capacity, std::byte{0x5a}).has_value());
        from = to;
      }
      pool->deallocate(block, from);
    }
  }
  EXPECT_EQ(pool->usage().live_bytes, 0u);
}

// fault:B-19: what is only cached is not in the way.
TEST(SlabPool, TrimsItselfWhenTheUpstreamRefuses) {
  const auto tenant = Tenant::make(MiB);
  const auto pool = SlabPool::make(Quota::make(tenant, VirtualMemory::make()));
  const Request half{.size = 512 * KiB};
  pool->deallocate(pool->allocate(half).value(), half);
  EXPECT_EQ(pool->figures().cached_bytes, 512 * KiB);
  const Request most{.size = 768 * KiB};
  pool->deallocate(pool->allocate(most).value(), most);
  EXPECT_EQ(pool->trim(0).value(), 768 * KiB);

  // A chunk of which one slot is live cannot go back: refused with all figures, nothing changed.
  const Request slot{.size = 32 * KiB};
  const auto kept = pool->allocate(slot).value();
  const auto freed = pool->allocate(slot).value();
  pool->deallocate(freed, slot);
  const auto usage = pool->usage();
  const auto account = tenant->account();
  const Request rest{.size = 960 * KiB};
  const auto refused = pool->allocate(rest);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::quota_exceeded);
  EXPECT_EQ(refused.error().requested, 960 * KiB);
  EXPECT_EQ(refused.error().limit, MiB);
  EXPECT_EQ(refused.error().in_use, 128 * KiB);
  EXPECT_EQ(refused.error().largest_free, MiB - 128 * KiB);
  EXPECT_EQ(pool->usage().live_bytes, usage.live_bytes);
  EXPECT_EQ(pool->usage().reserved_bytes, usage.reserved_bytes);
  EXPECT_EQ(tenant->account().charged, account.charged);
  EXPECT_EQ(pool->allocate(slot).value(), freed);
  pool->deallocate(kept, slot);
  pool->deallocate(freed, slot);
}

// fault:B-21: a steady pattern needs the upstream once, and an idle trim does nothing.
TEST(SlabPool, SteadyRoundsDoNotTouchTheUpstream) {
  const auto probe = Probe::make();
  const auto pool = SlabPool::make(probe);
  const Request request{.size = 1032};
  for (int round = 0; round < 5; ++round) {
    const auto one = pool->allocate(request).value();
    const auto two = pool->allocate(request).value();
    EXPECT_EQ(pool->trim(0).value(), 0u);
    pool->deallocate(one, request);
    pool->deallocate(two, request);
  }
  EXPECT_EQ(probe->allocations(), 1u);
  EXPECT_EQ(probe->frees(), 0u);
}

// fault:B-22: a refusal is only given when the exact size does not fit.
TEST(SlabPool, FallsBackToTheExactSize) {
  constexpr std::size_t unit = 32 * KiB;
  // Neither the class of the fourth block nor a chunk for the fifth fits in what is left then.
  const auto probe = Probe::make(100 * unit + 500'800 + 5008);
  const auto pool = SlabPool::make(probe);
  std::vector<Held> held;
  for (const std::size_t size :
       {50 * unit, 26 * unit, 24 * unit, std::size_t{500'790}, std::size_t{5000}}) {
    const Request request{.size = size, .init = Init::zero};
    const auto block = pool->allocate(request);
    ASSERT_TRUE(block.has_value()) << size;
    EXPECT_EQ(block.value().capacity, pool->footprint(request));
    EXPECT_TRUE(all_bytes(*pool, block.value(), 0, block.value().capacity, 0));
    held.push_back({block.value(), request});
  }
  EXPECT_EQ(probe->held_bytes(), 100 * unit + 500'800 + 5008);
  EXPECT_FALSE(pool->allocate({.size = 1}).has_value());
  // What was an exact block resizes like any other.
  auto& [block, request] = held[3];
  fill_all(*pool, block, 0x5a);
  Request less = request;
  less.size = unit;
  block = pool->resize(block, request, less, MayMove::no).value();
  block = pool->resize(block, less, request, MayMove::no).value();
  EXPECT_TRUE(all_bytes(*pool, block, 0, unit, 0x5a));
  EXPECT_TRUE(all_bytes(*pool, block, unit, request.size, 0));
  for (const auto& one : held) EXPECT_EQ(pool->deallocate(one.block, one.request), Freed::now);
  EXPECT_TRUE(pool->trim(0).has_value());
  EXPECT_EQ(probe->held_bytes(), 0u);
}

// fault:B-23: an upstream that refuses a free of the wrong size sees none.
TEST(SlabPool, FreesWithTheSizeItAskedFor) {
  const auto probe = Probe::make();
  {
    const auto pool = SlabPool::make(probe);
    std::vector<Held> held;
    for (const std::size_t size : {std::size_t{1}, 40 * KiB, MiB, MiB + 1, 5 * MiB + 7}) {
      for (const std::size_t alignment : {std::size_t{1}, std::size_t{256}, 64 * KiB}) {
        const Request request{.size = size, .alignment = alignment};
        held.push_back({pool->allocate(request).value(), request});
      }
    }
    for (std::size_t i = 0; i < held.size(); i += 2) {
      Request to = held[i].request;
      to.size = to.size * 2 + 1;
      held[i].block = pool->resize(held[i].block, held[i].request, to, MayMove::yes).value();
      held[i].request = to;
    }
    for (const auto& one : held) EXPECT_EQ(pool->deallocate(one.block, one.request), Freed::now);
  }  // destroyed with chunks cached
  EXPECT_EQ(probe->bad_frees(), 0u);
  EXPECT_EQ(probe->held_bytes(), 0u);
}

TEST(SlabPool, CountsFailedFrees) {
  const auto probe = Probe::make();
  const auto pool = SlabPool::make(probe);
  const Request direct{.size = 2 * MiB};
  const Request pooled{.size = 100};
  const auto large = pool->allocate(direct).value();
  const auto small = pool->allocate(pooled).value();
  probe->fail_frees = true;
  EXPECT_EQ(pool->deallocate(large, direct), Freed::failed);
  EXPECT_EQ(pool->deallocate(small, pooled), Freed::now);
  EXPECT_EQ(pool->trim(0).value(), 0u);
  EXPECT_EQ(pool->figures().failed_frees, 2u);
  EXPECT_EQ(pool->figures().failed_bytes, 2 * MiB + 128 * KiB);
  EXPECT_EQ(pool->usage().reserved_bytes, pool->figures().failed_bytes);
  EXPECT_EQ(pool->usage().live_blocks, 0u);
}

// fault:B-24: rounding is bounded, and all of it goes back.
TEST(SlabPool, RoundingStaysBelowAnEighth) {
  const auto pool = SlabPool::make(VirtualMemory::make());
  std::vector<std::size_t> sizes = {129 * MiB + MiB / 2, 617'558'016};
  for (std::size_t k = 20; k <= 33; ++k) sizes.push_back((std::size_t{1} << k) + 1);
  for (std::size_t k = 16; k < 20; ++k) sizes.push_back((std::size_t{1} << k) + 1);
  for (const std::size_t size : sizes) {
    const Request request{.size = size};
    const auto block = pool->allocate(request).value();
    const auto reserved = pool->usage().reserved_bytes;
    EXPECT_LE(static_cast<double>(reserved), 1.125 * static_cast<double>(size) + 16.0) << size;
    pool->deallocate(block, request);
    EXPECT_TRUE(pool->trim(0).has_value());
    EXPECT_EQ(pool->usage().reserved_bytes, 0u);
  }
}

TEST(SlabPool, KeepsNoMoreThanItMay) {
  const auto probe = Probe::make();
  const auto pool = SlabPool::make(probe, {.cached_max = MiB});
  std::vector<Held> held;
  for (std::size_t i = 0; i < 8; ++i) {
    const Request request{.size = 512 * KiB};
    held.push_back({pool->allocate(request).value(), request});
  }
  for (const auto& one : held) {
    pool->deallocate(one.block, one.request);
    EXPECT_LE(pool->figures().cached_bytes, MiB);
  }
  EXPECT_EQ(probe->held_bytes(), MiB);
}

TEST(SlabPool, CutsFreeChunksAnewForOtherClasses) {
  const auto probe = Probe::make();
  const auto pool = SlabPool::make(probe);
  constexpr std::size_t sizes[] = {16, 100, 1000, 10000, 30000, 16};
  for (const std::size_t size : sizes) {
    const Request request{.size = size, .init = Init::zero};
    const auto block = pool->allocate(request).value();
    EXPECT_TRUE(all_bytes(*pool, block, 0, block.capacity, 0)) << size;
    fill_all(*pool, block, 0x5a);
    pool->deallocate(block, request);
  }
  EXPECT_EQ(probe->allocations(), 1u);
}

// ub:W-51: a free of what is not live changes nothing and is counted.
TEST(SlabPool, RefusesFreesOfWhatIsNotLive) {
  const auto pool = SlabPool::make(Heap::make());
  ASSERT_TRUE(pool->can(Capabilities::detects_bad_free));
  const Request request{.size = 100};
  const Request direct{.size = 2 * MiB};
  const auto one = pool->allocate(request).value();
  const auto two = pool->allocate(request).value();
  const auto large = pool->allocate(direct).value();
  const auto before = pool->usage();
  for (const std::uint64_t address : {one.address + 16, one.address + 1, large.address + 4096,
                                      std::uint64_t{16}, one.address + 100 * 1024}) {
    EXPECT_EQ(pool->deallocate(Block{address, 112}, request), Freed::refused);
  }
  EXPECT_EQ(pool->usage().live_bytes, before.live_bytes);
  EXPECT_EQ(pool->deallocate(one, request), Freed::now);
  EXPECT_EQ(pool->deallocate(one, request), Freed::refused);
  EXPECT_EQ(pool->deallocate(large, direct), Freed::now);
  EXPECT_EQ(pool->deallocate(large, direct), Freed::refused);
  EXPECT_EQ(pool->figures().refused_frees, 7u);
  EXPECT_EQ(pool->usage().live_blocks, 1u);
  pool->deallocate(two, request);
}

// fault:B-11: sizes whose rounding would wrap are refused before the upstream is asked.
TEST(SlabPool, RefusesWhatCanNeverBeServed) {
  const auto probe = Probe::make();
  const auto pool = SlabPool::make(probe);
  for (std::size_t alignment = 1; alignment <= 4096; alignment *= 2) {
    for (const std::size_t size : {SIZE_MAX - 3, SIZE_MAX - 254, size_max}) {
      EXPECT_EQ(pool->allocate({.size = size, .alignment = alignment}).error().code,
                ErrorCode::too_large);
    }
  }
  EXPECT_EQ(probe->allocations(), 0u);
  const Request ordinary{.size = 64};
  pool->deallocate(pool->allocate(ordinary).value(), ordinary);
}

TEST(SlabPoolDeathTest, DestroyedWithLiveBlocksNamesCountAndBytes) {
  EXPECT_DEATH(
      {
        const auto pool = SlabPool::make(Heap::make());
        (void)pool->allocate({.size = 100});
      },
      "slab_pool destroyed with live blocks: 1 blocks, 112 bytes");
}

}  // namespace
}  // namespace assay
