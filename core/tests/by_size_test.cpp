#include "assay/backing/by_size.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "assay/backing/host.hpp"
#include "assay/backing/quota.hpp"
#include "assay/backing/slab_pool.hpp"
#include "assay/backing/virtual_memory.hpp"
#include "assay/base/system.hpp"
#include "assay/buffer/bytes.hpp"
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

TEST(BySize, RoutesByTheRequestAlone) {
  const auto small = Probe::make();
  const auto large = Probe::make();
  const auto both = BySize::make(1000, small, large);
  // The capacity of a block of 1,000 bytes is above the limit, that of one with a reserve below.
  for (const Request& request :
       {Request{.size = 1}, Request{.size = 1000}, Request{.size = 500, .reserve = 1000},
        Request{.size = 1000, .alignment = 4096, .init = Init::zero}}) {
    const auto block = both->allocate(request).value();
    EXPECT_EQ(block.capacity, both->footprint(request));
    EXPECT_EQ(small->held_bytes(), block.capacity);
    EXPECT_EQ(large->held_bytes(), 0u);
    EXPECT_EQ(both->usage().live_bytes, block.capacity);
    EXPECT_EQ(both->deallocate(block, request), Freed::now);
  }
  for (const Request& request : {Request{.size = 1001}, Request{.size = 1, .reserve = 1001}}) {
    const auto block = both->allocate(request).value();
    EXPECT_EQ(small->held_bytes(), 0u);
    EXPECT_EQ(large->held_bytes(), block.capacity);
    EXPECT_EQ(both->usage().live_blocks, 1u);
    EXPECT_EQ(both->deallocate(block, request), Freed::now);
  }
  EXPECT_EQ(small->bad_frees() + large->bad_frees(), 0u);
  EXPECT_EQ(both->usage().live_bytes, 0u);
}

TEST(BySize, CrossingTheLimitIsRefusedAndChangesNothing) {
  const auto upstream = CheckingBacking::make();
  const auto both = BySize::make(4 * KiB, upstream, upstream);
  for (const auto& [size, next] : {std::pair{4 * KiB, 4 * KiB + 1}, std::pair{8 * KiB, 1 * KiB}}) {
    const Request from{.size = size};
    const auto block = both->allocate(from).value();
    fill_all(*both, block, 0x5a);
    for (const auto may_move : {MayMove::no, MayMove::yes}) {
      const auto refused = both->resize(block, from, {.size = next}, may_move);
      ASSERT_FALSE(refused.has_value());
      EXPECT_EQ(refused.error().code, ErrorCode::not_supported);
      EXPECT_EQ(refused.error().requested, next);
      EXPECT_EQ(refused.error().limit, 4 * KiB);
    }
    EXPECT_TRUE(all_bytes(*both, block, 0, block.capacity, 0x5a));
    EXPECT_EQ(both->deallocate(block, from), Freed::now);
  }
  EXPECT_TRUE(upstream->faults.empty());
}

TEST(BySize, ResizesWithinItsSides) {
  const auto both = BySize::make(64 * KiB, Heap::make(), VirtualMemory::make());
  Request from{.size = 1000, .init = Init::zero};
  Request to = from;
  to.size = 10;
  const auto small = both->allocate(from).value();
  EXPECT_EQ(both->resize(small, from, to, MayMove::yes).value().address, small.address);
  EXPECT_EQ(both->deallocate(small, to), Freed::now);

  from = {.size = 100 * KiB, .reserve = MiB, .init = Init::zero};
  to = from;
  to.size = MiB;
  const auto large = both->allocate(from).value();
  const auto grown = both->resize(large, from, to, MayMove::no).value();
  EXPECT_EQ(grown.address, large.address);
  EXPECT_TRUE(all_bytes(*both, grown, 0, MiB, 0));
  EXPECT_EQ(both->deallocate(grown, to), Freed::now);
  EXPECT_EQ(both->usage().reserved_bytes, 0u);
}

// Where pages are moved on one side, no byte is copied on the other.
TEST(BySize, SmallBlocksDoNotMoveWhereLargeOnesMoveByPages) {
  const auto both = BySize::make(64 * KiB, Heap::make(), VirtualMemory::make());
  ASSERT_TRUE(both->can(Capabilities::moves_pages));
  const Request from{.size = 1000};
  const Request to{.size = 5000};
  const auto small = both->allocate(from).value();
  fill_all(*both, small, 0x5a);
  const auto refused = both->resize(small, from, to, MayMove::yes);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::not_supported);
  EXPECT_TRUE(all_bytes(*both, small, 0, 1000, 0x5a));
  EXPECT_EQ(both->deallocate(small, from), Freed::now);

  const auto copies = BySize::make(64 * KiB, Heap::make(), Heap::make());
  ASSERT_FALSE(copies->can(Capabilities::moves_pages));
  const auto block = copies->allocate(from).value();
  fill_all(*copies, block, 0x5a);
  const auto moved = copies->resize(block, from, to, MayMove::yes).value();
  EXPECT_TRUE(all_bytes(*copies, moved, 0, 1000, 0x5a));
  EXPECT_EQ(copies->deallocate(moved, to), Freed::now);
}

