// SuiteResult: what a run of the suite found, as a value, as JSON, as tables.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "assay/harness/process.hpp"
#include "suite/observation.hpp"

namespace assay::conformance {

enum class Outcome : std::uint8_t { pass, fail, skipped, crashed, timed_out };
[[nodiscard]] std::string_view name_of(Outcome outcome) noexcept;
[[nodiscard]] constexpr bool is_bad(Outcome outcome) noexcept {
  return outcome != Outcome::pass && outcome != Outcome::skipped;
}

struct TestResult {
  const Test* test = nullptr;
  Outcome outcome = Outcome::skipped;
  std::string detail;  ///< what failed, or why it did not run
  Transcript said;
  double elapsed_ms = 0;
};

/// What the process of a test did, held against the test's allowed outcomes.
[[nodiscard]] TestResult judge(const Test& test, const harness::ChildResult& child);

struct SuiteResult {
  nlohmann::ordered_json facts = nlohmann::ordered_json::object();  ///< as `--facts` prints them
  std::vector<TestResult> tests;

  [[nodiscard]] std::size_t count(Outcome outcome) const noexcept;
};

/// assay.conformance/1, which docs/formats.md describes.
[[nodiscard]] nlohmann::ordered_json to_json(const SuiteResult& result);
/// One line for each group, then every test that is not a pass, then the sum.
[[nodiscard]] std::string to_table(const SuiteResult& result);

}  // namespace assay::conformance
