#include "assay/harness/replay_engine.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "assay/backing/heap.hpp"
#include "assay/harness/trace_facts.hpp"

namespace assay::harness {
namespace {

const std::string data = ASSAY_TEST_DATA;

/// Builds traces: each call adds one event.
class Recorder {
 public:
  Recorder& allocate(std::uint64_t id, std::uint64_t size, ErrorCode outcome = ErrorCode::none) {
    return add({.operation = TraceOperation::allocate, .outcome = outcome, .id = id, .size = size});
  }
  Recorder& free(std::uint64_t id) { return add({.operation = TraceOperation::free, .id = id}); }
  Recorder& resize(std::uint64_t id, std::uint64_t size) {
    return add({.operation = TraceOperation::resize, .id = id, .size = size});
  }
  Recorder& fill(std::uint64_t id, std::uint64_t offset, std::uint64_t size) {
    return add({.operation = TraceOperation::fill, .id = id, .size = size, .offset = offset});
  }
  Recorder& on(std::uint32_t thread) {
    thread_ = thread;
    return *this;
  }
  [[nodiscard]] const Trace& trace() const { return trace_; }

 private:
  Recorder& add(TraceEvent event) {
    event.sequence = trace_.events.size();
    event.thread = thread_;
    trace_.events.push_back(event);
    return *this;
  }
  Trace trace_;
  std::uint32_t thread_ = 0;
};

/// A heap that counts its calls and can misbehave in one way.
class Watched final : public Backing {
 public:
  enum class Fault { none, refuses_third, misaligned, shares_blocks, forgets_a_free, corrupts };
  explicit Watched(Fault fault = Fault::none)
      : Backing({.id = "watched", .capabilities = Capabilities::host_access}), fault_(fault) {}

  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::set<std::thread::id> threads;
  std::set<void*> streams;
  std::uint64_t zero_sizes = 0;

 private:
  Block do_allocate(const Request& request, Error& error) noexcept override {
    threads.insert(std::this_thread::get_id());
    streams.insert(request.stream.handle);
    zero_sizes += request.size == 0 ? 1 : 0;
    if (++allocations % 3 == 0 && fault_ == Fault::refuses_third) {
      error = Error::make(ErrorCode::out_of_memory, "allocate", "watched", request.size);
      return {};
    }
    if (fault_ == Fault::shares_blocks) return {reinterpret_cast<std::uintptr_t>(shared_), 64};
    const std::size_t alignment = std::max<std::size_t>(request.alignment, 64);
    void* const memory = std::aligned_alloc(alignment, align_up(request.size + 1, alignment));
    const std::uint64_t shift = fault_ == Fault::misaligned ? 1 : 0;
    ++live_;
    if (fault_ == Fault::corrupts) last_ = static_cast<unsigned char*>(memory);
    return {reinterpret_cast<std::uintptr_t>(memory) + shift, request.size};
  }
  Freed do_deallocate(Block block, const Release&) noexcept override {
    threads.insert(std::this_thread::get_id());
    ++frees;
    if (fault_ == Fault::shares_blocks) return Freed::now;
    auto* memory = reinterpret_cast<unsigned char*>(static_cast<std::uintptr_t>(block.address));
    if (fault_ == Fault::misaligned) --memory;
    if (fault_ == Fault::corrupts && last_ != memory) ++*last_;
    std::free(memory);
    if (fault_ != Fault::forgets_a_free || frees % 2 == 0) --live_;
    return Freed::now;
  }
  [[nodiscard]] std::size_t do_footprint(const Request& request) const noexcept override {
    return request.size;
  }
  [[nodiscard]] Usage do_usage() const noexcept override { return {live_, live_, live_}; }

