// assay-replay as its user meets it: exit codes, refusals, JSON, rows that went wrong.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <nlohmann/json.hpp>

#include "assay/harness/process.hpp"
#include "assay/harness/trace.hpp"
#include "report.hpp"

namespace assay::replay {
namespace {

using harness::ChildResult;
using nlohmann::json;

const std::string step = std::string(ASSAY_TEST_DATA) + "/traces/lm-step-a.csv.gz";
const std::string threads = std::string(ASSAY_TEST_DATA) + "/traces/four-threads.trace";
const std::string debug_log = std::string(ASSAY_TEST_DATA) + "/traces/not-a-replay-log.txt";

class ReplayCli : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "assay-replay-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string write(const std::string& name, const std::string& text) const {
    EXPECT_TRUE(harness::write_atomically(path(name), text).has_value());
    return path(name);
  }
  static ChildResult run(std::vector<std::string> words,
                         std::vector<std::pair<std::string, std::string>> environment = {}) {
    words.insert(words.begin(), ASSAY_REPLAY);
    harness::ChildSpec spec;
    spec.arguments = std::move(words);
    spec.environment = std::move(environment);
    spec.timeout = std::chrono::seconds(60);
    return harness::run_child(spec).value();
  }
  static json json_of(std::vector<std::string> words) {
    words.emplace_back("--json");
    const ChildResult result = run(std::move(words));
    EXPECT_TRUE(result.succeeded()) << result.describe() << result.standard_error;
    return json::parse(result.standard_output);
  }
  /// Exit 2, one line on standard error that says so, nothing on standard output.
  static void expect_refused(const ChildResult& result, const std::string& says) {
    EXPECT_EQ(result.end, ChildResult::End::exited);
    EXPECT_EQ(result.code, exit_usage) << result.standard_error;
    EXPECT_NE(result.standard_error.find(says), std::string::npos) << result.standard_error;
    EXPECT_EQ(std::ranges::count(result.standard_error, '\n'), 1) << result.standard_error;
    EXPECT_EQ(result.standard_output, "");
  }
  std::string folder_;
};

