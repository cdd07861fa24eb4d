#include "assay/backing/heap.hpp"

#include <gtest/gtest.h>

namespace assay {
namespace {

TEST(Heap, ServesEveryAlignmentOfTheAddress) {
  const auto heap = Heap::make();
  for (std::size_t alignment = 1; alignment <= (std::size_t{1} << 20); alignment *= 2) {
    for (const std::size_t size : {alignment - 1, alignment, alignment + 1}) {
      if (size == 0) continue;
      const Request request{.size = size, .alignment = alignment, .init = Init::zero};
      const auto block = heap->allocate(request);
      ASSERT_TRUE(block.has_value());
      EXPECT_TRUE(is_aligned(block.value().address, alignment));
      EXPECT_EQ(block.value().capacity, heap->footprint(request));
      for (const std::byte byte : heap->host_bytes(block.value()).value()) {
        ASSERT_EQ(byte, std::byte{0});
      }
      EXPECT_EQ(heap->deallocate(block.value(), request), Freed::now);
    }
  }
  EXPECT_EQ(heap->usage().live_blocks, 0u);
}

TEST(Heap, RefusesWhatCanNeverBeServed) {
  const auto heap = Heap::make();
  EXPECT_EQ(heap->allocate({.size = 0}).error().code, ErrorCode::zero_size);
  EXPECT_EQ(heap->allocate({.size = 8, .alignment = 3}).error().code, ErrorCode::invalid_alignment);
  EXPECT_EQ(heap->allocate({.size = 8, .alignment = alignment_max * 2}).error().code,
            ErrorCode::invalid_alignment);
  for (const std::size_t size : {SIZE_MAX, SIZE_MAX - 3, SIZE_MAX - 254, size_max, size_max + 1}) {
    for (std::size_t alignment = 1; alignment <= 4096; alignment *= 2) {
      const auto block = heap->allocate({.size = size, .alignment = alignment});
      ASSERT_FALSE(block.has_value()) << size << " at " << alignment;
      EXPECT_EQ(block.error().code, ErrorCode::too_large);
    }
  }
  const Request ordinary{.size = 64};
  const auto block = heap->allocate(ordinary);
  ASSERT_TRUE(block.has_value());
  heap->deallocate(block.value(), ordinary);
}

TEST(Heap, GrowthKeepsContentsAndZeroesTheRest) {
  const auto heap = Heap::make();
  const Request small{.size = 100, .alignment = 64, .init = Init::zero};
  const auto block = heap->allocate(small).value();
  ASSERT_TRUE(heap->fill(block, 0, block.capacity, std::byte{0x5a}).has_value());
  Request large = small;
  large.size = 5000;
  EXPECT_EQ(heap->resize(block, small, large, MayMove::no).error().code, ErrorCode::not_supported);
  const auto grown = heap->resize(block, small, large, MayMove::yes).value();
  const auto bytes = heap->host_bytes(grown).value();
  EXPECT_EQ(bytes[99], std::byte{0x5a});
  for (std::size_t i = 100; i < 5000; ++i) ASSERT_EQ(bytes[i], std::byte{0}) << i;
  heap->deallocate(grown, large);
}

TEST(HeapDeathTest, DestroyedWithLiveBlocksStopsTheProgram) {
  EXPECT_DEATH(
      {
        const auto heap = Heap::make();
        (void)heap->allocate({.size = 8});
      },
      "heap destroyed with live blocks");
}

}  // namespace
}  // namespace assay
