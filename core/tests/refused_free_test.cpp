// A free of what is no live block is refused by the pool, and no account above it may move.
#include <gtest/gtest.h>

#include "assay/backing/fault.hpp"
#include "assay/backing/heap.hpp"
#include "assay/backing/quota.hpp"
#include "assay/backing/slab_pool.hpp"
#include "assay/backing/statistics.hpp"
#include "assay/backing/tracing.hpp"
#include "assay/backing/virtual_memory.hpp"
#include "assay/buffer/unified_buffer.hpp"

namespace assay {
namespace {

constexpr Request request{.size = 64};

/// Frees one of two blocks twice; the other stays live until the end.
void free_twice(Backing& backing) {
  const Block first = backing.allocate(request).value();
  const Block second = backing.allocate(request).value();
  EXPECT_EQ(backing.deallocate(first, request), Freed::now);
  EXPECT_EQ(backing.deallocate(first, request), Freed::refused);
  EXPECT_EQ(backing.usage().live_blocks, 1u);
  EXPECT_EQ(backing.deallocate(second, request), Freed::now);
  EXPECT_EQ(backing.usage().live_blocks, 0u);
}

TEST(RefusedFree, LeavesTheTenantsAccountAlone) {
  const auto tenant = Tenant::make(1 << 20);
  {
    const auto quota = Quota::make(tenant, SlabPool::make(VirtualMemory::make()));
    free_twice(*quota);
    EXPECT_EQ(tenant->account().charged, 0u);
    EXPECT_EQ(tenant->account().quarantined, 0u);
  }  // a destructor that thought blocks were out would stop the program
}

TEST(RefusedFree, IsCountedApartByStatistics) {
  const auto statistics = Statistics::make(SlabPool::make(VirtualMemory::make()));
  free_twice(*statistics);
  EXPECT_EQ(statistics->snapshot().frees, 2u);
  EXPECT_EQ(statistics->snapshot().refused_frees, 1u);
  EXPECT_EQ(statistics->snapshot().failed_frees, 0u);
}

TEST(RefusedFree, PassesThroughFaultAndTracing) {
  free_twice(*Fault::make(SlabPool::make(VirtualMemory::make())));
  const auto tracing = Tracing::make(SlabPool::make(VirtualMemory::make()));
  free_twice(*tracing);
  const auto events = tracing->drain().value();
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[3].outcome, ErrorCode::invalid_argument);
  EXPECT_EQ(events[3].id, 0u);
}

// The capacity of a resized block is its footprint: what a quota above charged.
TEST(ResizedCapacity, OfAnExactFallbackIsTheFootprint) {
  const auto outer = Tenant::make(4096);
  const auto inner = Tenant::make(1000016);
  BufferOptions options;
  options.backing = Quota::make(outer, SlabPool::make(Quota::make(inner, Heap::make())));
  auto buffer = UnifiedBuffer::create_with_capacity(16, 4000, options).value();
  ASSERT_TRUE(buffer.try_grow_in_place(32).has_value());
  EXPECT_LE(outer->account().charged, 4096u);
}

TEST(ResizedCapacity, OfALargeBlockThatShrankIsTheFootprint) {
  const auto tenant = Tenant::make(std::uint64_t{64} << 20);
  const auto quota = Quota::make(tenant, SlabPool::make(VirtualMemory::make()));
  const Request large{.size = std::size_t{2} << 20};
  Request small = large;
  small.size = 16;
  const Block block = quota->allocate(large).value();
  const Block shrunk = quota->resize(block, large, small, MayMove::no).value();
  EXPECT_EQ(shrunk.capacity, quota->footprint(small));
  EXPECT_EQ(tenant->account().charged, shrunk.capacity);
  tenant->set_limit(tenant->account().charged + 16);
  Request larger = small;
  larger.size = 4097;
  EXPECT_EQ(quota->resize(shrunk, small, larger, MayMove::no).error().code,
            ErrorCode::quota_exceeded);
  EXPECT_EQ(quota->deallocate(shrunk, small), Freed::now);
}

/// Notes whether a block was called zero when it came back.
class ZeroWitness final : public Adaptor {
 public:
  explicit ZeroWitness(Ref<Backing> upstream) : Adaptor(renamed("witness", *upstream), upstream) {}
  bool called_zero = false;

 private:
  Freed do_deallocate(Block block, const Release& release) noexcept override {
    called_zero = called_zero || release.known_zero;
    return deallocate_to(upstream(), block, release);
  }
};

// A caller's word covers its block, not the larger one that an exact fallback took for it.
TEST(KnownZero, OfAnExactFallbackIsNotPassedOnForTheWholeUpstreamBlock) {
  const auto witness = Ref<ZeroWitness>::adopt(new ZeroWitness(VirtualMemory::make()));
  const auto pool = SlabPool::make(Quota::make(Tenant::make(64 * 1024), witness));
  const Request asked{.size = 100};
  const Block block = pool->allocate(asked).value();
  ASSERT_TRUE(pool->fill(block, 0, block.capacity, std::byte{0}).has_value());
  EXPECT_EQ(pool->deallocate(block, Release{asked, true}), Freed::now);
  EXPECT_FALSE(witness->called_zero);
}

TEST(Tracing, ARingBeyondAllMemoryIsCountedAsDropped) {
  const auto tracing = Tracing::make(Heap::make(), SIZE_MAX);
  const Block block = tracing->allocate(request).value();
  EXPECT_EQ(tracing->deallocate(block, request), Freed::now);
  EXPECT_EQ(tracing->dropped(), 2u);
}

}  // namespace
}  // namespace assay
