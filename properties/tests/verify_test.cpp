#include <filesystem>

#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "../engine/campaign.hpp"
#include "../engine/cell.hpp"
#include "../engine/generators.hpp"
#include "assay/harness/process.hpp"
#include "assay/harness/trace.hpp"

namespace assay::properties {
namespace {

using harness::CellOutcome;

/// A folder that goes with the test.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "assay-verify-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

harness::ChildResult verify(std::vector<std::string> arguments,
                            std::vector<std::pair<std::string, std::string>> environment = {}) {
  harness::ChildSpec spec;
  spec.environment = std::move(environment);
  spec.arguments = std::move(arguments);
  spec.arguments.insert(spec.arguments.begin(), harness::sibling_program("assay-verify"));
  return harness::run_child(spec).value();
}

TEST(Generators, SeedIsAllThereIs) {
  for (const Property* property : properties()) {
    EXPECT_EQ(generate(*property, 42), generate(*property, 42)) << property->id;
    EXPECT_NE(generate(*property, 42), generate(*property, 43)) << property->id;
    EXPECT_LE(generate(*property, 42).size(), harness::command_limit) << property->id;
  }
}

TEST(Properties, EachHasAMutantThatItMustCatch) {
  for (const Property* property : properties()) {
    bool found = false;
    for (const auto* subject : harness::subjects()) {
      found = found ||
              (subject->origin == harness::Origin::mutant && subject->killed_by == property->id);
    }
    EXPECT_TRUE(found) << property->id;
  }
}

TEST(Counterexample, SurvivesItsTrace) {
  Counterexample kept;
  kept.subject = "heap";
  kept.property = "no_overlap";
  kept.seed = 7;
  kept.outcome = CellOutcome::crashed;
  kept.detail = "what happened";
  kept.which.settings = {
      .address_space_limit = 1, .upstream_limit = 2, .cycles = 3, .sized_free = 1};
  kept.which.commands = {allocate(5, 100, 64), fill(5),     resize(5, 7),
                         allocate(9, 1, 1),    check(5),    free_slot(5),
                         allocate(5, 3, 8),    free_slot(9)};
  kept.which.commands[0].zero = 1;
  kept.outcomes.assign(kept.which.commands.size(), Outcome{.status = Status::done});
  const auto read = harness::parse_trace(harness::to_text(to_trace(kept)), "kept");
  ASSERT_TRUE(read.has_value());
  const auto back = from_trace(*read);
  ASSERT_TRUE(back.has_value()) << back.error();
  EXPECT_EQ(back->which.commands, kept.which.commands);
  EXPECT_EQ(back->which.settings.address_space_limit, 1u);
  EXPECT_EQ(back->which.settings.upstream_limit, 2u);
  EXPECT_EQ(back->which.settings.cycles, 3u);
  EXPECT_EQ(back->which.settings.sized_free, 1u);
  EXPECT_EQ(back->outcome, CellOutcome::crashed);
  EXPECT_EQ(back->detail, kept.detail);
  EXPECT_EQ(back->seed, 7u);
}

TEST(Counterexample, DamagedKeysAreNamed) {
  harness::Trace trace;
  EXPECT_NE(from_trace(trace).error().find("property"), std::string::npos);
  trace.header.property = "no_overlap";
  trace.header.extra = {{"cycles", "many"}};
  EXPECT_NE(from_trace(trace).error().find("cycles: 'many'"), std::string::npos);
  trace.header.extra = {{"slots", "1 64"}};
  EXPECT_NE(from_trace(trace).error().find("slots: '64'"), std::string::npos);
  trace.header.extra = {{"outcome", "pass"}};
  EXPECT_NE(from_trace(trace).error().find("outcome: 'pass'"), std::string::npos);
  trace.header.extra.clear();
  trace.events = {{.operation = TraceOperation::allocate, .size = 8}};
  EXPECT_NE(from_trace(trace).error().find("slots"), std::string::npos);
}

// fault:B-51: the printed seed and the written trace reproduce the failure, or it is called flaky.
TEST(Verify, TraceOfAMutantReproduces) {
  const Folder folder;
  const auto* mutant = harness::find_subject("mutant_same_block_twice");
  const auto* property = find_property("no_overlap");
  const auto result = run_campaign({.subjects = {mutant},
                                    .properties = {property},
                                    .mutants = {},
                                    .trace_folder = folder.path(),
                                    .on_cell = {}});
  ASSERT_EQ(result.cells.size(), 1u);
  const auto& cell = result.cells.front();
  EXPECT_EQ(cell.outcome, CellOutcome::fail);
  EXPECT_EQ(cell.reproduced, true);
  EXPECT_LE(cell.commands.size(), 18u);  // 8 blocks made and freed, then two owners of the last
  ASSERT_TRUE(cell.trace.has_value());

  const auto again = verify({"--reproduce", *cell.trace});
  EXPECT_EQ(again.end, harness::ChildResult::End::exited);
  EXPECT_EQ(again.code, 1) << again.standard_error;
  EXPECT_NE(again.standard_output.find(cell.detail), std::string::npos) << again.standard_output;

  const auto whole = verify({"--reproduce", *cell.trace, "--subject", "heap"});
  EXPECT_EQ(whole.code, 0);
  EXPECT_NE(whole.standard_output.find("did not reproduce"), std::string::npos);
}

TEST(Verify, SubjectThatCannotRunIsNeverCalledGood) {
  const harness::Subject absent{.id = "absent",
                                .origin = harness::Origin::foreign,
                                .summary = "",
                                .make = nullptr,
                                .preload = "libno-such-malloc.so.1",
                                .package = "no-such-malloc"};
  const auto* property = find_property("no_overlap");
  const auto again = rerun(absent, *property, {{}, {allocate(0, 8, 8)}}, std::chrono::seconds(2));
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code, ErrorCode::not_supported);
  const auto result = run_campaign({.subjects = {&absent},
                                    .properties = {property},
                                    .mutants = {},
                                    .trace_folder = "",
                                    .on_cell = {}});
  EXPECT_EQ(result.cells.at(0).outcome, CellOutcome::skipped);
  EXPECT_FALSE(result.cells.at(0).detail.empty());
  EXPECT_FALSE(result.subjects.at(0).ran);
}

TEST(Verify, DemosShowTheirRowsAndOthersGoOn) {
  const auto result =
      run_campaign({.subjects = {harness::find_subject("demo_crash"),
                                 harness::find_subject("demo_hang"), harness::find_subject("heap")},
                    .properties = {find_property("no_overlap")},
                    .mutants = {},
                    .trace_folder = "",
                    .on_cell = {}});
  ASSERT_EQ(result.cells.size(), 3u);
  EXPECT_EQ(result.cells[0].outcome, CellOutcome::crashed);
  EXPECT_NE(result.cells[0].commands.back().find("allocate"), std::string::npos);
  EXPECT_EQ(result.cells[1].outcome, CellOutcome::timed_out);
  EXPECT_NE(result.cells[1].commands.back().find("free"), std::string::npos);
  EXPECT_EQ(result.cells[2].outcome, CellOutcome::pass);
}

TEST(Verify, ADriverThatWasNamedAndCannotBeUsedIsAUsageError) {
  struct Refused {
    std::vector<std::string> arguments;
    const char* driver;
    const char* faults;
    const char* why;
  };
  const std::string model = ASSAY_MODEL_LIBRARY;
  const Refused cases[] = {
      {{"--subject", "managed", "--driver", model, "--profile", "nope"},
       "",
       "",
       "no readable file 'nope'"},
      {{"--subject", "heap", "--driver", model, "--profile", "nope"},
       "",
       "",
       "no readable file 'nope'"},
      {{"--subject", "heap", "--profile", "h200"}, "/etc/passwd", "", "/etc/passwd"},
      {{"--subject", "managed"}, "/etc/passwd", "", "/etc/passwd"},
      {{"--subject", "managed"}, "/etc", "", "names, /etc, cannot be used"},
      {{"--subject", "managed"}, ASSAY_MODEL_LIBRARY, "garbage", "'garbage' is no fault plan"},
      {{"--subject", "managed"}, ASSAY_MODEL_LIBRARY, "*:every:7:999", "answered 999"},
  };
  for (const Refused& one : cases) {
    const auto run = verify(
        one.arguments, {{"ASSAY_CUDA_DRIVER", one.driver}, {"ASSAY_MODEL_FAULTS", one.faults}});
    EXPECT_EQ(run.code, 2) << one.why << run.standard_output;
    EXPECT_NE(run.standard_error.find(one.why), std::string::npos) << run.standard_error;
  }
  // Nothing that a subject of the host has to know.
  const auto heap = verify({"--subject", "heap", "--property", "no_overlap", "--cases", "1"},
                           {{"ASSAY_CUDA_DRIVER", "/etc/passwd"}});
  EXPECT_EQ(heap.code, 0) << heap.standard_error;
}

TEST(Verify, ASubjectNamedTwiceIsAskedOnce) {
  const auto run = verify({"--subject", "heap", "--subject", "heap", "--property", "no_overlap",
                           "--property", "no_overlap", "--cases", "1", "--json"});
  const auto document = nlohmann::json::parse(run.standard_output, nullptr, false);
  ASSERT_TRUE(document.is_object()) << run.standard_error;
  EXPECT_EQ(document["cells"].size(), 1U) << run.standard_output;
}

TEST(Verify, UnknownNamesAreUsageErrors) {
  const auto subject = verify({"--subject", "no_such_subject"});
  EXPECT_EQ(subject.code, 2);
  EXPECT_NE(subject.standard_error.find("no_such_subject"), std::string::npos);
  const auto property = verify({"--property", "no_such_property"});
  EXPECT_EQ(property.code, 2);
  EXPECT_NE(property.standard_error.find("no_such_property"), std::string::npos);
  EXPECT_EQ(verify({"--no-such-flag"}).code, 2);
  EXPECT_EQ(verify({"--reproduce", "/no/such/file"}).code, 2);
  EXPECT_EQ(verify({"--help"}).code, 0);
}

TEST(Verify, NumbersOutOfRangeAreRefusedAsTheyWereGiven) {
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"--seed", "-1"},         {"--seed", "18446744073709551616"},
      {"--seed", "0x7"},        {"--time-budget", "nan"},
      {"--time-budget", "inf"}, {"--time-budget", "-1"},
      {"--time-budget", "0"},   {"--cases", "-1"}};
  for (const auto& [option, value] : refused) {
    const auto run = verify({"--list", option + "=" + value});
    EXPECT_EQ(run.code, 2) << option << value;
    EXPECT_NE(run.standard_error.find(value), std::string::npos) << run.standard_error;
    EXPECT_EQ(run.standard_output, "");
  }
  EXPECT_EQ(verify({"--list", "--seed", "18446744073709551615", "--time-budget", "0.5"}).code, 0);
}

