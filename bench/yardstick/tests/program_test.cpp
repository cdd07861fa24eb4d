// assay-yardstick and its planted twin from the outside.
#include <algorithm>
#include <fstream>
#include <sstream>

#include "../../tests/support.hpp"

namespace assay::bench {
namespace {

using Words = std::vector<std::string>;

struct Ran {
  harness::ChildResult child;
  Json document;

  [[nodiscard]] const Json& row(const std::string& id) const {
    static const Json none;
    const auto& rows = document["benchmarks"];
    const auto found = std::ranges::find_if(
        rows, [&](const Json& row) { return row["name"] == id + "/manual_time"; });
    EXPECT_TRUE(found != rows.end()) << id;
    return found != rows.end() ? *found : none;
  }
};

/// Runs it with --json; what the file holds must be strict JSON.
Ran with_json(const std::string& program, Words arguments) {
  const Folder folder;
  arguments.push_back("--json=" + folder.file("result.json"));
  Ran ran{run(program, arguments), {}};
  std::ifstream file(folder.file("result.json"));
  ran.document = Json::parse(file, nullptr, false);
  EXPECT_TRUE(ran.document.is_object()) << ran.child.standard_output << ran.child.standard_error;
  return ran;
}

Ran planted(const std::string& id, Words more) {
  more.push_back("--filter=^" + id + "$");
  more.emplace_back("--windows=31");
  return with_json("assay-yardstick-planted", more);
}

std::string error_of(const Ran& ran, const std::string& id) {
  const Json& row = ran.row(id);
  EXPECT_FALSE(row.contains("real_time")) << "a failed row must never look like a fast one";
  EXPECT_NE(ran.child.standard_output.find("ERROR"), std::string::npos);
  return row.value("error_message", std::string());
}

/// Both as it is timed and as the tests run it.
void expect_error(const std::string& id, const std::string& message) {
  for (const Words& mode : {Words{}, Words{"--smoke"}}) {
    const Ran ran = planted(id, mode);
    EXPECT_EQ(ran.child.code, 1) << id;
    EXPECT_TRUE(error_of(ran, id).starts_with("assay: " + message)) << error_of(ran, id);
  }
}

TEST(Yardstick, EveryRowDoesWhatItSays) {
  const auto listed = run("assay-yardstick", {"--list"});
  EXPECT_EQ(listed.code, 0);
  const Ran ran = with_json("assay-yardstick", {"--smoke"});
  EXPECT_EQ(ran.child.code, 0) << ran.child.standard_output;
  EXPECT_EQ(ran.child.standard_output.find("ERROR"), std::string::npos)
      << ran.child.standard_output;
  const Json& rows = ran.document["benchmarks"];
  EXPECT_GE(rows.size(), 30U);
  EXPECT_EQ(rows.size(),
            static_cast<std::size_t>(std::ranges::count(listed.standard_output, '\n')));
  for (const Json& row : rows) {
    EXPECT_FALSE(row.contains("real_time")) << row;
    EXPECT_FALSE(row.contains("ratio")) << row;
  }
}

TEST(Yardstick, AMeasuredRowHasTheKeysOfABenchmarkAndItsRatio) {
  const Ran ran = with_json("assay-yardstick", {"--filter=^B1\\.clone/", "--windows=11"});
  ASSERT_EQ(ran.child.code, 0) << ran.child.standard_output;
  const Json& row = ran.row("B1.clone/size:4096");
  for (const char* key :
       {"real_time", "cpu_time", "real_time_p10", "real_time_p90", "yardstick_time",
        "yardstick_time_p10", "yardstick_time_p90", "ratio", "ratio_p10", "ratio_p90",
        "ratio_limit", "iterations", "windows", "tries", "copied_bytes", "page_faults"}) {
    EXPECT_TRUE(row.contains(key) && row[key].is_number()) << key;
  }
  EXPECT_EQ(row["run_type"], "iteration");
  EXPECT_EQ(row["time_unit"], "ns");
  EXPECT_EQ(row["copied_bytes"], 0.0);
  EXPECT_EQ(row["windows"], 11);
  EXPECT_GT(row["ratio"].get<double>(), 0.0);
  const Words verdicts = {"met", "missed", "disturbed"};
  EXPECT_NE(std::ranges::find(verdicts, row["verdict"].get<std::string>()), verdicts.end());
}

TEST(Yardstick, TheContextIsThatOfABenchmark) {
  const auto bench =
      run("assay-bench", {"--smoke", "--benchmark_format=json",
                          "--benchmark_filter=^allocate_free/backing:heap/size:64$"});
  const Json theirs = parsed(bench)["context"];
  const Json ours =
      with_json("assay-yardstick", {"--filter=^B1\\.view/", "--smoke"}).document["context"];
  for (const auto& [key, value] : theirs.items()) {
    if (key == "skipped_subjects") continue;
    EXPECT_TRUE(ours.contains(key)) << key;
  }
  EXPECT_EQ(ours["assay_schema"], "assay.yardstick/1");
  EXPECT_EQ(ours["commit"], theirs["commit"]);
  EXPECT_EQ(ours["cpus_allowed"], theirs["cpus_allowed"]) << "that of the process, not of its pin";
}

TEST(Yardstick, ARowThatBreaksItsPromiseIsAnErrorRow) {
  expect_error("P.copies", "an operation copied 4096 payload bytes instead of 0");
  expect_error("P.copies_too_little", "an operation copied ");
  expect_error("P.wrong_answer", "the view holds other bytes");
  expect_error("P.fails_later", "view: out_of_range");
  expect_error("P.cannot_be_prepared", "view: out_of_range");
}

TEST(Yardstick, ARowThatFaultsPagesInIsAnErrorRow) {
  if (std::string_view(ASSAY_TEST_SANITIZERS) != "") {
    GTEST_SKIP() << "a sanitizer's shadow memory faults pages in, so none are counted";
  }
  expect_error("P.faults", "an operation faulted 1 pages in instead of none");
}

TEST(Yardstick, WhatIsMissedOrDisturbedEndsWith5UnderStrictAlone) {
  const Ran slow = planted("P.slow", {});
  EXPECT_EQ(slow.child.code, 0);
  EXPECT_GT(slow.row("P.slow")["ratio"].get<double>(), 2.0);
  EXPECT_NE(slow.row("P.slow")["verdict"], "met");
  EXPECT_EQ(planted("P.slow", {"--strict"}).child.code, 5);
  const Ran unsteady = planted("P.unsteady", {"--strict"});
  EXPECT_EQ(unsteady.child.code, 5);
  EXPECT_EQ(unsteady.row("P.unsteady")["verdict"], "disturbed");
  EXPECT_EQ(unsteady.row("P.unsteady")["tries"], 4);
}

TEST(Yardstick, AnInterruptionAtTheStartDoesNotMakeEveryWindowASingleCall) {
  const Ran ran = planted("P.interrupted_at_first", {});
  const Json& row = ran.row("P.interrupted_at_first");
  EXPECT_GE(row["iterations"].get<std::uint64_t>(), 10 * row["windows"].get<std::uint64_t>());
}

TEST(Yardstick, AnErrorRowOutweighsAMissedLimitAndTheOthersGoOn) {
  const Ran ran = with_json("assay-yardstick-planted",
                            {"--strict", "--windows=11", "--filter=copies$|slow$|good$"});
  EXPECT_EQ(ran.child.code, 1);
  EXPECT_TRUE(ran.row("P.good").contains("real_time"));
  EXPECT_TRUE(ran.row("P.slow").contains("real_time"));
}

TEST(Yardstick, WithoutATemporaryFolderTheRowsOfFilesSaySo) {
  const auto child =
      run("assay-yardstick", {"--smoke", "--filter=^B11"}, {{"TMPDIR", "/no/such/folder"}});
  EXPECT_EQ(child.code, 1);
  EXPECT_NE(child.standard_output.find("temporary folder (TMPDIR): io, native code 2"),
            std::string::npos)
      << child.standard_output;
}

TEST(Yardstick, ARowWithoutItsCpusIsSkippedAndSaysSo) {
  const Ran alone = planted("P.too_many_threads", {});
  EXPECT_EQ(alone.child.code, 77);
  EXPECT_TRUE(alone.row("P.too_many_threads")["error_message"].get<std::string>().starts_with(
      "assay: skipped: needs 4096 CPUs"));
  const Ran beside = with_json("assay-yardstick-planted", {"--smoke", "--filter=good$|threads$"});
  EXPECT_EQ(beside.child.code, 0);
}

TEST(Yardstick, WhatItCannotUnderstandExits2AndSaysWhy) {
  const std::vector<std::pair<Words, std::string>> refused = {
      {{"--no-such-flag"}, "--no-such-flag"},
      {{"stray"}, "stray"},
      {{"--filter=("}, "'(' is not a regular expression"},
      {{"--filter=^nothing$"}, "no row matches '^nothing$'"},
      {{"--windows=10"}, "10 is not between 11 and 100000"},
      {{"--windows=100001"}, "100001 is not between"},
      {{"--windows=-1"}, "windows"},
      {{"--windows=many"}, "windows"},
      {{"--json", "", "--filter=^B1"}, "the path is empty"},
      {{"--json=/no/such/folder/file", "--filter=^B1"}, "--json /no/such/folder/file"},
  };
  for (const auto& [arguments, word] : refused) {
    const auto child = run("assay-yardstick", arguments);
    EXPECT_EQ(child.code, 2) << arguments[0];
    EXPECT_NE(child.standard_error.find(word), std::string::npos)
        << arguments[0] << ": " << child.standard_error;
    EXPECT_EQ(child.standard_output, "") << arguments[0];
  }
}

TEST(Yardstick, HelpHoldsTheExitCodesAndAnExample) {
  const auto child = run("assay-yardstick", {"--help"});
  EXPECT_EQ(child.code, 0);
  for (const char* text : {"Exit codes:", "  5   ", "  77  ", "Example:", "--filter", "--strict"}) {
    EXPECT_NE(child.standard_output.find(text), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace assay::bench