  Fault fault_;
  std::uint64_t live_ = 0;
  unsigned char* last_ = nullptr;
  alignas(64) unsigned char shared_[64] = {};
};

ReplayRun replay_on(Backing& backing, const Trace& trace, const ReplayOptions& options = {},
                    Scale scale = {}) {
  const ReplayPlan plan = plan_replay(trace, scale, PlanThreads::recorded);
  return replay(plan.view(), backing, options);
}

Trace three_blocks() {
  return Recorder().allocate(0, 10).allocate(1, 20).allocate(2, 30).free(0).free(1).free(2).trace();
}

// fault:B-32: each repetition makes the same calls and leaves nothing live.
TEST(ReplayEngine, EveryRepetitionMakesTheSameCalls) {
  const Trace trace =
      Recorder().allocate(0, 10).free(7).allocate(1, 20).free(0).allocate(2, 30).trace();
  for (const std::uint32_t repeat : {1U, 2U, 5U}) {
    const auto watched = Ref<Watched>::adopt(new Watched);
    const ReplayRun run = replay_on(*watched, trace, {.repeat = repeat});
    EXPECT_EQ(run.problem, "");
    EXPECT_EQ(run.times_s.size(), repeat);
    EXPECT_EQ(run.allocate.count, 3u);
    EXPECT_EQ(run.deallocate.count, 1u);  // the leftovers are not the trace's
    EXPECT_EQ(watched->allocations, 3u * (1 + 2 * repeat));
    EXPECT_EQ(watched->frees, watched->allocations);
    EXPECT_EQ(watched->usage().live_blocks, 0u);
  }
}

// fault:B-14: an empty block is no call; a resize from 0 allocates, one to 0 frees.
TEST(ReplayEngine, EmptyBlocksAreNoCall) {
  const Trace trace = Recorder()
                          .allocate(0, 0)
                          .free(0)
                          .allocate(1, 0)
                          .resize(1, 8)
                          .resize(1, 0)
                          .resize(1, 0)
                          .resize(1, 16)
                          .resize(1, 0)
                          .free(1)
                          .allocate(2, 0)
                          .resize(9, 8)
                          .free(9)
                          .trace();
  const TraceFacts facts = facts_of(trace);
  EXPECT_EQ(facts.zero_size, 6u);
  EXPECT_EQ(facts.unknown_others, 1u);
  EXPECT_EQ(facts.unknown_frees, 1u);
  EXPECT_EQ(facts.live_at_end, 1u);
  const auto watched = Ref<Watched>::adopt(new Watched);
  const ReplayRun run = replay_on(*watched, trace, {.repeat = 1});
  EXPECT_EQ(run.problem, "");
  EXPECT_EQ(run.allocate.count, 2u);
  EXPECT_EQ(run.deallocate.count, 2u);
  EXPECT_EQ(run.resize.count, 0u);
  EXPECT_EQ(watched->zero_sizes, 0u);
  EXPECT_EQ(run.peak.requested_bytes, 16u);
}

TEST(ReplayEngine, WhatFailedWhenRecordedIsNotTried) {
  const Trace trace = Recorder()
                          .allocate(0, 10)
                          .allocate(1, UINT64_MAX, ErrorCode::too_large)
                          .free(1)
                          .free(0)
                          .trace();
  EXPECT_EQ(facts_of(trace).failed, 1u);
  const auto watched = Ref<Watched>::adopt(new Watched);
  const ReplayRun run = replay_on(*watched, trace, {.repeat = 1});
  EXPECT_EQ(run.problem, "");
  EXPECT_EQ(run.allocate.count, 1u);
}

TEST(ReplayEngine, AFailedAllocationIsAProblemNeverATime) {
  const auto watched = Ref<Watched>::adopt(new Watched(Watched::Fault::refuses_third));
  const ReplayRun run = replay_on(*watched, three_blocks());
  EXPECT_NE(run.problem.find("out_of_memory"), std::string::npos) << run.problem;
  EXPECT_EQ(run.failed_allocations, 1u);
  EXPECT_TRUE(run.times_s.empty());
  EXPECT_EQ(watched->allocations, 3u) << "nothing is timed after a failure";
  EXPECT_EQ(watched->frees, 2u);
}

TEST(ReplayEngine, VerifiesBeforeItTimes) {
  const std::pair<Watched::Fault, std::string_view> faults[] = {
      {Watched::Fault::misaligned, "not aligned"},
      {Watched::Fault::shares_blocks, "changed while it was live"},
      {Watched::Fault::corrupts, "changed while it was live"},
      {Watched::Fault::forgets_a_free, "live after a repetition"},
  };
  for (const auto& [fault, says] : faults) {
    const auto watched = Ref<Watched>::adopt(new Watched(fault));
    const ReplayRun run = replay_on(*watched, three_blocks());
    EXPECT_NE(run.problem.find(says), std::string::npos) << run.problem << " lacks " << says;
    EXPECT_TRUE(run.times_s.empty());
    EXPECT_EQ(watched->allocations, 3u);
  }
}

TEST(ReplayEngine, AskedToTouchNothingItWritesNothing) {
  // With nothing written, blocks that share their bytes cannot show it.
  const auto watched = Ref<Watched>::adopt(new Watched(Watched::Fault::shares_blocks));
  EXPECT_EQ(replay_on(*watched, three_blocks(), {.touch = Touch::none}).problem, "");
}

TEST(ReplayEngine, TouchDecidesWhatIsResident) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t size = 16384 * page;  // malloc maps such a block afresh each time
  const Trace trace = Recorder().allocate(0, size).free(0).trace();
  const auto heap = Heap::make();
  const auto none = replay_on(*heap, trace, {.touch = Touch::none, .repeat = 1});
  const auto first = replay_on(*heap, trace, {.touch = Touch::first, .repeat = 1});
  const auto all = replay_on(*heap, trace, {.touch = Touch::all, .repeat = 1});
  EXPECT_EQ(all.problem, "");
  EXPECT_GE(all.peak.resident_bytes, size);
  EXPECT_LT(first.peak.resident_bytes, size / 2);
  EXPECT_LT(none.peak.resident_bytes, size / 2);
  EXPECT_EQ(all.peak.granted_bytes, size);
  EXPECT_EQ(all.peak.reserved_bytes, size);
}

TEST(ReplayEngine, FiguresComeFromWhereTheyAreKnown) {
  const Trace trace = Recorder().allocate(0, 1 << 26).allocate(1, 3).free(1).free(0).trace();
  const auto heap = Heap::make();
  using Figures = ReplayOptions::Figures;
  const auto own = replay_on(*heap, trace, {.repeat = 1, .figures = Figures::usage});
  EXPECT_EQ(own.peak.granted_bytes, (1u << 26) + 16);
  const auto family = replay_on(*heap, trace, {.repeat = 1, .figures = Figures::malloc_family});
  ASSERT_TRUE(family.peak.granted_bytes.has_value());
  EXPECT_GE(*family.peak.granted_bytes, (1u << 26) + 3);
  EXPECT_GE(family.peak.reserved_bytes, 1u << 26);
  const auto process = replay_on(*heap, trace, {.repeat = 1, .figures = Figures::process});
  EXPECT_FALSE(process.peak.granted_bytes.has_value());
  EXPECT_GE(process.peak.reserved_bytes, 1u << 26);
}

TEST(ReplayEngine, ABackingWithoutResizeIsAskedForABlockACopyAndAFree) {
  const Trace trace =
      Recorder().allocate(0, 8).fill(0, 0, 8).resize(0, 100).resize(0, 4).free(0).trace();
  const auto watched = Ref<Watched>::adopt(new Watched);
  const ReplayRun run = replay_on(*watched, trace, {.touch = Touch::all, .repeat = 1});
  EXPECT_EQ(run.problem, "");
  EXPECT_EQ(run.resize.count, 2u);
  EXPECT_EQ(run.allocate.count, 1u);
  EXPECT_EQ(watched->allocations, 3u * 3);
  EXPECT_EQ(run.peak.requested_bytes, 100u);
}

TEST(ReplayEngine, StreamsArriveAsSmallNumbers) {
  Trace trace = three_blocks();
  trace.events[1].stream = 0xdead0000;
  trace.events[2].stream = 7;
  const auto watched = Ref<Watched>::adopt(new Watched);
  EXPECT_EQ(replay_on(*watched, trace).problem, "");
  const auto number = [](std::uintptr_t value) { return reinterpret_cast<void*>(value); };
  EXPECT_EQ(watched->streams, (std::set<void*>{nullptr, number(1), number(2)}));
}

// Every recorded trace in the folder, whoever recorded it.
TEST(ReplayEngine, RecordedTracesAreReplayedByAsManyThreads) {
  std::size_t replayed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(data + "/traces")) {
    if (entry.path().extension() != ".trace") continue;
    SCOPED_TRACE(entry.path().filename());
    const auto loaded = load_trace(entry.path());
    ASSERT_TRUE(loaded.has_value()) << loaded.error().describe();
    const TraceFacts facts = facts_of(loaded->trace);
    const ReplayPlan plan = plan_replay(loaded->trace, {}, PlanThreads::recorded);
    EXPECT_EQ(plan.view().threads(), facts.threads);
    EXPECT_EQ(plan_replay(loaded->trace, {}, PlanThreads::one).view().threads(), 1u);
    EXPECT_EQ(plan.peak_requested, facts.peak_live_bytes);
    EXPECT_EQ(plan.leftovers.size(), facts.live_at_end);
    for (const std::uint32_t repeat : {1U, 2U, 5U}) {
      const auto heap = Heap::make();
      const ReplayRun run = replay(plan.view(), *heap, {.touch = Touch::all, .repeat = repeat});
      EXPECT_EQ(run.problem, "");
      EXPECT_EQ(run.allocate.count, facts.allocations);
      EXPECT_EQ(run.deallocate.count, facts.frees);
      EXPECT_EQ(run.resize.count, facts.resizes);
    }
    const auto watched = Ref<Watched>::adopt(new Watched);
    EXPECT_EQ(replay(plan.view(), *watched, {.repeat = 1}).problem, "");
    EXPECT_GE(watched->threads.size(), facts.threads);
    ++replayed;
  }
  EXPECT_GE(replayed, 1u);
}

