// How the suite judges what the process of a test did.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "program/suite_result.hpp"

namespace assay::conformance {
namespace {

using End = harness::ChildResult::End;

conformance::Test one_code() {
  return answers("group.one", "a rule", {1, 2}, Source::hdr, nullptr);
}

harness::ChildResult said(const std::string& text, End end = End::exited, int exit_code = 0) {
  harness::ChildResult child;
  child.end = end;
  child.code = exit_code;
  child.standard_output = text;
  return child;
}

std::string status_line(int code) {
  return R"({"step":"status","kind":"code","value":)" + std::to_string(code) + "}\n";
}

constexpr const char* finished = "{\"finished\":true}\n";

TEST(Judge, AllowedCodePasses) {
  const conformance::Test test = one_code();
  EXPECT_EQ(judge(test, said(status_line(1) + finished)).outcome, Outcome::pass);
  EXPECT_EQ(judge(test, said(status_line(2) + finished)).outcome, Outcome::pass);
}

TEST(Judge, OtherCodeFailsAndSaysBothAndTheSource) {
  const conformance::Test test = one_code();
  const TestResult result = judge(test, said(status_line(0) + finished));
  EXPECT_EQ(result.outcome, Outcome::fail);
  EXPECT_EQ(result.detail,
            "status: success (0), allowed is invalid_value (1) or out_of_memory (2) [hdr]");
}

TEST(Judge, StepThatWasNotReachedFails) {
  const conformance::Test test = one_code();
  EXPECT_EQ(judge(test, said(finished)).outcome, Outcome::fail);
}

TEST(Judge, StepWithoutStatedOutcomeFails) {
  const conformance::Test test = one_code();
  const std::string other = R"({"step":"other","kind":"code","value":0})";
  EXPECT_EQ(judge(test, said(status_line(1) + other + "\n" + finished)).outcome, Outcome::fail);
}

TEST(Judge, ProcessThatStopsHalfwayFailsThoughItsExitIsGood) {
  const conformance::Test test = one_code();
  EXPECT_EQ(judge(test, said(status_line(1))).outcome, Outcome::fail);
}

TEST(Judge, SignalIsACrashAndTheLimitATimeOut) {
  const conformance::Test test = one_code();
  EXPECT_EQ(judge(test, said(status_line(1), End::signalled, SIGSEGV)).outcome, Outcome::crashed);
  EXPECT_EQ(judge(test, said(status_line(1), End::timed_out)).outcome, Outcome::timed_out);
  EXPECT_EQ(judge(test, said("", End::exited, 3)).outcome, Outcome::crashed);
}

TEST(Judge, SkipKeepsItsReasonButHidesNoForbiddenCode) {
  const conformance::Test test = one_code();
  const std::string skip = "{\"skipped\":\"needs two devices\"}\n";
  const TestResult skipped = judge(test, said(skip));
  EXPECT_EQ(skipped.outcome, Outcome::skipped);
  EXPECT_EQ(skipped.detail, "needs two devices");
  EXPECT_EQ(judge(test, said(status_line(0) + skip)).outcome, Outcome::fail);
}

TEST(Judge, FaultIsEitherSignal) {
  const conformance::Test test{
      "group.touch", "a rule", {}, {faults("touch", Source::doc)}, nullptr};
  const auto touched = [](int signal) {
    return R"({"step":"touch","kind":"signal","value":)" + std::to_string(signal) + "}\n";
  };
  EXPECT_EQ(judge(test, said(touched(SIGSEGV) + finished)).outcome, Outcome::pass);
  EXPECT_EQ(judge(test, said(touched(SIGBUS) + finished)).outcome, Outcome::pass);
  EXPECT_EQ(judge(test, said(touched(0) + finished)).outcome, Outcome::fail);
}

TEST(Suite, IdsAreUniqueAndEveryTestStatesAnOutcome) {
  std::vector<std::string> ids;
  for (const conformance::Test& test : all_tests()) {
    ids.emplace_back(test.id);
    EXPECT_FALSE(test.allowed.empty()) << test.id;
    EXPECT_NE((test.steps != nullptr), (test.call != nullptr)) << test.id;
  }
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
  EXPECT_GT(ids.size(), 400U);
}

}  // namespace
}  // namespace assay::conformance