// fault:B-33: the published facts, and a peak that each subject met. One repetition: address
// sanitizers poison two gigabytes in each.
TEST_F(ReplayCli, TrainingStepHasItsFactsAndEverySubjectMeetsThePeak) {
  const std::string out = path("replay.json");
  const ChildResult result =
      run({step, "--subject", "heap", "--subject", "malloc", "--repeat", "1", "--out", out});
  ASSERT_TRUE(result.succeeded()) << result.describe() << result.standard_error;
  EXPECT_NE(result.standard_output.find("222 blocks (1523681280 bytes) live at the end"),
            std::string::npos)
      << result.standard_output;
  std::ifstream file(out);
  const json document = json::parse(file);
  EXPECT_EQ(document.at("schema"), "assay.replay/1");
  EXPECT_TRUE(document.at("context").contains("commit"));
  EXPECT_GT(document.at("timer_cost_ns").get<double>(), 0);
  const json& trace = document.at("trace");
  EXPECT_EQ(trace.at("path"), step);
  EXPECT_EQ(trace.at("format"), "rmm-csv");
  EXPECT_EQ(trace.at("rows"), 4324);
  EXPECT_EQ(trace.at("allocations"), 2162);
  EXPECT_EQ(trace.at("frees"), 2162);
  EXPECT_EQ(trace.at("unknown_frees"), 222);
  EXPECT_EQ(trace.at("failed_allocations"), 0);
  EXPECT_EQ(trace.at("live_at_end"), 222);
  EXPECT_EQ(trace.at("live_bytes_at_end"), 1'523'681'280);
  EXPECT_EQ(trace.at("peak_live_bytes"), 1'999'716'608);
  EXPECT_EQ(trace.at("threads"), 1);
  EXPECT_EQ(trace.at("streams"), 1);
  EXPECT_EQ(document.at("options"), json({{"touch", "first"}, {"repeat", 1}, {"scale", 1.0}}));
  ASSERT_EQ(document.at("runs").size(), 2u);
  for (const json& row : document.at("runs")) {
    EXPECT_EQ(row.at("status"), "ok") << row;
    EXPECT_EQ(row.at("times_s").size(), 1u);
    EXPECT_GT(row.at("time_s").get<double>(), 0);
    const json& operations = row.at("operations");
    EXPECT_EQ(operations.at("allocate").at("count"), 2162);
    EXPECT_EQ(operations.at("deallocate").at("count"), 2162 - 222);
    EXPECT_GE(operations.at("allocate").at("max_ns"), operations.at("allocate").at("p50_ns"));
    EXPECT_TRUE(operations.at("allocate").at("below_timer").is_boolean());
    const json& peak = row.at("peak");
    EXPECT_EQ(peak.at("requested_bytes"), 1'999'716'608);
    EXPECT_GE(peak.at("granted_bytes"), peak.at("requested_bytes"));
    EXPECT_GE(peak.at("reserved_bytes"), peak.at("granted_bytes"));
    EXPECT_LT(peak.at("resident_bytes"), peak.at("requested_bytes"));
    EXPECT_GE(row.at("internal_fragmentation").get<double>(), 0);
    EXPECT_GE(row.at("external_fragmentation").get<double>(), 0);
    EXPECT_EQ(row.at("failed_allocations"), 0);
  }
  std::uint64_t peak = 0;
  for (const json& point : document.at("timeline")) {
    peak = std::max(peak, point.at("live_bytes").get<std::uint64_t>());
  }
  EXPECT_EQ(peak, 1'999'716'608u);
  EXPECT_LE(document.at("timeline").size(), 1000u);
  EXPECT_EQ(document.at("timeline").back(), json({{"event", 4323}, {"live_bytes", 1'523'681'280}}));
}

TEST_F(ReplayCli, ScaleKeepsEveryEvent) {
  const json document = json_of({step, "--subject", "heap", "--scale", "1/8", "--repeat", "1"});
  EXPECT_EQ(document.at("trace").at("rows"), 4324);
  EXPECT_EQ(document.at("trace").at("peak_live_bytes"), 1'999'716'608) << "the trace's own";
  const json& row = document.at("runs").at(0);
  EXPECT_EQ(row.at("operations").at("allocate").at("count"), 2162);
  EXPECT_LE(row.at("peak").at("requested_bytes"), 1'999'716'608 / 8 + 2162);
  EXPECT_GE(row.at("peak").at("requested_bytes"), 1'999'716'608 / 8 - 2162);
  EXPECT_EQ(document.at("options").at("scale"), 0.125);
}

// fault:B-32: also with four threads.
TEST_F(ReplayCli, RepetitionsReplayTheSameCounts) {
  json first;
  for (const std::string repeat : {"1", "2", "5"}) {
    const json document = json_of({threads, "--subject", "malloc", "--repeat", repeat});
    EXPECT_EQ(document.at("trace").at("threads"), 4);
    const json& row = document.at("runs").at(0);
    EXPECT_EQ(row.at("times_s").size(), static_cast<std::size_t>(std::stoi(repeat)));
    json counts;
    for (const auto& [name, call] : row.at("operations").items()) counts[name] = call.at("count");
    if (first.is_null()) first = counts;
    EXPECT_EQ(counts, first);
    EXPECT_GT(counts.at("resize"), 0);
  }
  const json one = json_of({threads, "--subject", "malloc", "--threads", "one", "--repeat", "1"});
  EXPECT_EQ(one.at("runs").at(0).at("operations").at("allocate").at("count"), first.at("allocate"));
}

TEST_F(ReplayCli, EveryRegisteredAllocatorIsARowByDefault) {
  const json document = json_of({step, "--scale", "1/64", "--repeat", "1"});
  std::vector<std::string> ids;
  for (const harness::Subject* subject : harness::subjects()) {
    if (subject->origin != harness::Origin::mutant && subject->origin != harness::Origin::demo) {
      ids.emplace_back(subject->id);
    }
  }
  ASSERT_EQ(document.at("runs").size(), ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const json& row = document.at("runs").at(i);
    EXPECT_EQ(row.at("subject"), ids[i]);
    if (row.at("status") == "skipped") {
      EXPECT_NE(row.at("reason"), "");
      EXPECT_TRUE(row.at("time_s").is_null());
    } else {
      EXPECT_EQ(row.at("status"), "ok") << row;
    }
  }
}

// fault:B-34: refusals are one line, exit 2, and write nothing.
TEST_F(ReplayCli, BadInputIsRefusedInOneLine) {
  const std::string out = path("out.json");
  const auto refused = [&](const std::string& trace, const std::string& says) {
    expect_refused(run({trace, "--out", out}), says);
    EXPECT_FALSE(std::filesystem::exists(out));
  };
  refused(debug_log, debug_log + ": row 1: this is RMM's debug log");
  refused(path("absent"), path("absent") + ": cannot be read");
  refused(folder_, "Is a directory");
  const std::string header = "Thread,Time,Action,Pointer,Size,Stream\n";
  refused(write("a.csv", header + "1,00:00:00.0,allocate,0x1,1,0\n1,00:00:00.0,grab,0x2,1,0\n"),
          "a.csv: row 3: action 'grab'");
  refused(write("b.csv", header + "1,00:00:00.0,allocate,0x1,1,0\n1,00:00:00.0,fre"),
          "b.csv: row 3: the row is cut off");
  refused(write("c.csv", header), "c.csv: holds no event to replay");
  refused(write("d.trace", "assay-trace 1\ndialect: block\nevents\n0 0 0 0 allocate 0 size=1 ok\n"),
          "d.trace: row 4: the trace is cut off");
  refused(write("e.trace", "assay-trace 9\n"), "e.trace: row 1: trace version '9'");
}

TEST_F(ReplayCli, BadUsageExitsTwo) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{},
                                             {step, "--no-such-flag"},
                                             {step, "--subject"},
                                             {step, "--subject", "no_such_allocator"},
                                             {step, "--touch", "most"},
                                             {step, "--touch", "2"},
                                             {step, "--threads", "1"},
                                             {step, "--repeat", "0"},
                                             {step, "--repeat", "many"},
                                             {step, "--scale", "0"},
                                             {step, "--scale", "-1"},
                                             {step, "--scale", "nan"},
                                             {step, "--timeout", "0"},
                                             {step, "--threads", "four"},
                                             {step, "another"}}) {
    const ChildResult result = run(words);
    EXPECT_EQ(result.code, exit_usage) << ::testing::PrintToString(words);
    EXPECT_NE(result.standard_error, "");
  }
  const ChildResult help = run({"--help"});
  EXPECT_TRUE(help.succeeded());
  for (const std::string part :
       {"--scale", "--allow-large", "Exit codes", "77", "Example", "half"}) {
    EXPECT_NE(help.standard_output.find(part), std::string::npos) << part;
  }
  EXPECT_TRUE(std::ranges::none_of(help.standard_output, [](char c) {
    return c >= 0 && c < ' ' && c != '\n';
  })) << "raw bytes where names belong";
  const ChildResult list = run({"--list-subjects"});
  EXPECT_TRUE(list.succeeded());
  EXPECT_NE(list.standard_output.find("heap"), std::string::npos);
}

// fault:B-33: strict mode names the first row.
TEST_F(ReplayCli, StrictNamesTheFirstRow) {
  expect_refused(run({step, "--strict"}), "--strict");
  const std::string header = "Thread,Time,Action,Pointer,Size,Stream\n";
  const std::string whole = header + "1,00:00:00.0,allocate,0x1,8,0\n1,00:00:01.0,free,0x1,8,0\n";
  EXPECT_TRUE(run({write("whole.csv", whole), "--strict", "--subject", "heap"}).succeeded());
  expect_refused(run({write("unknown.csv", whole + "1,00:00:02.0,free,0x2,8,0\n"), "--strict"}),
                 "unknown.csv: row 4: free of a block");
  expect_refused(run({write("left.csv", whole + "1,00:00:02.0,allocate,0x2,8,0\n"), "--strict"}),
                 "left.csv: row 4: allocates a block that no later row frees");
}

TEST_F(ReplayCli, APeakThatMemoryMayNotHoldIsRefusedWithTheFigure) {
  const std::string huge = write("huge.trace",
                                 "assay-trace 1\ndialect: block\nevents\n"
                                 "0 0 0 0 allocate 0 size=9223372036854775808 ok\n"
                                 "1 0 0 0 free 0 ok\nend 2\n");
  expect_refused(run({huge, "--touch", "none"}), "its peak of 9223372036854775808 bytes passes");
  // Allowed, it fails to allocate: an error row without a time, exit 4.
  const ChildResult result = run({huge, "--allow-large", "--subject", "heap", "--json"});
  EXPECT_EQ(result.code, exit_incomplete) << result.standard_error;
  const json row = json::parse(result.standard_output).at("runs").at(0);
  EXPECT_EQ(row.at("status"), "error");
  EXPECT_NE(row.at("reason").get<std::string>().find("too_large"), std::string::npos) << row;
  EXPECT_EQ(row.at("failed_allocations"), 1);
  EXPECT_TRUE(row.at("time_s").is_null());
  EXPECT_TRUE(row.at("times_s").empty());
  EXPECT_TRUE(row.at("operations").at("allocate").at("p50_ns").is_null());
  EXPECT_TRUE(
      run({huge, "--scale", "0.000001", "--subject", "heap", "--allow-large", "--touch", "none"})
          .end == ChildResult::End::exited);
}

TEST_F(ReplayCli, ACrashAndAHangDoNotStopTheRest) {
  const ChildResult result =
      run({threads, "--subject", "demo_crash", "--subject", "demo_hang", "--subject", "heap",
           "--timeout", "2", "--threads", "one", "--json"});
  EXPECT_EQ(result.code, exit_bad) << result.standard_error;
  const json rows = json::parse(result.standard_output).at("runs");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].at("status"), "crashed") << rows[0];
  EXPECT_EQ(rows[1].at("status"), "timed_out") << rows[1];
  EXPECT_EQ(rows[2].at("status"), "ok") << rows[2];
}

TEST_F(ReplayCli, AnUnwritableResultIsAnErrorNotASilence) {
  expect_refused(run({threads, "--subject", "heap", "--out", path("no/such/folder.json")}),
                 "folder.json");
  const ChildResult full = run({threads, "--subject", "heap", "--out", "/dev/full"});
  EXPECT_EQ(full.code, exit_usage);
  EXPECT_NE(full.standard_output.find("heap"), std::string::npos) << "the table is lost too";
  for (const char* arguments : {"--help", "--list-subjects"}) {
    harness::ChildSpec spec;
    spec.arguments = {"/bin/sh", "-c", std::string(ASSAY_REPLAY) + " " + arguments + " >/dev/full"};
    expect_refused(harness::run_child(spec).value(), "standard output cannot be written: No space");
  }
}

TEST_F(ReplayCli, ACounterexampleIsHandedToTheVerifier) {
  const std::string counterexample =
      write("c.trace",
            "assay-trace 1\ndialect: block\nproperty: disjoint\nevents\n"
            "0 0 0 0 allocate 0 size=1 ok\nend 1\n");
  const std::string verifier = write("assay-verify", "#!/bin/sh\necho \"verifier: $*\"\nexit 5\n");
  ASSERT_EQ(::chmod(verifier.c_str(), 0700), 0);
  const ChildResult handed =
      run({counterexample, "--subject", "heap"}, {{"ASSAY_LIBEXEC", folder_}});
  EXPECT_EQ(handed.code, 5);
  EXPECT_EQ(handed.standard_output,
            "verifier: --reproduce " + counterexample + " --subject heap\n");
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--json"},
                                             {"--out", path("zz.json")},
                                             {"--strict"},
                                             {"--repeat", "2"},
                                             {"--scale", "2"},
                                             {"--touch", "all"},
                                             {"--threads", "one"},
                                             {"--timeout", "3"},
                                             {"--allow-large"}}) {
    std::vector<std::string> all = {counterexample};
    all.insert(all.end(), words.begin(), words.end());
    expect_refused(run(all, {{"ASSAY_LIBEXEC", folder_}}), words[0] + " does not apply");
  }
  const ChildResult absent = run({counterexample}, {{"ASSAY_LIBEXEC", path("none")}});
  EXPECT_EQ(absent.code, exit_nothing_ran);
  EXPECT_NE(absent.standard_error.find("counterexample"), std::string::npos);
}

/// The row that a subject of demo_replay.cpp gets.
json demo_row(const std::string& subject) {
  harness::ChildSpec spec;
  spec.arguments = {ASSAY_DEMO_REPLAY, subject};
  spec.timeout = std::chrono::seconds(60);
  const ChildResult result = harness::run_child(spec).value();
  EXPECT_TRUE(result.succeeded()) << result.describe() << result.standard_error;
  return json::parse(result.standard_output);
}

TEST(ReplayRow, ACrashAHangAndASilenceAreRows) {
  const std::tuple<std::string, std::string, std::string> cases[] = {
      {"crashes", "crashed", "signal 6"},
      {"hangs", "timed_out", "1000 ms"},
      {"exits", "crashed", "exit 7"},
      {"throws", "crashed", "demo threw"},
      {"cannot_be_made", "skipped", "not_supported"},
  };
  for (const auto& [subject, status, says] : cases) {
    const json row = demo_row(subject);
    EXPECT_EQ(row.at("status"), status) << row;
    EXPECT_NE(row.at("reason").get<std::string>().find(says), std::string::npos) << row;
    EXPECT_TRUE(row.at("time_s").is_null());
  }
  EXPECT_EQ(demo_row("chats").at("status"), "ok") << "what a subject prints is not its result";
}

TEST(ReplayRow, AnAbsentLibraryIsSkippedWithThePackage) {
  const json row = demo_row("absent");
  EXPECT_EQ(row.at("status"), "skipped") << row;
  constexpr bool plain = sizeof ASSAY_TEST_SANITIZERS == 1;  // of "", which ends in a zero
  EXPECT_EQ(row.at("reason"), plain ? "install libabsent1"
                                    : "foreign libraries run in builds without sanitizers only");
}

TEST(ReplayExit, FollowsTheWorstRow) {
  const auto code = [](std::vector<std::string> statuses, std::vector<std::string> named) {
    Report report;
    report.options.subjects = std::move(named);
    for (std::string& status : statuses) report.rows.push_back({"", std::move(status), "", 0, {}});
    return exit_code(report);
  };
  EXPECT_EQ(code({"ok", "skipped"}, {}), exit_good);
  EXPECT_EQ(code({"ok", "skipped"}, {"a", "b"}), exit_incomplete);
  EXPECT_EQ(code({"skipped"}, {}), exit_nothing_ran);
  EXPECT_EQ(code({"skipped"}, {"a"}), exit_nothing_ran);
  EXPECT_EQ(code({"ok", "error"}, {}), exit_incomplete);
  EXPECT_EQ(code({"error", "crashed"}, {}), exit_bad);
  EXPECT_EQ(code({"ok", "timed_out"}, {}), exit_bad);
}

}  // namespace
}  // namespace assay::replay
