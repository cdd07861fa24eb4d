// What `tracing` records, written and read by the text grammar.
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "assay/backing/make_backing.hpp"
#include "assay/backing/tracing.hpp"
#include "assay/base/system.hpp"
#include "assay/harness/trace.hpp"

namespace assay::harness {
namespace {

constexpr std::string_view spec = "tracing(slab_pool(quota(2MiB, virtual)))";

/// Four threads allocate, resize, fill and free, also each other's blocks; some are refused.
Trace record_four_threads(int steps) {
  const auto chain = make_backing(spec).value();
  auto& tracing = dynamic_cast<Tracing&>(*chain);
  std::mutex mutex;
  std::vector<std::pair<Block, Request>> shared;
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::uint64_t random = seed;
      const auto next = [&random] {
        random = random * 6364136223846793005u + 1442695040888963407u;
        return random >> 33;
      };
      for (int step = 0; step < steps; ++step) {
        if (next() % 2 == 0) {
          const Request request{
              .size = next() % 8 == 0 ? 1 + next() % (700 << 10) : 1 + next() % 999,
              .alignment = std::size_t{1} << next() % 9,
              .init = next() % 2 == 0 ? Init::zero : Init::undefined};
          const auto block = tracing.allocate(request);
          if (!block) continue;
          if (!tracing.fill(block.value(), 0, request.size, std::byte{1})) continue;
          const std::lock_guard lock(mutex);
          shared.emplace_back(block.value(), request);
          continue;
        }
        std::pair<Block, Request> mine;
        {
          const std::lock_guard lock(mutex);
          if (shared.empty()) continue;
          std::swap(shared[next() % shared.size()], shared.back());
          mine = shared.back();
          shared.pop_back();
        }
        Request to = mine.second;
        to.size += next() % 500;
        if (const auto grown = tracing.resize(mine.first, mine.second, to, MayMove::yes)) {
          mine = {grown.value(), to};
        }
        tracing.deallocate(mine.first, mine.second);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& [block, request] : shared) tracing.deallocate(block, request);
  Trace trace;
  trace.header.subject = spec;
  trace.header.page_size = page_size();
  trace.events = tracing.drain().value();
  trace.header.dropped = tracing.dropped();
  return trace;
}

TEST(RecordedTrace, OfFourThreadsComesBackFromItsText) {
  const Trace recorded = record_four_threads(200);
  ASSERT_GT(recorded.events.size(), 800u);
  EXPECT_EQ(recorded.header.dropped, 0u);
  EXPECT_EQ(recorded.events.back().sequence + 1, recorded.events.size());
  std::uint32_t threads = 0;
  for (const TraceEvent& event : recorded.events) threads = std::max(threads, event.thread + 1);
  EXPECT_GE(threads, 4u);
  const auto read = parse_trace(to_text(recorded), "recorded");
  ASSERT_TRUE(read.has_value()) << read.error().describe();
  EXPECT_EQ(*read, recorded);
}

// The kept recording was made by the function above: `core-tests --gtest_filter=*Fixture*` with
// ASSAY_RECORD set writes it anew.
TEST(RecordedTrace, FixtureIsAWholeRecording) {
  const std::string path = ASSAY_TEST_DATA "/traces/recorded-four-threads.trace";
  if (std::getenv("ASSAY_RECORD") != nullptr) {
    ASSERT_TRUE(write_atomically(path, to_text(record_four_threads(60))).has_value());
  }
  const auto loaded = load_trace(path);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().describe();
  EXPECT_EQ(loaded->format, TraceFormat::assay_trace);
  EXPECT_EQ(loaded->trace.header.dropped, 0u);
  std::map<std::uint64_t, int> live;
  for (const TraceEvent& event : loaded->trace.events) {
    if (event.outcome != ErrorCode::none) continue;
    if (event.operation == TraceOperation::allocate) ++live[event.id];
    if (event.operation == TraceOperation::free) --live[event.id];
    EXPECT_GE(live[event.id], 0) << "id " << event.id << " freed before it was allocated";
  }
  for (const auto& [id, count] : live) EXPECT_EQ(count, 0) << id;
}

}  // namespace
}  // namespace assay::harness
