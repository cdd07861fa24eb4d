// assay-bench from the outside.
#include <fstream>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "rows.hpp"
#include "support.hpp"

namespace assay::bench {
namespace {

constexpr const char* one_row = "^allocate_free/backing:heap/size:64$";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(Bench, HelpHoldsTheExitCodesAndAnExample) {
  const auto child = run("assay-bench", {"--help"});
  EXPECT_EQ(child.code, 0);
  for (const char* text :
       {"Exit codes:", "  77  ", "Example:", "--benchmark_filter", "--subject"}) {
    EXPECT_NE(child.standard_output.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(child.standard_output.find("--child-fd"), std::string::npos);
}

TEST(Bench, WhatItCannotUnderstandExits2AndSaysWhy) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> refused = {
      {{"--no-such-flag"}, "--no-such-flag"},
      {{"stray"}, "stray"},
      {{"--benchmark_filter=("}, "not a regular expression"},
      {{"--benchmark_filter=^nothing$"}, "no row matches"},
      {{"--subject=nobody"}, "no subject 'nobody'"},
      {{"--benchmark_min_time=0"}, "'0' is not a number of seconds"},
      {{"--benchmark_min_time=soon"}, "'soon'"},
      {{"--benchmark_repetitions=0"}, "benchmark_repetitions"},
      {{"--benchmark_format=csv"}, "csv"},
      {{"--benchmark_out_format=console"}, "console"},
      {{"--benchmark_context=novalue"}, "'novalue' is not of the form"},
      {{"--benchmark_context=a=1,a=2"}, "given twice"},
      {{"--benchmark_context=commit=forged", "--smoke"}, "'commit'"},
      {{"--seed=-1"}, "seed"},
  };
  for (const auto& [arguments, word] : refused) {
    const auto child = run("assay-bench", arguments);
    EXPECT_EQ(child.code, 2) << arguments[0];
    EXPECT_NE(child.standard_error.find(word), std::string::npos)
        << arguments[0] << ": " << child.standard_error;
    EXPECT_EQ(child.standard_output, "") << arguments[0];
  }
}

TEST(Bench, OnTheModelRowsAreCheckedAndNeverTimed) {
  const std::vector<std::string> row = {"--subject=managed",
                                        "--benchmark_filter=^allocate_free/.*/size:64$"};
  auto smoke_row = row;
  smoke_row.emplace_back("--smoke");
  const auto smoke = run("assay-bench", smoke_row, {{"ASSAY_CUDA_DRIVER", ASSAY_MODEL_LIBRARY}});
  EXPECT_EQ(smoke.code, 0) << smoke.standard_error;
  EXPECT_NE(smoke.standard_output.find("checked, no rates: model"), std::string::npos)
      << smoke.standard_output;
  EXPECT_EQ(smoke.standard_output.find("ERROR"), std::string::npos) << smoke.standard_output;
  EXPECT_EQ(run("assay-bench", row, {{"ASSAY_CUDA_DRIVER", ASSAY_MODEL_LIBRARY}}).code, 77);
}

TEST(Bench, ADriverThatWasNamedAndCannotBeUsedExits2AndSaysWhy) {
  const std::vector<std::string> arguments = {"--subject=managed", "--smoke"};
  const auto text = run("assay-bench", arguments, {{"ASSAY_CUDA_DRIVER", "/etc/passwd"}});
  EXPECT_EQ(text.code, 2);
  EXPECT_NE(text.standard_error.find("names, /etc/passwd, cannot be used"), std::string::npos)
      << text.standard_error;
  const auto profile =
      run("assay-bench", arguments,
          {{"ASSAY_CUDA_DRIVER", ASSAY_MODEL_LIBRARY}, {"ASSAY_MODEL_PROFILE", "nope"}});
  EXPECT_EQ(profile.code, 2);
  EXPECT_NE(profile.standard_error.find("no readable file 'nope'"), std::string::npos)
      << profile.standard_error;
}

TEST(Bench, ListsTheRowsOfEverySubjectThatIsPresent) {
  const Offer offer{.subjects = harness::subjects(), .families = families()};
  std::vector<std::string> expected;
  for (const Row& row : rows_of(offer, offer.subjects, Scope::standard)) {
    const auto origin = row.subject->origin;
    const bool broken = origin == harness::Origin::mutant || origin == harness::Origin::demo;
    if (is_present(*row.subject) && !broken) expected.push_back(row.name);
  }
  const auto child = run("assay-bench", {"--benchmark_list_tests=true"});
  EXPECT_EQ(child.code, 0);
  EXPECT_EQ(lines_of(child.standard_output), expected);
}

TEST(Bench, AnExactFilterRunsExactlyThatRow) {
  const auto listed =
      run("assay-bench", {fmt::format("--benchmark_filter={}", one_row), "--benchmark_list_tests"});
  EXPECT_EQ(listed.standard_output, "allocate_free/backing:heap/size:64\n");
  const auto child = run("assay-bench", {fmt::format("--benchmark_filter={}", one_row), "--smoke",
                                         "--benchmark_format=json"});
  EXPECT_EQ(child.code, 0) << child.standard_error;
  const Json document = parsed(child);
  ASSERT_EQ(document["benchmarks"].size(), 1u);
  EXPECT_EQ(document["benchmarks"][0]["name"], "allocate_free/backing:heap/size:64");
  EXPECT_EQ(child.standard_error.find("malloc"), std::string::npos) << "another child was started";
}

TEST(Bench, WritesAStrictResultWithItsContext) {
  const Folder folder;
  const std::string path = folder.file("out.json");
  const auto child = run(
      "assay-bench", {fmt::format("--benchmark_filter={}", one_row), "--benchmark_min_time=0.001s",
                      "--seed=7", "--benchmark_context=ab_session=s-1,ab_side=base",
                      fmt::format("--benchmark_out={}", path), "--benchmark_out_format=json"});
  EXPECT_EQ(child.code, 0) << child.standard_error;
  const auto shown = run("assay-bench", {"--out=/dev/stdout", "--smoke",
                                         fmt::format("--benchmark_filter={}", one_row)});
  EXPECT_EQ(shown.code, 0);
  const Json document = Json::parse(std::ifstream(path), nullptr, false);
  ASSERT_TRUE(document.is_object());
  const Json& context = document["context"];
  for (const char* key : {"assay_version", "commit", "compiler", "compiler_flags", "build_type",
                          "cpu_model", "kernel", "page_size", "driver", "num_cpus",
                          "library_build_type", "skipped_subjects", "iteration_policy"}) {
    EXPECT_TRUE(context.contains(key)) << key;
  }
  EXPECT_EQ(context["assay_schema"], "assay.bench/1");
  EXPECT_EQ(context["seed"], 7u);
  EXPECT_EQ(context["ab_session"], "s-1");
  EXPECT_EQ(context["ab_side"], "base");
  EXPECT_FALSE(context.contains("host_name"));
  const Json& row = document["benchmarks"][0];
  EXPECT_EQ(row["run_type"], "iteration");
  EXPECT_EQ(row["allocations"], 1.0);
  EXPECT_EQ(row["bytes_per_operation"], 64.0);
  EXPECT_GT(row["iterations"], 1);
  EXPECT_TRUE(row["real_time"].is_number() && row["cpu_time"].is_number());
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(Bench, RepetitionsAreNumberedAndAggregated) {
  const auto child = run("assay-bench", {fmt::format("--benchmark_filter={}", one_row), "--smoke",
                                         "--benchmark_repetitions=3", "--benchmark_format=json"});
  EXPECT_EQ(child.code, 0);
  std::set<int> indices;
  std::size_t aggregates = 0;
  const Json document = parsed(child);
  for (const Json& row : document["benchmarks"]) {
    EXPECT_EQ(row["run_name"], "allocate_free/backing:heap/size:64");
    if (row["run_type"] == "aggregate") {
      ++aggregates;
    } else {
      indices.insert(row["repetition_index"].get<int>());
    }
  }
  EXPECT_EQ(indices, (std::set{0, 1, 2}));
  EXPECT_GE(aggregates, 3u);
}

TEST(Bench, EveryRowOfEverySubjectRunsOnce) {
  const auto child = run("assay-bench", {"--smoke", "--benchmark_format=json"});
  EXPECT_EQ(child.code, 0) << child.standard_error;
  const auto listed = run("assay-bench", {"--benchmark_list_tests"});
  const Json document = parsed(child);
  EXPECT_EQ(document["benchmarks"].size(), lines_of(listed.standard_output).size());
  for (const Json& row : document["benchmarks"]) {
    EXPECT_FALSE(row.contains("error_message")) << row.dump();
  }
}

TEST(Bench, OutputThatCannotBeWrittenIsToldBeforeTheRun) {
  const Folder folder;
  for (const std::string& path : {folder.file("no/such/out.json"), folder.file("")}) {
    const auto child = run("assay-bench", {"--smoke", fmt::format("--out={}", path)});
    EXPECT_EQ(child.code, 2);
    EXPECT_NE(child.standard_error.find(path), std::string::npos) << child.standard_error;
    EXPECT_EQ(child.standard_output, "") << "it was told only after the run";
  }
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(Bench, WithoutATemporaryFolderTheRowsOfFilesAreErrorRows) {
  const auto child = run(
      "assay-bench", {"--smoke", "--benchmark_filter=^open_safetensors/backing:heap/size:4096$"},
      {{"TMPDIR", "/no/such/folder"}});
  EXPECT_EQ(child.code, 4);
  EXPECT_NE(child.standard_output.find("temporary folder (TMPDIR): io, native code 2"),
            std::string::npos)
      << child.standard_output;
}

TEST(Bench, AFullDiskIsAnError) {
  const std::string filter = fmt::format("--benchmark_filter={}", one_row);
  const auto file = run("assay-bench", {"--smoke", filter, "--out=/dev/full"});
  EXPECT_EQ(file.code, 2);
  EXPECT_NE(file.standard_error.find("No space left"), std::string::npos) << file.standard_error;
  for (const char* flags :
       {"--benchmark_format=json", "--benchmark_list_tests", "--list-subjects", "--help", ""}) {
    harness::ChildSpec spec;
    spec.arguments = {"/bin/sh", "-c",
                      fmt::format("'{}' --smoke '{}' {} > /dev/full",
                                  harness::sibling_program("assay-bench"), filter, flags)};
    const auto child = harness::run_child(spec).value();
    EXPECT_EQ(child.code, 2) << flags;
    EXPECT_NE(child.standard_error.find("assay-bench: standard output cannot be written: "),
              std::string::npos)
        << flags << child.standard_error;
  }
}

}  // namespace
}  // namespace assay::bench
