// The diff of two outcome lists.
#include <gtest/gtest.h>

#include <csignal>

#include "program/compare.hpp"

namespace assay::conformance {
namespace {

using Json = nlohmann::ordered_json;

Json step(const char* name, const char* kind, int value, const char* spelled) {
  return {{"step", name}, {"kind", kind}, {"value", value}, {"spelled", spelled}};
}

Json result(const std::string& outcome, const std::string& detail, const Json& observations) {
  Json json;
  json["context"] = {{"assay_schema", "assay.conformance/1"}, {"regime", "concurrent"}};
  json["tests"] = Json::array();
  json["tests"].push_back({{"id", "group.one"},
                           {"outcome", outcome},
                           {"detail", detail},
                           {"observations", observations}});
  return json;
}

Json passed(const Json& observation) {
  return result("pass", "", Json::array({observation}));
}

TEST(Compare, SameListsAreTheSame) {
  const Json one = passed(step("status", "code", 1, "invalid_value (1)"));
  const Comparison comparison = compare(one, one);
  EXPECT_EQ(comparison.incomparable, "");
  EXPECT_TRUE(comparison.differences.empty());
  EXPECT_EQ(comparison.same, 1U);
}

TEST(Compare, TwoAllowedCodesDiffer) {
  const Comparison comparison =
      compare(passed(step("status", "code", 400, "invalid_handle (400)")),
              passed(step("status", "code", 709, "context_is_destroyed (709)")));
  ASSERT_EQ(comparison.differences.size(), 1U);
  EXPECT_EQ(comparison.differences[0],
            "group.one: status: invalid_handle (400), and context_is_destroyed (709)");
}

TEST(Compare, OutcomesDiffer) {
  const Json seen = step("status", "code", 1, "invalid_value (1)");
  EXPECT_EQ(compare(passed(seen), result("skipped", "needs pools", Json::array({seen})))
                .differences.size(),
            1U);
}

TEST(Compare, SignalsOfAFaultAreTheSameAndValuesAreNotCompared) {
  EXPECT_TRUE(compare(passed(step("touch", "signal", SIGSEGV, "SIGSEGV")),
                      passed(step("touch", "signal", SIGBUS, "SIGBUS")))
                  .differences.empty());
  EXPECT_TRUE(compare(passed(step("free", "value", 1, "1")), passed(step("free", "value", 2, "2")))
                  .differences.empty());
}

TEST(Compare, WhatOneSideCannotBeAskedIsNoDifference) {
  const Json seen = step("status", "code", 1, "invalid_value (1)");
  const Comparison comparison =
      compare(passed(seen), result("skipped", "model only: undefined", Json::array()));
  EXPECT_TRUE(comparison.differences.empty());
  EXPECT_EQ(comparison.one_sided, 1U);
}

TEST(Compare, OtherRegimesAndOtherTestsCannotBeCompared) {
  const Json one = passed(step("status", "code", 1, "invalid_value (1)"));
  Json other_regime = one;
  other_regime["context"]["regime"] = "exclusive";
  EXPECT_NE(compare(one, other_regime).incomparable, "");
  Json other_test = one;
  other_test["tests"][0]["id"] = "group.two";
  EXPECT_NE(compare(one, other_test).incomparable, "");
  Json fewer = one;
  fewer["tests"] = Json::array();
  EXPECT_NE(compare(one, fewer).incomparable, "");
  EXPECT_EQ(compare(fewer, fewer).incomparable, "neither file has a test");
}

}  // namespace
}  // namespace assay::conformance
