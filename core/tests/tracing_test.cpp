#include "assay/backing/tracing.hpp"

#include <set>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "assay/backing/fault.hpp"
#include "assay/backing/slab_pool.hpp"
#include "assay/backing/virtual_memory.hpp"
#include "backing_probe.hpp"

namespace assay {
namespace {

using test::Probe;

/// Is this a history that could have happened: ids are allocated once, before they are used, and
/// freed once?
::testing::AssertionResult legal(const std::vector<TraceEvent>& events) {
  std::set<std::uint64_t> live;
  std::set<std::uint64_t> seen;
  std::uint64_t last = 0;
  bool first = true;
  for (const TraceEvent& event : events) {
    if (!first && event.sequence <= last) {
      return ::testing::AssertionFailure() << "order at " << event.sequence;
    }
    last = event.sequence;
    first = false;
    const bool allocates = event.operation == TraceOperation::allocate;
    if (allocates && !seen.insert(event.id).second) {
      return ::testing::AssertionFailure() << "id " << event.id << " allocated twice";
    }
    if (event.outcome != ErrorCode::none) continue;
    if (allocates) live.insert(event.id);
    if (event.operation == TraceOperation::resize && !live.contains(event.id)) {
      return ::testing::AssertionFailure() << "id " << event.id << " resized while not live";
    }
    if (event.operation == TraceOperation::free && live.erase(event.id) == 0) {
      return ::testing::AssertionFailure() << "id " << event.id << " freed while not live";
    }
  }
  if (!live.empty()) return ::testing::AssertionFailure() << live.size() << " blocks left";
  return ::testing::AssertionSuccess();
}

TEST(Tracing, RecordsWhatWasDone) {
  const auto fault = Fault::make(Heap::make());
  const auto tracing = Tracing::make(SlabPool::make(fault));
  const Request request{.size = 2 << 20, .alignment = 64, .init = Init::zero};
  Request larger = request;
  larger.size = 4 << 20;
  const auto block = tracing->allocate(request).value();
  ASSERT_TRUE(tracing->fill(block, 8, 100, std::byte{1}).has_value());
  const auto grown = tracing->resize(block, request, larger, MayMove::yes).value();
  tracing->deallocate(grown, larger);
  fault->plan(Fault::On::allocate, {.every = 1});
  EXPECT_FALSE(tracing->allocate(request).has_value());
  EXPECT_TRUE(tracing->trim(4096).has_value());
  const auto events = tracing->drain().value();
  ASSERT_EQ(events.size(), 6u);
  ASSERT_TRUE(legal(events));
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].sequence, i);
    EXPECT_EQ(events[i].thread, 0u);
    EXPECT_GE(events[i].time_ns, events[i == 0 ? 0 : i - 1].time_ns);
  }
  EXPECT_EQ(events[0].operation, TraceOperation::allocate);
  EXPECT_EQ(events[0].size, request.size);
  EXPECT_EQ(events[0].alignment, 64u);
  EXPECT_EQ(events[0].init, Init::zero);
  EXPECT_EQ(events[1].operation, TraceOperation::fill);
  EXPECT_EQ(events[1].offset, 8u);
  EXPECT_EQ(events[1].size, 100u);
  EXPECT_EQ(events[2].operation, TraceOperation::resize);
  EXPECT_EQ(events[2].size, larger.size);
  EXPECT_EQ(events[3].operation, TraceOperation::free);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(events[i].id, events[0].id);
  EXPECT_EQ(events[4].outcome, ErrorCode::out_of_memory);
  EXPECT_NE(events[4].id, events[0].id);
  EXPECT_EQ(events[5].operation, TraceOperation::trim);
  EXPECT_EQ(events[5].size, 4096u);
  EXPECT_TRUE(tracing->drain().value().empty());
}