TEST(ReplayPlan, SurvivesItsStoredForm) {
  const auto loaded = load_trace(data + "/traces/four-threads.trace");
  ASSERT_TRUE(loaded.has_value());
  const ReplayPlan plan = plan_replay(loaded->trace, {}, PlanThreads::recorded);
  const int fd = ::memfd_create("plan", MFD_CLOEXEC);
  ASSERT_TRUE(store_plan(plan.view(), fd).has_value());
  const PlanView view = map_plan(fd).value();
  const auto bytes_equal = [](auto a, auto b) {
    return std::ranges::equal(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
  };
  EXPECT_EQ(view.steps.size(), plan.steps.size());
  EXPECT_TRUE(bytes_equal(view.order, plan.order));
  EXPECT_TRUE(bytes_equal(view.thread_begin, plan.thread_begin));
  EXPECT_EQ(view.leftovers.size(), plan.leftovers.size());
  EXPECT_EQ(view.slots, plan.slots);
  EXPECT_EQ(view.peak_step, plan.peak_step);
  EXPECT_EQ(view.steps.back().size, plan.steps.back().size);
  EXPECT_EQ(view.leftovers.back().alignment, plan.leftovers.back().alignment);
  ASSERT_EQ(::ftruncate(fd, 10), 0);
  EXPECT_EQ(map_plan(fd).error().code, ErrorCode::parse);
  ::close(fd);
}

TEST(Scale, IsExactAndStrict) {
  EXPECT_EQ(Scale::parse("1/8")->of(4096), 512u);
  EXPECT_EQ(Scale::parse("0.125")->of(4096), 512u);
  EXPECT_EQ(Scale::parse("1/8")->of(1), 1u);
  EXPECT_EQ(Scale::parse("1/8")->of(0), 0u);
  EXPECT_EQ(Scale::parse("1/3")->of(3), 1u);
  EXPECT_EQ(Scale::parse("1")->of(UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(Scale::parse("0.1")->of(UINT64_MAX), UINT64_MAX / 10);
  EXPECT_EQ(Scale::parse("1024")->of(UINT64_MAX), UINT64_MAX);
  for (const std::string_view bad :
       {"",           "0",  "0/5",          "1/0",  "-1",  "1e3", "x",
        "1/",         "/8", "1/8/2",        "1025", ".5",  "5.",  "1.5.2",
        "1234567890", " 1", "0.0000000001", "inf",  "nan", "1,5"}) {
    EXPECT_FALSE(Scale::parse(bad).has_value()) << bad;
  }
}

RC_GTEST_PROP(ReplayPlan, KeepsEveryCallAndThePeak, ()) {
  Recorder recorder;
  std::vector<std::uint64_t> live;
  const auto count = *rc::gen::inRange<std::uint64_t>(1, 120);
  for (std::uint64_t i = 0; i < count; ++i) {
    recorder.on(*rc::gen::inRange<std::uint32_t>(0, 3));
    const auto size = *rc::gen::inRange<std::uint64_t>(0, 3000);
    if (live.empty() || *rc::gen::inRange(0, 2) == 0) {
      recorder.allocate(i, size);
      live.push_back(i);
    } else {
      const auto at = *rc::gen::inRange<std::size_t>(0, live.size());
      switch (*rc::gen::inRange(0, 3)) {
        case 0: recorder.resize(live[at], size); break;
        case 1: recorder.fill(live[at], size / 2, size); break;
        default:
          recorder.free(live[at]);
          live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
  }
  const TraceFacts facts = facts_of(recorder.trace());
  const Scale scale{*rc::gen::inRange<std::uint64_t>(1, 5), *rc::gen::inRange<std::uint64_t>(1, 9)};
  const ReplayPlan plan = plan_replay(recorder.trace(), scale, PlanThreads::recorded);
  RC_ASSERT(plan_replay(recorder.trace(), {}, PlanThreads::one).peak_requested ==
            facts.peak_live_bytes);
  std::vector<std::uint32_t> order = plan.order;
  std::ranges::sort(order);
  for (std::uint32_t i = 0; i < order.size(); ++i) RC_ASSERT(order[i] == i);
  if (plan.steps.empty()) return;
  const auto heap = Heap::make();
  const ReplayRun run = replay(plan.view(), *heap, {.touch = Touch::all, .repeat = 1});
  RC_ASSERT(run.problem == "");
  RC_ASSERT(run.peak.requested_bytes == plan.peak_requested);
  RC_ASSERT(heap->usage().live_blocks == 0u);
}

}  // namespace
}  // namespace assay::harness