TEST(BySize, OffersWhatBothDo) {
  const auto both = BySize::make(4 * MiB, Heap::make(), VirtualMemory::make());
  EXPECT_TRUE(both->can(Capabilities::host_access | Capabilities::thread_safe |
                        Capabilities::resize_in_place | Capabilities::upstream));
  EXPECT_FALSE(both->can(Capabilities::zeroed_fresh)) << "heap makes a pass";
  EXPECT_FALSE(both->can(Capabilities::trim));
  EXPECT_EQ(both->trim(0).error().code, ErrorCode::not_supported);
  EXPECT_EQ(both->info().granularity, 16u);
  EXPECT_EQ(both->info().natural_alignment, 16u);
  EXPECT_TRUE(BySize::make(1, VirtualMemory::make(), VirtualMemory::make())
                  ->can(Capabilities::zeroed_fresh | Capabilities::moves_pages));
  EXPECT_TRUE(BySize::make(1, SlabPool::make(Heap::make()), SlabPool::make(Heap::make()))
                  ->can(Capabilities::detects_bad_free | Capabilities::trim));
}

TEST(BySize, TrimsBothSides) {
  const auto small = SlabPool::make(Heap::make());
  const auto large = SlabPool::make(Heap::make());
  const auto both = BySize::make(40 * KiB, small, large);
  for (const std::size_t size : {std::size_t{100}, 200 * KiB}) {
    const Request request{.size = size};
    EXPECT_EQ(both->deallocate(both->allocate(request).value(), request), Freed::now);
  }
  EXPECT_EQ(both->usage().reserved_bytes, 128 * KiB + 208 * KiB);
  EXPECT_EQ(both->trim(2 * 200 * KiB).value(), 208 * KiB) << "each side may keep half";
  EXPECT_EQ(both->trim(0).value(), 128 * KiB);
  EXPECT_EQ(both->usage().reserved_bytes, 0u);
}

TEST(BySize, RefusalsComeFromTheSideThatWasAsked) {
  const auto tenant = Tenant::make(MiB);
  const auto both = BySize::make(64 * KiB, Heap::make(), Quota::make(tenant, Heap::make()));
  EXPECT_EQ(both->allocate({.size = 2 * MiB}).error().code, ErrorCode::quota_exceeded);
  EXPECT_EQ(tenant->account().charged, 0u);
  const Request request{.size = 64 * KiB};
  EXPECT_EQ(both->deallocate(both->allocate(request).value(), request), Freed::now);
}

using BySizeDeathTest = testing::Test;
TEST(BySizeDeathTest, TakesHostMemoryOnly) {
  struct Reached final : Adaptor {
    explicit Reached(const Ref<Backing>& heap) : Adaptor(reached(*heap), heap) {}
    static SourceInfo reached(const Backing& heap) {
      SourceInfo info = renamed("reached", heap);
      info.capabilities = info.capabilities.bits() | Capabilities::device_access;
      return info;
    }
  };
  const auto reached = Ref<Backing>::adopt(new Reached(Heap::make()));
  EXPECT_FALSE(BySize::can_join(*reached));
  EXPECT_DEATH((void)BySize::make(1, Heap::make(), reached), "no device reaches");
}

TEST(Host, IsTheDefaultHome) {
  Backing& host = Home::host().backing();
  EXPECT_STREQ(host.info().id, "zero_cache");
  EXPECT_EQ(host.info().capabilities, make_host()->info().capabilities);
  EXPECT_TRUE(host.can(Capabilities::host_access | Capabilities::thread_safe |
                       Capabilities::resize_in_place | Capabilities::moves_pages |
                       Capabilities::trim));
}

// Bytes that grow from the smallest block through both limits stay what they were.
TEST(Host, BytesGrowAcrossEveryLimit) {
  Bytes bytes = Bytes::with_capacity(1).value();
  std::vector<std::byte> chunk(300 * KiB + 7);
  for (std::size_t i = 0; i < chunk.size(); ++i) chunk[i] = static_cast<std::byte>(i * 31 >> 3);
  for (int i = 0; i < 80; ++i) ASSERT_TRUE(bytes.extend(chunk).has_value()) << i;
  ASSERT_EQ(bytes.len(), chunk.size() * 80);
  for (std::size_t i = 0; i < 80; ++i) {
    const auto part = bytes.span().subspan(i * chunk.size(), chunk.size());
    ASSERT_TRUE(std::ranges::equal(part, chunk)) << i;
  }
}

}  // namespace
}  // namespace assay