TEST(Tracing, AFullRingKeepsTheNewestAndCountsTheRest) {
  const auto tracing = Tracing::make(Heap::make(), 8);
  const Request request{.size = 16};
  for (int i = 0; i < 10; ++i) tracing->deallocate(tracing->allocate(request).value(), request);
  EXPECT_EQ(tracing->dropped(), 12u);
  const auto events = tracing->drain().value();
  ASSERT_EQ(events.size(), 8u);
  EXPECT_EQ(events.front().sequence, 12u);
  EXPECT_EQ(events.back().sequence, 19u);
}

// Four threads pass blocks on to each other; the merged recording is a legal history.
TEST(Tracing, AMergedRecordingIsLegal) {
  const auto tracing = Tracing::make(SlabPool::make(VirtualMemory::make()));
  std::mutex mutex;
  std::vector<std::pair<Block, Request>> shared;
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::uint64_t random = seed;
      for (int step = 0; step < 1500; ++step) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        if ((random >> 40) % 2 == 0) {
          const Request request{.size = 1 + (random >> 33) % 200};
          const auto block = tracing->allocate(request).value();
          const std::lock_guard lock(mutex);
          shared.emplace_back(block, request);
          continue;
        }
        std::pair<Block, Request> mine;
        {
          const std::lock_guard lock(mutex);
          if (shared.empty()) continue;
          mine = shared.back();
          shared.pop_back();
        }
        Request to = mine.second;
        to.size *= 3;
        const auto grown = tracing->resize(mine.first, mine.second, to, MayMove::yes).value();
        tracing->deallocate(grown, to);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& [block, request] : shared) tracing->deallocate(block, request);
  const auto events = tracing->drain().value();
  EXPECT_EQ(tracing->dropped(), 0u);
  EXPECT_EQ(events.back().sequence + 1, events.size());
  EXPECT_TRUE(legal(events));
}

// fault:B-25: the record is out before the upstream has the address back, so a second thread that
// gets the address at once keeps its own.
TEST(Tracing, AnAddressMayComeBackWhileItIsBeingFreed) {
  const auto probe = Probe::make();
  const auto tracing = Tracing::make(probe);
  const Request request{.size = 64};
  Block other;
  bool first = true;
  probe->after_free = [&](std::uint64_t) {
    if (!std::exchange(first, false)) return;
    std::thread([&] { other = tracing->allocate(request).value(); }).join();
  };
  const auto block = tracing->allocate(request).value();
  tracing->deallocate(block, request);
  ASSERT_TRUE(static_cast<bool>(other));
  tracing->deallocate(other, request);
  EXPECT_TRUE(legal(tracing->drain().value()));
}

// A free that failed leaves the record: the block is still known by its id.
TEST(Tracing, AFailedFreeKeepsTheRecord) {
  const auto probe = Probe::make();
  const auto tracing = Tracing::make(probe);
  const Request request{.size = 64};
  const auto block = tracing->allocate(request).value();
  probe->fail_frees = true;
  EXPECT_EQ(tracing->deallocate(block, request), Freed::failed);
  ASSERT_TRUE(tracing->fill(block, 0, 1, std::byte{0}).has_value());
  const auto events = tracing->drain().value();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].outcome, ErrorCode::invalid_argument);
  EXPECT_EQ(events[2].id, events[0].id);
}

TEST(Tracing, RecordersOfOneThreadDoNotMix) {
  const Request request{.size = 16};
  for (int round = 0; round < 3; ++round) {
    const auto one = Tracing::make(Heap::make());
    const auto two = Tracing::make(Heap::make());
    one->deallocate(one->allocate(request).value(), request);
    two->deallocate(two->allocate(request).value(), request);
    one->deallocate(one->allocate(request).value(), request);
    EXPECT_EQ(one->drain().value().size(), 4u);
    EXPECT_EQ(two->drain().value().size(), 2u);
  }
}

TEST(TracingDeathTest, DestroyedWithLiveBlocksNamesCountAndBytes) {
  EXPECT_DEATH(
      {
        const auto tracing = Tracing::make(Heap::make());
        (void)tracing->allocate({.size = 100});
      },
      "tracing destroyed with live blocks: 1 blocks, 112 bytes");
}

}  // namespace
}  // namespace assay