TEST(Verify, ASubjectOutsideTheOriginIsAContradiction) {
  const auto run = verify({"--subject", "heap", "--origin", "foreign"});
  EXPECT_EQ(run.code, 2);
  EXPECT_NE(run.standard_error.find("--origin"), std::string::npos) << run.standard_error;
  EXPECT_EQ(verify({"--subject", "heap", "--origin", "assay", "--cases", "1"}).code, 0);
}

TEST(Verify, WhatCannotBeWrittenIsToldBeforeTheRun) {
  const Folder folder;
  const std::string file = folder.path() + "/file";
  ASSERT_TRUE(harness::write_atomically(file, "no folder").has_value());
  for (const char* option : {"--out", "--traces"}) {
    const auto run = verify({"--subject", "heap", option, file + "/x"});
    EXPECT_EQ(run.code, 2) << option;
    EXPECT_NE(run.standard_error.find(option), std::string::npos) << run.standard_error;
    EXPECT_EQ(run.standard_output, "") << "it was told only after the run";
  }
  // A disk that fills up later costs the file, not the table.
  const auto full = verify({"--subject", "heap", "--property", "no_overlap", "--cases", "1",
                            "--traces", folder.path() + "/made/later", "--out", "/dev/full"});
  EXPECT_EQ(full.code, 2);
  EXPECT_NE(full.standard_output.find("no_overlap"), std::string::npos);
}

