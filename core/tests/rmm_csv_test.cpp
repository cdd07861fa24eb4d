#include "assay/harness/rmm_csv.hpp"

#include <fstream>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "assay/harness/trace_facts.hpp"

namespace assay::harness {
namespace {

const std::string data = ASSAY_TEST_DATA;
const std::string header = "Thread,Time,Action,Pointer,Size,Stream\n";

LoadedTrace read(const std::string& rows) {
  auto loaded = parse_rmm_csv(header + rows, "log");
  if (!loaded) ADD_FAILURE() << loaded.error().describe();
  return loaded ? *loaded : LoadedTrace{};
}

// fault:B-33: a log that starts in the middle of a run.
TEST(RmmCsv, TrainingStepHasItsPublishedFacts) {
  const auto loaded = load_trace(data + "/traces/lm-step-a.csv.gz");
  ASSERT_TRUE(loaded.has_value()) << loaded.error().describe();
  EXPECT_EQ(loaded->format, TraceFormat::rmm_csv);
  const TraceFacts facts = facts_of(loaded->trace);
  EXPECT_EQ(facts.rows, 4324u);
  EXPECT_EQ(facts.allocations, 2162u);
  EXPECT_EQ(facts.frees, 2162u);
  EXPECT_EQ(facts.unknown_frees, 222u);
  EXPECT_EQ(facts.failed, 0u);
  EXPECT_EQ(facts.live_at_end, 222u);
  EXPECT_EQ(facts.live_bytes_at_end, 1'523'681'280u);
  EXPECT_EQ(facts.peak_live_bytes, 1'999'716'608u);
  EXPECT_EQ(facts.threads, 1u);
  EXPECT_EQ(facts.streams, 1u);
  // Row 51 of the file is the first free of a pointer that no row allocated.
  ASSERT_TRUE(facts.first_unknown.has_value());
  const TraceEvent& first = loaded->trace.events[*facts.first_unknown];
  EXPECT_EQ(first.operation, TraceOperation::free);
  for (std::uint64_t i = 0; i < *facts.first_unknown; ++i) {
    EXPECT_NE(loaded->trace.events[i].id, first.id);
  }
  ASSERT_TRUE(facts.first_leftover.has_value());
}

TEST(RmmCsv, BecomesATraceThatReadsTheSame) {
  const auto loaded = load_trace(data + "/traces/lm-step-a.csv.gz");
  ASSERT_TRUE(loaded.has_value());
  const auto again = parse_trace(to_text(loaded->trace), "converted");
  ASSERT_TRUE(again.has_value()) << again.error().describe();
  EXPECT_EQ(*again, loaded->trace);
}

// fault:B-34: synonyms, failures, both time formats, streams kept apart, line ends.
TEST(RmmCsv, ReadsEverySpelling) {
  const LoadedTrace loaded = read(
      "77,23:59:59:999999,allocate,0x10,64,0x1\r\n"
      "77,23:59:59.9999995,allocate,0x20,128,0x2\r\n"
      "9,00:00:00.5,allocate failure,,4096,0x1\n"
      "9,00:00:01:000000,allocate failure,(nil),4096,3\n"
      "77,00:00:02.000000,free,0x10,64,0x1\n"
      "77,00:00:03.000000,allocate,0x10,256,0xffffffffffffffff\n"
      "9,00:00:02.999999,deallocate,0x20,128,0x2");
  ASSERT_EQ(loaded.trace.events.size(), 7u);
  const auto& events = loaded.trace.events;
  EXPECT_EQ(loaded.rows, (std::vector<std::uint64_t>{2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(events[0].time_ns, 0u);
  EXPECT_EQ(events[1].time_ns, 500u);
  EXPECT_EQ(events[2].time_ns, 500'001'000u);  // past midnight
  EXPECT_EQ(events[6].time_ns, events[5].time_ns - 1000);
  EXPECT_EQ(events[2].outcome, ErrorCode::out_of_memory);
  EXPECT_EQ(events[3].size, 4096u);
  EXPECT_EQ(events[0].stream, 1u);
  EXPECT_EQ(events[1].stream, 2u);
  EXPECT_EQ(events[3].stream, 3u);
  EXPECT_EQ(events[5].stream, UINT64_MAX);
  EXPECT_EQ(events[0].thread, 0u);
  EXPECT_EQ(events[2].thread, 1u);
  EXPECT_EQ(events[4].id, events[0].id);
  EXPECT_NE(events[5].id, events[0].id);  // the address came back, the id did not
  EXPECT_EQ(events[6].id, events[1].id);
  const TraceFacts facts = facts_of(loaded.trace);
  EXPECT_EQ(facts.failed, 2u);
  EXPECT_EQ(facts.unknown_frees, 0u);
  EXPECT_EQ(facts.live_bytes_at_end, 256u);
  EXPECT_EQ(facts.peak_live_bytes, 384u);
  EXPECT_EQ(facts.peak_event, 5u);
  EXPECT_EQ(facts.first_leftover, 5u);
  EXPECT_EQ(facts.threads, 2u);
  EXPECT_EQ(facts.streams, 4u);
}

// fault:B-14, fault:B-25: empty blocks have no address, or share one.
TEST(RmmCsv, EmptyBlocksAreCountedAndMayShareAnAddress) {
  const LoadedTrace loaded = read(
      "1,00:00:00.0,allocate,(nil),0,0\n"
      "1,00:00:00.0,allocate,,0,0\n"
      "1,00:00:00.0,allocate,0x8,0,0\n"
      "1,00:00:00.0,allocate,0x8,16,0\n"
      "1,00:00:00.0,free,0x8,16,0\n"
      "1,00:00:00.0,free,0x8,0,0\n"
      "1,00:00:00.0,free,(nil),0,0\n"
      "1,00:00:00.0,free,,0,0\n"
      "1,00:00:00.0,free,,0,0\n");
  const TraceFacts facts = facts_of(loaded.trace);
  EXPECT_EQ(facts.zero_size, 3u);
  EXPECT_EQ(facts.live_at_end, 0u);
  EXPECT_EQ(facts.unknown_frees, 1u);
  EXPECT_EQ(facts.first_unknown, 8u);
  EXPECT_EQ(loaded.trace.events[4].id, loaded.trace.events[3].id);
}

TEST(RmmCsv, RefusesWithTheRow) {
  const std::string good = "1,00:00:00.000000,allocate,0x10,64,0x0\n";
  const std::pair<std::string, std::string_view> cases[] = {
      {"1,00:00:00.000000,alloc,0x20,64,0x0", "action 'alloc'"},
      {"1,00:00:00.000000,ALLOCATE,0x20,64,0x0", "action 'ALLOCATE'"},
      {"1,00:00:00.000000,allocate,0x20,64", "cut off"},
      {"1,00:00:00.000000,allocate,0x20,64,", "cut off"},
      {"1,00:00:00.000000,alloc", "cut off"},
      {"1,00:00:00.000000,allocate,0x20,64,0x0,7", "7 fields"},
      {"", "cut off"},
      {"1,00:00:00.000000,allocate,0x20,six,0x0", "size 'six'"},
      {"1,00:00:00.000000,allocate,0x20,-1,0x0", "size '-1'"},
      {"1,00:00:00.000000,allocate,0x20,,0x0", "size ''"},
      {"1,00:00:00.000000,allocate,0x20,18446744073709551616,0x0", "size '184"},
      {"1,00:00:00.000000,allocate,20,64,0x0", "pointer '20'"},
      {"1,00:00:00.000000,allocate,0x,64,0x0", "pointer '0x'"},
      {"1,00:00:00.000000,allocate,0x20,64,0xg", "stream '0xg'"},
      {"x,00:00:00.000000,allocate,0x20,64,0x0", "thread 'x'"},
      {"1,24:00:00.000000,allocate,0x20,64,0x0", "time"},
      {"1,00:60:00.000000,allocate,0x20,64,0x0", "time"},
      {"1,00:00:00,allocate,0x20,64,0x0", "time"},
      {"1,00:00:00;000000,allocate,0x20,64,0x0", "time"},
      {"1,00:00:00.,allocate,0x20,64,0x0", "time"},
      {"1,00:00:00.000000,allocate,,64,0x0", "no address"},
      {"1,00:00:00.000000,allocate,0x10,64,0x0", "live block of row 2"},
      {std::string("\x1b[2J,\x00\xff", 7), "cut off"},
  };
  for (const auto& [row, says] : cases) {
    const auto loaded = parse_rmm_csv(header + good + row + "\n", "log");
    ASSERT_FALSE(loaded.has_value()) << row;
    EXPECT_EQ(loaded.error().row, 3u) << row;
    EXPECT_NE(loaded.error().message.find(says), std::string::npos)
        << loaded.error().describe() << " does not say " << says;
    EXPECT_EQ(loaded.error().describe().find('\n'), std::string::npos);
  }
}

// fault:B-34
TEST(RmmCsv, TheDebugLogIsRefusedInOneLine) {
  const std::string file = data + "/traces/not-a-replay-log.txt";
  const auto loaded = load_trace(file);
  ASSERT_FALSE(loaded.has_value());
  EXPECT_TRUE(loaded.error().describe().starts_with(file + ": row 1: this is RMM's debug log"))
      << loaded.error().describe();
  EXPECT_EQ(loaded.error().describe().find('\n'), std::string::npos);
}

TEST(RmmCsv, AnotherFileIsRefusedInOneLine) {
  for (const std::string text : {"", "\n", "a,b\n",
                                 "\x7f"
                                 "ELF\x02\n",
                                 "Thread,Time,Action\n"}) {
    const auto loaded = parse_rmm_csv(text, "other");
    ASSERT_FALSE(loaded.has_value()) << text;
    EXPECT_TRUE(loaded.error().row <= 1u);
    EXPECT_EQ(loaded.error().describe().find('\n'), std::string::npos);
  }
  EXPECT_TRUE(parse_rmm_csv(header, "no events").has_value());
}

RC_GTEST_PROP(RmmCsv, DamagedTextIsReadOrRefusedInOneLine, ()) {
  std::string text = header +
                     "1,00:00:00:000000,allocate,0x10,64,0x1\r\n"
                     "1,00:00:00.000001,allocate failure,,64,0x1\n"
                     "2,00:00:00.000002,free,0x10,64,0x1\n";
  const auto damages = *rc::gen::inRange(1, 6);
  for (int i = 0; i < damages && !text.empty(); ++i) {
    const auto at = *rc::gen::inRange<std::size_t>(header.size() / 2, text.size());
    switch (*rc::gen::inRange(0, 3)) {
      case 0: text[at] = static_cast<char>(*rc::gen::arbitrary<std::uint8_t>()); break;
      case 1: text.erase(at, *rc::gen::inRange<std::size_t>(1, 9)); break;
      default: text.insert(at, text.substr(header.size(), 23)); break;
    }
    if (text.size() <= header.size()) break;
  }
  const auto loaded = parse_rmm_csv(text, "damaged");
  if (loaded) {
    RC_ASSERT(parse_trace(to_text(loaded->trace), "again").value() == loaded->trace);
  } else {
    RC_ASSERT(loaded.error().describe().find('\n') == std::string::npos);
  }
}

Trace sizes(std::initializer_list<std::uint64_t> list) {
  Trace trace;
  for (const std::uint64_t size : list) {
    const std::uint64_t next = trace.events.size();
    trace.events.push_back({.sequence = next, .id = next, .size = size});
  }
  return trace;
}

TEST(TraceFacts, SumsOfHugeSizesStayAtTheTop) {
  Trace trace = sizes({UINT64_MAX, UINT64_MAX, 5});
  EXPECT_EQ(facts_of(trace).peak_live_bytes, UINT64_MAX);
  for (const std::uint64_t id : {0U, 1U}) {
    const std::uint64_t next = trace.events.size();
    trace.events.push_back({.sequence = next, .operation = TraceOperation::free, .id = id});
  }
  EXPECT_EQ(facts_of(trace).live_bytes_at_end, 5u);
}

RC_GTEST_PROP(TraceFacts, TimelineKeepsThePeakAndBothEnds, ()) {
  Trace trace;
  const auto count = *rc::gen::inRange<std::uint64_t>(1, 300);
  for (std::uint64_t i = 0; i < count; ++i) {
    const bool frees = *rc::gen::inRange(0, 2) == 0;
    trace.events.push_back({.sequence = i,
                            .operation = frees ? TraceOperation::free : TraceOperation::allocate,
                            .id = frees ? *rc::gen::inRange<std::uint64_t>(0, i + 1) : i,
                            .size = *rc::gen::inRange<std::uint64_t>(0, 9)});
  }
  const auto points_max = *rc::gen::inRange<std::size_t>(4, 40);
  const TraceFacts facts = facts_of(trace);
  const auto points = timeline_of(trace, points_max);
  RC_ASSERT(points.size() <= points_max);
  RC_ASSERT(points.front().event == 0u);
  RC_ASSERT(points.back().event == count - 1);
  RC_ASSERT(points.back().live_bytes == facts.live_bytes_at_end);
  std::uint64_t peak = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i > 0) RC_ASSERT(points[i].event > points[i - 1].event);
    peak = std::max(peak, points[i].live_bytes);
  }
  RC_ASSERT(peak == facts.peak_live_bytes);
}

}  // namespace
}  // namespace assay::harness
