// What `tracing` records from four threads is a trace that the replay runs.
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "assay/backing/heap.hpp"
#include "assay/backing/tracing.hpp"
#include "assay/harness/replay_engine.hpp"
#include "assay/harness/trace_facts.hpp"

namespace assay::harness {
namespace {

/// Each thread allocates, resizes and frees most of its blocks; the main thread frees the rest.
Trace record_four_threads() {
  constexpr std::size_t threads = 4;
  constexpr std::size_t rounds = 50;
  struct Held {
    Block block;
    Request request;
  };
  const auto tracing = Tracing::make(Heap::make());
  std::vector<std::vector<Held>> held(threads);
  std::vector<std::thread> crew;
  for (std::size_t t = 0; t < threads; ++t) {
    crew.emplace_back([&tracing, &mine = held[t], t] {
      for (std::size_t i = 0; i < rounds; ++i) {
        Request request{.size = 1 + 97 * i + t, .alignment = std::size_t{16} << (i % 4)};
        Block block = tracing->allocate(request).value();
        if (i % 5 == 0) {
          Request larger = request;
          larger.size *= 3;
          block = tracing->resize(block, request, larger, MayMove::yes).value();
          request = larger;
        }
        if (i % 7 == 0) {
          mine.push_back({block, request});
        } else {
          tracing->deallocate(block, request);
        }
      }
    });
  }
  for (std::thread& thread : crew) thread.join();
  for (const auto& mine : held) {
    for (const Held& one : mine) tracing->deallocate(one.block, one.request);
  }
  Trace trace;
  trace.header.subject = "tracing(heap)";
  trace.header.dropped = tracing->dropped();
  trace.events = tracing->drain().value();
  return trace;
}

TEST(ReplayRecorded, ARecordingOfFourThreadsIsReadAndReplayed) {
  const Trace recorded = record_four_threads();
  const auto read = parse_trace(to_text(recorded), "recorded");
  ASSERT_TRUE(read.has_value()) << read.error().describe();
  EXPECT_EQ(*read, recorded);
  const TraceFacts facts = facts_of(*read);
  EXPECT_EQ(facts.threads, 5u);
  EXPECT_EQ(facts.allocations, 200u);
  EXPECT_EQ(facts.frees, 200u);
  EXPECT_EQ(facts.resizes, 40u);
  EXPECT_EQ(facts.unknown_frees, 0u);
  EXPECT_EQ(facts.live_at_end, 0u);
  const ReplayPlan plan = plan_replay(*read, {}, PlanThreads::recorded);
  EXPECT_EQ(plan.view().threads(), 5u);
  const auto heap = Heap::make();
  const ReplayRun run = replay(plan.view(), *heap, {.touch = Touch::all, .repeat = 2});
  EXPECT_EQ(run.problem, "");
  EXPECT_EQ(run.allocate.count, 200u);
  EXPECT_EQ(run.deallocate.count, 200u);
  EXPECT_EQ(run.resize.count, 40u);
  EXPECT_EQ(run.peak.requested_bytes, facts.peak_live_bytes);
}

}  // namespace
}  // namespace assay::harness
