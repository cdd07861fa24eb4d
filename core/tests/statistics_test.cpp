#include "assay/backing/statistics.hpp"

#include <thread>

#include <gtest/gtest.h>

#include "assay/backing/fault.hpp"
#include "backing_probe.hpp"

namespace assay {
namespace {

using test::Probe;

TEST(Statistics, CountsCallsBlocksAndBytes) {
  const auto fault = Fault::make(Heap::make());
  const auto statistics = Statistics::make(fault, Statistics::Precision::exact);
  fault->plan(Fault::On::allocate, {.nth = 3});
  fault->plan(Fault::On::deallocate, {.nth = 2});
  const Request small{.size = 1};
  const Request large{.size = 1000};
  const auto one = statistics->allocate(small).value();
  const auto two = statistics->allocate(large).value();
  EXPECT_FALSE(statistics->allocate(large).has_value());
  Request larger = large;
  larger.size = 2000;
  EXPECT_FALSE(statistics->resize(two, large, larger, MayMove::no).has_value());
  const auto grown = statistics->resize(two, large, larger, MayMove::yes).value();
  auto now = statistics->snapshot();
  EXPECT_EQ(now.allocations, 2u);
  EXPECT_EQ(now.failed_allocations, 1u);
  EXPECT_EQ(now.resizes, 1u);
  EXPECT_EQ(now.failed_resizes, 1u);
  EXPECT_EQ(now.live_blocks, 2u);
  EXPECT_EQ(now.live_bytes, 16u + 2000u);
  EXPECT_EQ(now.requested_bytes, 1001u);
  EXPECT_EQ(now.granted_bytes, 16u + 1008u);
  EXPECT_EQ(now.sizes[0], 1u);
  EXPECT_EQ(now.sizes[9], 1u);
  statistics->deallocate(one, small);
  EXPECT_EQ(statistics->deallocate(grown, larger), Freed::failed);
  now = statistics->snapshot();
  EXPECT_EQ(now.frees, 2u);
  EXPECT_EQ(now.failed_frees, 1u);
  EXPECT_EQ(now.live_blocks, 0u);
  EXPECT_EQ(now.live_bytes, 0u);
  EXPECT_TRUE(now.peaks_exact);
  EXPECT_EQ(now.peak_live_blocks, 2u);
  EXPECT_EQ(now.peak_live_bytes, 2016u);
}

TEST(Statistics, CountsPendingFrees) {
  const auto probe = Probe::make();
  const auto statistics = Statistics::make(probe);
  const Request request{.size = 8};
  const auto block = statistics->allocate(request).value();
  probe->pend_frees = true;
  EXPECT_EQ(statistics->deallocate(block, request), Freed::pending);
  EXPECT_EQ(statistics->snapshot().pending_frees, 1u);
}

// Blocks cross threads, so single stripes fall below zero; the sums are right all the same.
TEST(Statistics, SumsAreExactAtRestAndTheStripedMarkIsABound) {
  for (const auto precision : {Statistics::Precision::striped, Statistics::Precision::exact}) {
    const auto probe = Probe::make();
    const auto statistics = Statistics::make(probe, precision);
    constexpr int threads_count = 4;
    constexpr int each = 500;
    const Request request{.size = 48};
    std::array<std::vector<Block>, threads_count> made;
    const auto on_each = [](auto work) {
      std::vector<std::thread> threads;
      for (std::size_t i = 0; i < threads_count; ++i) threads.emplace_back(work, i);
      for (auto& thread : threads) thread.join();
    };
    on_each([&](std::size_t i) {
      for (int n = 0; n < each; ++n) made[i].push_back(statistics->allocate(request).value());
    });
    EXPECT_EQ(statistics->snapshot().live_bytes, threads_count * each * 48u);
    on_each([&](std::size_t i) {
      for (const Block& block : made[(i + 1) % threads_count]) {
        statistics->deallocate(block, request);
      }
    });
    const auto now = statistics->snapshot();
    EXPECT_EQ(now.allocations, threads_count * each * 1u);
    EXPECT_EQ(now.frees, threads_count * each * 1u);
    EXPECT_EQ(now.live_blocks, 0u);
    EXPECT_EQ(now.sizes[5], threads_count * each * 1u);
    if (now.peaks_exact) {
      EXPECT_EQ(now.peak_live_bytes, probe->held_peak());
    } else {
      EXPECT_GE(now.peak_live_bytes, probe->held_peak());
    }
  }
}

TEST(StatisticsDeathTest, DestroyedWithLiveBlocksNamesCountAndBytes) {
  EXPECT_DEATH(
      {
        const auto statistics = Statistics::make(Heap::make());
        (void)statistics->allocate({.size = 100});
      },
      "statistics destroyed with live blocks: 1 blocks, 112 bytes");
}

}  // namespace
}  // namespace assay
