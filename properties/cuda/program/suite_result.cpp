#include "program/suite_result.hpp"

#include <map>

#include <fmt/format.h>

#include "assay/harness/result_context.hpp"

namespace assay::conformance {
namespace {

using Json = nlohmann::ordered_json;

Json observation_json(const Observation& seen, const Test& test) {
  Json json = {{"step", seen.step},
               {"kind", name_of(seen.kind)},
               {"value", seen.value},
               {"spelled", spell(seen.kind, seen.value)}};
  for (const Expectation& expectation : test.allowed) {
    if (seen.step != expectation.step) continue;
    json["allowed"] = expectation.allowed;
    json["source"] = name_of(expectation.source);
  }
  return json;
}

Json test_json(const TestResult& result) {
  Json json = {{"id", result.test->id},
               {"states", result.test->states},
               {"outcome", name_of(result.outcome)},
               {"detail", result.detail},
               {"elapsed_ms", result.elapsed_ms}};
  json["observations"] = Json::array();
  for (const Observation& seen : result.said.observations) {
    json["observations"].push_back(observation_json(seen, *result.test));
  }
  json["notes"] = result.said.notes;
  return json;
}

}  // namespace

Json to_json(const SuiteResult& result) {
  Json context = harness::result_context(0);
  context["assay_schema"] = "assay.conformance/1";
  for (const auto& [key, fact] : result.facts.items()) {
    if (key != "rule_list") context[key] = fact;  // "rules" is its fingerprint
  }
  Json json;
  json["context"] = context;
  json["summary"] = {{"tests", result.tests.size()}};
  for (const Outcome outcome :
       {Outcome::pass, Outcome::fail, Outcome::skipped, Outcome::crashed, Outcome::timed_out}) {
    json["summary"][std::string(name_of(outcome))] = result.count(outcome);
  }
  json["tests"] = Json::array();
  for (const TestResult& each : result.tests) json["tests"].push_back(test_json(each));
  return json;
}

std::string to_table(const SuiteResult& result) {
  struct Row {
    std::size_t tests = 0, passed = 0, skipped = 0, bad = 0;
  };
  std::vector<std::string> order;
  std::map<std::string, Row> rows;
  std::string remarks;
  for (const TestResult& each : result.tests) {
    const std::string group = group_of(*each.test);
    if (!rows.contains(group)) order.push_back(group);
    Row& row = rows[group];
    row.tests += 1;
    row.passed += each.outcome == Outcome::pass ? 1 : 0;
    row.skipped += each.outcome == Outcome::skipped ? 1 : 0;
    row.bad += is_bad(each.outcome) ? 1 : 0;
    if (each.outcome != Outcome::pass) {
      remarks +=
          fmt::format("{:<9} {:<44} {}\n", name_of(each.outcome), each.test->id, each.detail);
    }
  }
  std::string text =
      fmt::format("{:<18} {:>6} {:>7} {:>8} {:>5}\n", "group", "tests", "passed", "skipped", "bad");
  for (const std::string& group : order) {
    const Row& row = rows[group];
    text += fmt::format("{:<18} {:>6} {:>7} {:>8} {:>5}\n", group, row.tests, row.passed,
                        row.skipped, row.bad);
  }
  text += "\n" + remarks;
  text += fmt::format("\n{} tests: {} passed, {} failed, {} crashed, {} timed out, {} skipped\n",
                      result.tests.size(), result.count(Outcome::pass), result.count(Outcome::fail),
                      result.count(Outcome::crashed), result.count(Outcome::timed_out),
                      result.count(Outcome::skipped));
  return text;
}

}  // namespace assay::conformance
