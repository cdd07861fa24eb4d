#include <gtest/gtest.h>

#include "assay/backing/heap.hpp"
#include "assay/harness/checked_backing.hpp"

namespace assay::harness {
namespace {

Ref<CheckedBacking> checked(std::uint64_t limit_bytes = 0) {
  return CheckedBacking::make(Ref<Backing>(Heap::make()), limit_bytes).value();
}

TEST(CheckedBacking, ServesAndCounts) {
  const auto backing = checked();
  const Request request{.size = 100, .alignment = 64};
  const Block block = backing->allocate(request).value();
  EXPECT_EQ(backing->counts().live_blocks, 1u);
  EXPECT_EQ(backing->counts().live_bytes, block.capacity);
  Request larger = request;
  larger.size = 10'000;
  const Block grown = backing->resize(block, request, larger, MayMove::yes).value();
  EXPECT_EQ(backing->counts().live_bytes, grown.capacity);
  backing->deallocate(grown, larger);
  EXPECT_EQ(backing->counts().live_blocks, 0u);
  EXPECT_EQ(backing->counts().live_bytes, 0u);
  EXPECT_EQ(backing->counts().findings, 0u);
}

// fault:B-23: a free with another size than the allocation's is seen, and does no harm here.
TEST(CheckedBacking, RecordsEachKindOfWrongFree) {
  const auto backing = checked();
  const Request request{.size = 100, .alignment = 64};
  const Block sized = backing->allocate(request).value();
  const Block aligned = backing->allocate(request).value();
  const Block capacious = backing->allocate(request).value();
  backing->deallocate(sized, Request{.size = 0, .alignment = 64});
  backing->deallocate(aligned, Request{.size = 100, .alignment = 16});
  backing->deallocate({capacious.address, 1}, request);
  EXPECT_EQ(backing->deallocate({capacious.address, 1}, request), Freed::refused);
  ASSERT_EQ(backing->counts().findings, 4u);
  EXPECT_EQ(backing->finding(0).kind, FindingKind::wrong_size);
  EXPECT_EQ(backing->finding(0).expected, 100u);
  EXPECT_EQ(backing->finding(0).found, 0u);
  EXPECT_EQ(backing->finding(1).kind, FindingKind::wrong_alignment);
  EXPECT_EQ(backing->finding(2).kind, FindingKind::wrong_capacity);
  EXPECT_EQ(backing->finding(3).kind, FindingKind::unknown_block);
  EXPECT_EQ(backing->counts().live_blocks, 0u);
}

TEST(CheckedBacking, RefusesPastItsLimitAndServesAgain) {
  const auto backing = checked(4096);
  const Request half{.size = 2048};
  const Block first = backing->allocate(half).value();
  const Block second = backing->allocate(half).value();
  EXPECT_EQ(backing->allocate({.size = 1}).error().code, ErrorCode::out_of_memory);
  Request more = half;
  more.size = 4096;
  EXPECT_EQ(backing->resize(first, half, more, MayMove::yes).error().code,
            ErrorCode::out_of_memory);
  EXPECT_EQ(backing->counts().refusals, 2u);
  backing->deallocate(second, half);
  const Block again = backing->allocate(half).value();
  backing->deallocate(again, half);
  backing->deallocate(first, half);
  EXPECT_EQ(backing->counts().findings, 0u);
}

TEST(CheckedBacking, KeepsItsRecordsThroughManyFreesInAnyOrder) {
  const auto backing = checked();
  std::vector<Block> blocks;
  const Request request{.size = 16};
  for (int i = 0; i < 5000; ++i) blocks.push_back(backing->allocate(request).value());
  for (std::size_t step = 0; step < blocks.size(); ++step) {  // 7 and 5000 share no factor
    backing->deallocate(blocks[step * 7 % blocks.size()], request);
  }
  EXPECT_EQ(backing->counts().findings, 0u);
  EXPECT_EQ(backing->counts().live_blocks, 0u);
}

}  // namespace
}  // namespace assay::harness