TEST(Verify, LostStandardOutputIsAnError) {
  for (const char* arguments :
       {"--help", "--list", "--list --json", "--subject heap --property no_overlap --cases 1"}) {
    harness::ChildSpec spec;
    spec.arguments = {
        "/bin/sh", "-c",
        fmt::format("'{}' {} > /dev/full", harness::sibling_program("assay-verify"), arguments)};
    const auto run = harness::run_child(spec).value();
    EXPECT_EQ(run.code, 2) << arguments;
    EXPECT_EQ(run.standard_error,
              "assay-verify: standard output cannot be written: No space left on device\n")
        << arguments;
  }
}

TEST(Verify, CellsThatTheTimeBudgetCutAreCounted) {
  const auto cut = verify({"--subject", "heap", "--property", "no_overlap", "--cases", "1000000",
                           "--time-budget", "0.2"});
  EXPECT_EQ(cut.code, 0) << cut.standard_error;
  EXPECT_NE(cut.standard_output.find("1 cells ran fewer than the asked cases: time budget\n"),
            std::string::npos)
      << cut.standard_output;
  const auto whole = verify({"--subject", "heap", "--property", "no_overlap", "--cases", "2"});
  EXPECT_EQ(whole.standard_output.find("fewer than the asked"), std::string::npos);
}

TEST(Verify, JsonHoldsTheWholeScorecard) {
  const Folder folder;
  const std::string out = folder.path() + "/verify.json";
  const auto run = verify({"--subject", "heap", "--subject", "mutant_drops_tail", "--property",
                           "contents_survive", "--cases", "5", "--seed", "3", "--out", out,
                           "--traces", folder.path()});
  EXPECT_EQ(run.code, 1) << run.standard_error;
  const auto json = nlohmann::json::parse(harness::read_text(out).value());
  EXPECT_EQ(json.at("schema"), "assay.verify/1");
  EXPECT_EQ(json.at("seed"), 3);
  EXPECT_TRUE(json.at("context").is_object());
  EXPECT_EQ(json.at("subjects").at(0).at("id"), "heap");
  EXPECT_EQ(json.at("subjects").at(0).at("kind"), "in_process");
  EXPECT_EQ(json.at("properties").at(0).at("id"), "contents_survive");
  const auto& passed = json.at("cells").at(0);
  EXPECT_EQ(passed.at("outcome"), "pass");
  EXPECT_EQ(passed.at("cases"), 5);
  EXPECT_TRUE(passed.at("trace").is_null());
  const auto& failed = json.at("cells").at(1);
  EXPECT_EQ(failed.at("outcome"), "fail");
  EXPECT_EQ(failed.at("reproduced"), true);
  EXPECT_FALSE(failed.at("commands").empty());
  EXPECT_TRUE(std::filesystem::exists(failed.at("trace").get<std::string>()));
}

}  // namespace
}  // namespace assay::properties
