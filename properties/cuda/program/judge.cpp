// judge: a test's transcript against its allowed outcomes.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "program/suite_result.hpp"

namespace assay::conformance {
namespace {

std::string spell_allowed(const Expectation& expectation) {
  std::string text;
  for (const std::int64_t each : expectation.allowed) {
    text += (text.empty() ? "" : " or ") + spell(expectation.kind, each);
  }
  return text;
}

const Expectation* expectation_of(const Test& test, const std::string& step) {
  for (const Expectation& expectation : test.allowed) {
    if (step == expectation.step) return &expectation;
  }
  return nullptr;
}

/// The first observation that is not allowed, in words; empty if there is none.
std::string forbidden(const Test& test, const std::vector<Observation>& seen) {
  for (const Observation& each : seen) {
    const Expectation* const expectation = expectation_of(test, each.step);
    if (expectation == nullptr || expectation->kind != each.kind) {
      return fmt::format("the test states no outcome for '{}'", each.step);
    }
    if (!allows(*expectation, each.value)) {
      return fmt::format("{}: {}, allowed is {} {}", each.step, spell(each.kind, each.value),
                         spell_allowed(*expectation), name_of(expectation->source));
    }
  }
  return "";
}

std::string never_reached(const Test& test, const std::vector<Observation>& seen) {
  for (const Expectation& expectation : test.allowed) {
    const bool reached = std::any_of(seen.begin(), seen.end(), [&](const Observation& each) {
      return each.step == expectation.step;
    });
    if (!reached) return fmt::format("'{}' was not observed", expectation.step);
  }
  return "";
}

std::string last_line(const std::string& text) {
  const auto end = text.find_last_not_of('\n');
  if (end == std::string::npos) return "";
  const auto start = text.rfind('\n', end);
  const auto from = start == std::string::npos ? 0 : start + 1;
  return "; " + text.substr(from, std::min<std::size_t>(end + 1 - from, 200));
}

std::string after(const Transcript& said) {
  return said.observations.empty() ? std::string(" before its first step")
                                   : fmt::format(" after '{}'", said.observations.back().step);
}

}  // namespace

std::string_view name_of(Outcome outcome) noexcept {
  constexpr std::string_view names[] = {"pass", "FAIL", "skipped", "crashed", "timed out"};
  return names[static_cast<std::size_t>(outcome)];
}

TestResult judge(const Test& test, const harness::ChildResult& child) {
  using End = harness::ChildResult::End;
  TestResult result;
  result.test = &test;
  result.said = read_transcript(child.standard_output);
  const Transcript& said = result.said;
  const std::string wrong = forbidden(test, said.observations);
  if (child.end == End::timed_out) {
    result.outcome = Outcome::timed_out;
    result.detail = child.describe() + after(said);
  } else if (!child.succeeded()) {
    result.outcome = Outcome::crashed;
    result.detail = child.describe() + after(said) + last_line(child.standard_error);
  } else if (!wrong.empty()) {
    result.outcome = Outcome::fail;
    result.detail = wrong;
  } else if (!said.skipped.empty()) {
    result.outcome = Outcome::skipped;
    result.detail = said.skipped;
  } else if (!said.garbled.empty()) {
    result.outcome = Outcome::fail;
    result.detail = "unreadable: " + said.garbled.substr(0, 120);
  } else if (!said.setup.empty()) {
    result.outcome = Outcome::fail;
    result.detail = said.setup;
  } else if (!said.finished) {
    result.outcome = Outcome::fail;
    result.detail = "the process ended" + after(said) + last_line(child.standard_error);
  } else {
    result.detail = never_reached(test, said.observations);
    result.outcome = result.detail.empty() ? Outcome::pass : Outcome::fail;
  }
  return result;
}

std::size_t SuiteResult::count(Outcome outcome) const noexcept {
  return static_cast<std::size_t>(std::count_if(
      tests.begin(), tests.end(), [&](const TestResult& each) { return each.outcome == outcome; }));
}

}  // namespace assay::conformance
