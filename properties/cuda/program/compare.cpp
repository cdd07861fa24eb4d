#include "program/compare.hpp"

#include <csignal>
#include <map>

#include <fmt/format.h>

#include "program/result_file.hpp"

namespace assay::conformance {
namespace {

using Json = nlohmann::ordered_json;

std::string why_incomparable(const Json& left, const Json& right) {
  for (const char* key : {"assay_schema", "regime"}) {
    const std::string a = left["context"].value(key, "");
    const std::string b = right["context"].value(key, "");
    if (a != b) return fmt::format("context.{} differs: '{}' and '{}'", key, a, b);
  }
  if (left["tests"].size() != right["tests"].size()) {
    return fmt::format("{} tests and {}: run both with the same program and the same --filter",
                       left["tests"].size(), right["tests"].size());
  }
  if (left["tests"].empty()) return "neither file has a test";
  for (std::size_t i = 0; i < left["tests"].size(); ++i) {
    if (left["tests"][i]["id"] != right["tests"][i]["id"]) {
      return fmt::format("test {} is '{}' and '{}'", i + 1,
                         left["tests"][i]["id"].get<std::string>(),
                         right["tests"][i]["id"].get<std::string>());
    }
  }
  return "";
}

/// Step to what was seen there, in words; values are a run's own affair.
std::map<std::string, std::string> seen_in(const Json& test) {
  std::map<std::string, std::string> steps;
  for (const Json& each : test["observations"]) {
    const std::string kind = each["kind"].get<std::string>();
    if (kind == "value") continue;
    const auto number = each["value"].get<std::int64_t>();
    const bool fault = kind == "signal" && (number == SIGSEGV || number == SIGBUS);
    steps[each["step"].get<std::string>()] = fault ? "a fault" : each["spelled"].get<std::string>();
  }
  return steps;
}

bool one_sided(const Json& test) {
  const std::string detail = test["detail"].get<std::string>();
  return test["outcome"] == "skipped" &&
         (detail.starts_with("model only:") || detail.starts_with("driver only:"));
}

void compare_test(const Json& left, const Json& right, Comparison& into) {
  if (one_sided(left) || one_sided(right)) {
    into.one_sided += 1;
    return;
  }
  const std::string id = left["id"].get<std::string>();
  const std::size_t before = into.differences.size();
  if (left["outcome"] != right["outcome"]) {
    into.differences.push_back(
        fmt::format("{}: {} ({}), and {} ({})", id, left["outcome"].get<std::string>(),
                    left["detail"].get<std::string>(), right["outcome"].get<std::string>(),
                    right["detail"].get<std::string>()));
  }
  const auto theirs = seen_in(right);
  for (const auto& [step, seen] : seen_in(left)) {
    const auto found = theirs.find(step);
    if (found != theirs.end() && found->second != seen) {
      into.differences.push_back(fmt::format("{}: {}: {}, and {}", id, step, seen, found->second));
    }
  }
  if (into.differences.size() == before) into.same += 1;
}

std::string side(const Json& json) {
  return shown(fmt::format("{} ({})", title_of(json), json["context"].value("device", "?")));
}

}  // namespace

Comparison compare(const Json& left, const Json& right) {
  Comparison comparison;
  comparison.incomparable = why_incomparable(left, right);
  if (!comparison.incomparable.empty()) return comparison;
  for (std::size_t i = 0; i < left["tests"].size(); ++i) {
    compare_test(left["tests"][i], right["tests"][i], comparison);
  }
  return comparison;
}

int compare_files(const std::string& left_path, const std::string& right_path) {
  const auto left = load_result(left_path);
  const auto right = load_result(right_path);
  for (const auto* each : {&left, &right}) {
    if (each->has_value()) continue;
    fmt::print(stderr, "assay-conformance: {}\n", each->error());
    return 2;
  }
  const Comparison comparison = compare(*left, *right);
  fmt::print("{}\nagainst {}\n\n", side(*left), side(*right));
  if (!comparison.incomparable.empty()) {
    fmt::print("not comparable: {}\n", shown(comparison.incomparable));
    return 3;
  }
  for (const std::string& difference : comparison.differences) {
    fmt::print("{}\n", shown(difference));
  }
  fmt::print("{} tests are the same, {} differences, {} tests are for one side only\n",
             comparison.same, comparison.differences.size(), comparison.one_sided);
  return comparison.differences.empty() ? 0 : 1;
}

}  // namespace assay::conformance
