#include "assay/backing/zero_cache.hpp"

#include <sys/mman.h>

#include <gtest/gtest.h>

#include "assay/backing/by_size.hpp"
#include "assay/backing/quota.hpp"
#include "assay/backing/virtual_memory.hpp"
#include "assay/base/system.hpp"
#include "backing_probe.hpp"
#include "checking_backing.hpp"

namespace assay {
namespace {

using test::all_bytes;
using test::CheckingBacking;
using test::fill_all;
using test::Probe;

constexpr std::size_t KiB = 1024;
constexpr std::size_t MiB = KiB * KiB;

/// Pages of a block that exist.
std::size_t resident_pages(Block block) {
  std::vector<unsigned char> pages(block.capacity / page_size());
  EXPECT_EQ(::mincore(reinterpret_cast<void*>(block.address), block.capacity, pages.data()), 0);
  return static_cast<std::size_t>(std::ranges::count_if(pages, [](auto one) { return one & 1; }));
}

TEST(ZeroCache, ServesWhatWasFreedLastFirst) {
  const auto probe = Probe::make();
  const auto cache = ZeroCache::make(probe);
  for (const std::size_t size : {64 * KiB, 100'000 * std::size_t{1}, MiB, 16 * MiB}) {
    const Request request{.size = size};
    const auto one = cache->allocate(request).value();
    const auto two = cache->allocate(request).value();
    EXPECT_EQ(one.capacity, cache->footprint(request));
    const auto calls = probe->allocations();
    EXPECT_EQ(cache->deallocate(one, request), Freed::now);
    EXPECT_EQ(cache->deallocate(two, request), Freed::now);
    EXPECT_EQ(cache->allocate(request).value(), two);
    EXPECT_EQ(cache->allocate(request).value(), one);
    EXPECT_EQ(probe->allocations(), calls);
    cache->deallocate(one, request);
    cache->deallocate(two, request);
    EXPECT_TRUE(cache->trim(0).has_value());
  }
  EXPECT_EQ(cache->figures().hits, 8u);
  EXPECT_EQ(cache->figures().misses, 8u);
  EXPECT_EQ(probe->held_bytes(), 0u);
  EXPECT_EQ(probe->bad_frees(), 0u);
}

TEST(ZeroCache, RoundingStaysBelowAnEighth) {
  const auto probe = Probe::make();
  const auto cache = ZeroCache::make(probe, {.block_min = 256});
  for (std::size_t power = 8; power <= 23; ++power) {
    for (std::size_t eighth = 8; eighth < 16; ++eighth) {
      for (const std::size_t more : {std::size_t{0}, std::size_t{1}}) {
        const Request request{.size = (eighth << (power - 3)) + more};
        const auto block = cache->allocate(request).value();
        EXPECT_EQ(block.capacity, align_up(request.size, 16));
        EXPECT_LE(probe->held_bytes() * 8, request.size * 9 + 8 * 16) << request.size;
        cache->deallocate(block, request);
        // Any size of the same class is served by that block, so the waste is bounded for them too.
        EXPECT_EQ(cache->allocate(request).value(), block) << request.size;
        cache->deallocate(block, request);
        EXPECT_TRUE(cache->trim(0).has_value());
      }
    }
  }
}

TEST(ZeroCache, PassesOnWhatItDoesNotKeep) {
  const auto probe = Probe::make();
  const auto cache = ZeroCache::make(probe);
  for (const Request& request :
       {Request{.size = 100}, Request{.size = 64 * KiB - 1}, Request{.size = 16 * MiB + 1},
        Request{.size = MiB, .reserve = MiB}}) {
    EXPECT_EQ(cache->deallocate(cache->allocate(request).value(), request), Freed::now);
    EXPECT_EQ(probe->held_bytes(), 0u) << request.size;
  }
  EXPECT_EQ(cache->figures().misses, 0u);
}

// perf.md U1, U3: a block that nobody wrote costs no pass and no page, however often it is used.
TEST(ZeroCache, BlocksKnownToBeZeroCostNoPassAndNoPage) {
  const auto cache = ZeroCache::make(VirtualMemory::make());
  for (const std::size_t size : {64 * KiB, MiB, 16 * MiB}) {
    const Request request{.size = size, .init = Init::zero};
    const auto first = cache->allocate(request).value();
    EXPECT_EQ(resident_pages(first), 0u);
    cache->deallocate(first, Release{request, true});
    const auto again = cache->allocate(request).value();
    EXPECT_EQ(again, first);
    EXPECT_EQ(resident_pages(again), 0u);
    // One page written and wiped by its holder: that one exists, and no other.
    ASSERT_TRUE(cache->fill(again, 0, page_size(), std::byte{0x5a}).has_value());
    ASSERT_TRUE(cache->fill(again, 0, page_size(), std::byte{0}).has_value());
    cache->deallocate(again, Release{request, true});
    const auto last = cache->allocate(request).value();
    EXPECT_EQ(last, first);
    EXPECT_EQ(resident_pages(last), 1u);
    EXPECT_TRUE(all_bytes(*cache, last, 0, last.capacity, 0));
    cache->deallocate(last, request);
  }
  EXPECT_EQ(cache->figures().zeroed_bytes, 0u);
  EXPECT_EQ(cache->figures().zero_hits, 6u);
}

// fault:B-14: zero is what was asked for, whatever the block held.
TEST(ZeroCache, OtherBlocksAreZeroedUpToOneMiBAndLeftAloneAbove) {
  const auto probe = Probe::make();
  const auto cache = ZeroCache::make(probe);
  for (const std::size_t size : {100'000 * std::size_t{1}, MiB, MiB + 1, 3 * MiB}) {
    const Request undefined{.size = size};
    const Request zero{.size = size, .init = Init::zero};
    const bool by_hand = size <= MiB;
    const auto dirty = cache->allocate(undefined).value();
    fill_all(*cache, dirty, 0x5a);
    cache->deallocate(dirty, undefined);
    const auto before = cache->figures();
    const auto zeros_asked = probe->zero_requests();
    const auto block = cache->allocate(zero).value();
    EXPECT_TRUE(all_bytes(*cache, block, 0, block.capacity, 0));
    EXPECT_EQ(block == dirty, by_hand);
    EXPECT_EQ(probe->zero_requests() - zeros_asked, by_hand ? 0u : 1u);
    EXPECT_EQ(cache->figures().zeroed_bytes > before.zeroed_bytes, by_hand);
    EXPECT_EQ(cache->figures().zero_hits, before.zero_hits);
    fill_all(*cache, block, 0x5a);
    cache->deallocate(block, zero);
    const auto written = cache->figures().zeroed_bytes;
    cache->deallocate(cache->allocate(undefined).value(), undefined);
    EXPECT_EQ(cache->figures().zeroed_bytes, written) << "undefined zeroes nothing";
    EXPECT_TRUE(cache->trim(0).has_value());
  }
}

TEST(ZeroCache, UndefinedTakesTheOthersFirst) {
  const auto cache = ZeroCache::make(VirtualMemory::make());
  const Request undefined{.size = MiB};
  const Request zero{.size = MiB, .init = Init::zero};
  const auto dirty = cache->allocate(undefined).value();
  const auto clean = cache->allocate(zero).value();
  cache->deallocate(dirty, undefined);
  cache->deallocate(clean, Release{zero, true});
  EXPECT_EQ(cache->figures().cached_zero_bytes, clean.capacity);
  EXPECT_EQ(cache->allocate(undefined).value(), dirty);
  EXPECT_EQ(cache->allocate(undefined).value(), clean);
  cache->deallocate(dirty, undefined);
  cache->deallocate(clean, Release{undefined, true});
  EXPECT_EQ(cache->allocate(zero).value(), clean) << "it still reads zero";
  cache->deallocate(clean, zero);
  EXPECT_EQ(cache->figures().cached_zero_bytes, 0u);
}

// What a smaller holder could not see is not known to be zero by its word.
TEST(ZeroCache, KnownZeroCoversOnlyWhatItsHolderSaw) {
  const auto cache = ZeroCache::make(VirtualMemory::make());
  const Request large{.size = 640 * KiB};
  const Request small{.size = 580 * KiB};  // of the same class
  const Request zero{.size = 640 * KiB, .init = Init::zero};
  const auto block = cache->allocate(large).value();
  fill_all(*cache, block, 0x5a);
  cache->deallocate(block, large);
  const auto less = cache->allocate(small).value();
  ASSERT_EQ(less.address, block.address);
  ASSERT_TRUE(cache->fill(less, 0, less.capacity, std::byte{0}).has_value());
  cache->deallocate(less, Release{small, true});
  const auto again = cache->allocate(zero).value();
  ASSERT_EQ(again, block);
  EXPECT_TRUE(all_bytes(*cache, again, 0, again.capacity, 0));
  // The same by a shrink in place.
  fill_all(*cache, again, 0x5a);
  Request shrunk = zero;
  shrunk.size = small.size;
  const auto cut = cache->resize(again, zero, shrunk, MayMove::no).value();
  ASSERT_TRUE(cache->fill(cut, 0, cut.capacity, std::byte{0}).has_value());
  cache->deallocate(cut, Release{shrunk, true});
  const auto last = cache->allocate(zero).value();
  ASSERT_EQ(last, block);
  EXPECT_TRUE(all_bytes(*cache, last, 0, last.capacity, 0));
  cache->deallocate(last, zero);
}

TEST(ZeroCache, KeepsNoMoreThanItMayAndLetsTheOldestGo) {
  const auto probe = Probe::make();
  const auto cache = ZeroCache::make(probe, {.cached_max = MiB});
  std::vector<Block> blocks;
  const Request request{.size = 256 * KiB};
  for (int i = 0; i < 6; ++i) blocks.push_back(cache->allocate(request).value());
  for (const Block& block : blocks) {
    EXPECT_EQ(cache->deallocate(block, request), Freed::now);
    EXPECT_LE(cache->figures().cached_bytes, MiB);
  }
  EXPECT_EQ(probe->held_bytes(), MiB);
  for (std::size_t i = 6; i-- > 2;) EXPECT_EQ(cache->allocate(request).value(), blocks[i]);
  for (std::size_t i = 6; i-- > 2;) cache->deallocate(blocks[i], request);
  // What is larger than all of it is not kept.
  const Request larger{.size = MiB + 1};
  EXPECT_EQ(cache->deallocate(cache->allocate(larger).value(), larger), Freed::now);
  EXPECT_EQ(cache->figures().cached_bytes, MiB);
  EXPECT_EQ(cache->trim(512 * KiB).value(), 512 * KiB);
  EXPECT_EQ(cache->figures().cached_blocks, 2u);
  EXPECT_EQ(cache->trim(0).value(), 512 * KiB);
  EXPECT_EQ(probe->held_bytes(), 0u);
  EXPECT_EQ(probe->bad_frees(), 0u);
}

TEST(ZeroCache, TellsWhatIsLiveAndWhatIsHeld) {
  const auto cache = ZeroCache::make(Heap::make());
  const Request request{.size = 70'000};
  const Request small{.size = 100};
  const auto block = cache->allocate(request).value();
  const auto other = cache->allocate(small).value();
  EXPECT_EQ(cache->usage().live_blocks, 2u);
  EXPECT_EQ(cache->usage().live_bytes, block.capacity + other.capacity);
  EXPECT_EQ(cache->usage().reserved_bytes, 72 * KiB + other.capacity);
  EXPECT_EQ(cache->held_by(block), cache->charge(request));
  cache->deallocate(block, request);
  EXPECT_EQ(cache->usage().live_bytes, other.capacity);
  EXPECT_EQ(cache->usage().reserved_bytes, 72 * KiB + other.capacity);
  cache->deallocate(other, small);
  EXPECT_EQ(cache->usage().live_blocks, 0u);
  EXPECT_TRUE(cache->trim(0).has_value());
  EXPECT_EQ(cache->usage().reserved_bytes, 0u);
}

// fault:B-19: what is only cached is not in the way, of small requests neither.
TEST(ZeroCache, TrimsItselfWhenTheUpstreamRefuses) {
  const auto tenant = Tenant::make(MiB);
  const auto cache = ZeroCache::make(Quota::make(tenant, Heap::make()));
  const Request half{.size = 512 * KiB};
  for (const std::size_t size : {768 * KiB, 1000 * KiB, MiB}) {
    cache->deallocate(cache->allocate(half).value(), half);
    EXPECT_EQ(cache->figures().cached_bytes, 512 * KiB);
    const Request most{.size = size};
    const auto block = cache->allocate(most);
    ASSERT_TRUE(block.has_value()) << size;
    EXPECT_EQ(block.value().capacity, size);
    cache->deallocate(block.value(), most);
    EXPECT_TRUE(cache->trim(0).has_value());
  }
  const Request rest{.size = MiB - 32 * KiB};
  cache->deallocate(cache->allocate(rest).value(), rest);
  const Request small{.size = 60 * KiB};
  cache->deallocate(cache->allocate(small).value(), small);
  EXPECT_EQ(cache->figures().cached_bytes, 0u);
  // Growth asks for room too.
  cache->deallocate(cache->allocate(half).value(), half);
  const auto block = cache->allocate({.size = 256 * KiB}).value();
  const auto grown =
      cache->resize(block, {.size = 256 * KiB}, {.size = 700 * KiB}, MayMove::yes).value();
  cache->deallocate(grown, {.size = 700 * KiB});

  // Refused with all figures, and nothing has changed.
  EXPECT_TRUE(cache->trim(0).has_value());
  const auto kept = cache->allocate(half).value();
  const auto refused = cache->allocate({.size = 600 * KiB});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::quota_exceeded);
  EXPECT_EQ(refused.error().requested, 600 * KiB);
  EXPECT_EQ(tenant->account().charged, 512 * KiB);
  cache->deallocate(kept, half);
}

TEST(ZeroCache, RefusesFreesOfWhatIsNotLive) {
  const auto probe = Probe::make();
  const auto cache = ZeroCache::make(probe);
  const Request request{.size = MiB};
  const auto block = cache->allocate(request).value();
  EXPECT_EQ(cache->deallocate({block.address + 64, block.capacity}, request), Freed::refused);
  EXPECT_EQ(cache->deallocate(block, request), Freed::now);
  EXPECT_EQ(cache->deallocate(block, request), Freed::refused);
  EXPECT_EQ(cache->resize(block, request, {.size = 2 * MiB}, MayMove::yes).error().code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(cache->figures().refused_frees, 2u);
  EXPECT_EQ(cache->figures().cached_blocks, 1u);
  EXPECT_EQ(probe->frees(), 0u);
}

TEST(ZeroCache, CountsFailedFrees) {
  const auto probe = Probe::make();
  const auto cache = ZeroCache::make(probe);
  const Request request{.size = MiB};
  const auto block = cache->allocate(request).value();
  cache->deallocate(block, request);
  probe->fail_frees = true;
  EXPECT_EQ(cache->trim(0).value(), 0u);
  EXPECT_EQ(cache->figures().failed_frees, 1u);
  EXPECT_EQ(cache->figures().cached_blocks, 0u);
  EXPECT_EQ(cache->usage().reserved_bytes, MiB) << "it stays held";
}

TEST(ZeroCache, KeepsAlignmentsApart) {
  const auto probe = Probe::make();
  const auto cache = ZeroCache::make(probe);
  const Request natural{.size = 100 * KiB};
  const Request aligned{.size = 100 * KiB, .alignment = 4 * KiB};
  const auto one = cache->allocate(natural).value();
  const auto two = cache->allocate(aligned).value();
  cache->deallocate(one, natural);
  const auto other = cache->allocate(aligned).value();
  EXPECT_TRUE(is_aligned(other.address, 4 * KiB));
  cache->deallocate(two, aligned);
  EXPECT_EQ(cache->allocate(natural).value(), one);
  EXPECT_EQ(cache->allocate(aligned).value(), two);
  cache->deallocate(one, natural);
  cache->deallocate(two, aligned);
  cache->deallocate(other, aligned);
  EXPECT_TRUE(cache->trim(0).has_value());
  EXPECT_EQ(probe->bad_frees(), 0u);
}

// fault:B-22: a refusal is only given when the exact size does not fit.
TEST(ZeroCache, FallsBackToTheExactSize) {
  const auto tenant = Tenant::make(981'000);  // its class takes 983,040
  const auto cache = ZeroCache::make(Quota::make(tenant, Heap::make()));
  Request from{.size = 970'001, .init = Init::zero};
  auto block = cache->allocate(from).value();
  EXPECT_EQ(block.capacity, cache->footprint(from));
  EXPECT_EQ(tenant->account().charged, block.capacity);
  // Growth into what the upstream rounded up to, and past it: every byte written before is kept.
  for (const std::size_t next :
       {std::size_t{970'010}, std::size_t{975'000}, std::size_t{980'000}}) {
    fill_all(*cache, block, 0x5a);
    Request to = from;
    to.size = next;
    block = cache->resize(block, from, to, MayMove::yes).value();
    EXPECT_TRUE(all_bytes(*cache, block, 0, from.size, 0x5a)) << next;
    EXPECT_TRUE(all_bytes(*cache, block, from.size, next, 0)) << next;
    from = to;
  }
  EXPECT_EQ(cache->deallocate(block, from), Freed::now);
  EXPECT_TRUE(cache->trim(0).has_value());
  EXPECT_EQ(tenant->account().charged, 0u);
}

// A block that its upstream shrank in name only would weigh more than its class.
TEST(ZeroCache, DoesNotKeepWhatIsTooLargeForItsClass) {
  const auto cache = ZeroCache::make(Heap::make());
  const Request from{.size = 10 * MiB};
  const Request to{.size = MiB};
  const auto block = cache->resize(cache->allocate(from).value(), from, to, MayMove::no).value();
  EXPECT_EQ(cache->usage().live_bytes, block.capacity);
  EXPECT_EQ(cache->deallocate(block, to), Freed::now);
  EXPECT_EQ(cache->figures().cached_bytes, 0u);
  EXPECT_EQ(cache->usage().reserved_bytes, 0u);
}

// Every free and resize names the request that made the block, however often it was used since, and
// every block said to be zero is.
TEST(ZeroCache, ItsUpstreamHearsOfItsOwnRequestsOnly) {
  const auto upstream = CheckingBacking::make();
  {
    const auto cache = ZeroCache::make(upstream, {.cached_max = MiB, .block_min = 256});
    std::uint64_t random = 42;
    struct Held {
      Block block{};
      Request request{};
    };
    std::array<Held, 16> held;
    const auto draw = [&](std::uint64_t below) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      return (random >> 33) % below;
    };
    for (int step = 0; step < 6000; ++step) {
      auto& [block, request] = held[draw(held.size())];
      const auto init = draw(2) == 0 ? Init::zero : Init::undefined;
      const std::size_t size = 1 + draw(draw(8) == 0 ? 300'000 : 2000);
      if (!block) {
        request = {.size = size, .alignment = std::size_t{16} << draw(3), .init = init};
        block = cache->allocate(request).value();
        ASSERT_EQ(block.capacity, cache->footprint(request));
        if (init == Init::zero) {
          ASSERT_TRUE(all_bytes(*cache, block, 0, size, 0)) << step;
        }
        if (draw(2) == 0) fill_all(*cache, block, 0x5a);
      } else if (draw(2) == 0) {
        Request to = request;
        to.size = size;
        to.init = init;
        fill_all(*cache, block, 0x5a);
        const auto resized = cache->resize(block, request, to, MayMove::yes);
        const std::size_t kept = std::min(request.size, resized ? size : request.size);
        if (resized) {
          block = resized.value();
          ASSERT_GE(block.capacity, size);
          if (init == Init::zero) {
            ASSERT_TRUE(all_bytes(*cache, block, kept, size, 0)) << step;
          }
          request = to;
        }
        ASSERT_TRUE(all_bytes(*cache, block, 0, kept, 0x5a)) << step;
      } else {
        const bool wiped = draw(2) == 0;
        if (wiped) fill_all(*cache, block, 0);
        EXPECT_EQ(cache->deallocate(block, Release{request, wiped}), Freed::now);
        block = {};
      }
    }
    for (const auto& [block, request] : held) {
      if (block) cache->deallocate(block, request);
    }
    EXPECT_GT(cache->figures().zero_hits, 0u);
    EXPECT_GT(cache->figures().hits, cache->figures().zero_hits);
    EXPECT_EQ(cache->usage().live_bytes, 0u);
  }
  EXPECT_EQ(upstream->usage().live_blocks, 0u);
  EXPECT_TRUE(upstream->faults.empty()) << upstream->faults.front();
}

// fault:B-15: through every border, over memory that moves, and never.
TEST(ZeroCache, RegrowthReadsZero) {
  for (const Ref<Backing>& upstream :
       {Ref<Backing>(VirtualMemory::make()), Ref<Backing>(Heap::make())}) {
    const auto cache = ZeroCache::make(upstream);
    Request from{.size = 70 * KiB, .init = Init::zero};
    const auto dirty = cache->allocate(from).value();
    fill_all(*cache, dirty, 0x5a);
    cache->deallocate(dirty, from);
    auto block = cache->allocate(from).value();
    fill_all(*cache, block, 0x5a);
    for (const std::size_t next : {71 * KiB, 68 * KiB, 72 * KiB, 90 * KiB, 10 * KiB, 20 * KiB,
                                   80 * KiB, 5 * MiB, 17 * MiB, 20 * MiB, 9 * MiB, 10 * MiB}) {
      Request to = from;
      to.size = next;
      block = cache->resize(block, from, to, MayMove::yes).value();
      const std::size_t kept = std::min(from.size, next);
      ASSERT_GE(block.capacity, next);
      ASSERT_TRUE(all_bytes(*cache, block, 0, kept, 0x5a)) << next;
      ASSERT_TRUE(all_bytes(*cache, block, kept, next, 0)) << next;
      ASSERT_EQ(cache->usage().live_bytes, block.capacity) << next;
      fill_all(*cache, block, 0x5a);
      from = to;
    }
    EXPECT_EQ(cache->deallocate(block, from), Freed::now);
    EXPECT_EQ(cache->usage().live_bytes, 0u);
    EXPECT_TRUE(cache->trim(0).has_value());
    EXPECT_EQ(cache->usage().reserved_bytes, 0u);
  }
}

// What its upstream cannot shrink across a limit stays where it is.
TEST(ZeroCache, ShrinksInPlaceWhereTheUpstreamDoesNot) {
  const auto cache = ZeroCache::make(BySize::make(4 * MiB, Heap::make(), VirtualMemory::make()));
  const Request from{.size = 5 * MiB};
  const auto block = cache->allocate(from).value();
  fill_all(*cache, block, 0x5a);
  Request to = from;
  to.size = 3 * MiB;
  const auto less = cache->resize(block, from, to, MayMove::yes).value();
  EXPECT_EQ(less, (Block{block.address, 3 * MiB}));
  EXPECT_TRUE(all_bytes(*cache, less, 0, 3 * MiB, 0x5a));
  EXPECT_EQ(cache->usage().live_bytes, 3 * MiB);
  EXPECT_EQ(cache->deallocate(less, to), Freed::now);
  EXPECT_EQ(cache->allocate(from).value(), block) << "it is cached as what it is";
  cache->deallocate(block, from);
}

}  // namespace
}  // namespace assay
