#include "program/result_file.hpp"

#include <fmt/format.h>

#include "assay/harness/trace.hpp"

namespace assay::conformance {
namespace {

using Json = nlohmann::ordered_json;

bool is_test(const Json& test) {
  for (const char* key : {"id", "outcome", "detail"}) {
    if (!test.contains(key) || !test[key].is_string()) return false;
  }
  if (!test.contains("observations") || !test["observations"].is_array()) return false;
  for (const Json& each : test["observations"]) {
    const bool good = each.is_object() && each.contains("step") && each["step"].is_string() &&
                      each.contains("kind") && each["kind"].is_string() && each.contains("value") &&
                      each["value"].is_number_integer() && each.contains("spelled") &&
                      each["spelled"].is_string();
    if (!good) return false;
  }
  return true;
}

std::string problem_of(const Json& json) {
  if (!json.is_object() || !json.contains("context") || !json["context"].is_object() ||
      json["context"].value("assay_schema", "") != "assay.conformance/1") {
    return "no result of assay-conformance: context.assay_schema is not assay.conformance/1";
  }
  if (!json.contains("tests") || !json["tests"].is_array()) return "field 'tests' is no list";
  std::size_t number = 0;
  for (const Json& test : json["tests"]) {
    number += 1;
    if (!test.is_object() || !is_test(test)) {
      return fmt::format("test {} lacks a field or has one of the wrong type", number);
    }
  }
  return "";
}

}  // namespace

std::expected<Json, std::string> load_result(const std::string& path) {
  const auto text = harness::read_text(path);
  if (!text) return std::unexpected(text.error().describe());
  Json json = Json::parse(*text, nullptr, false);
  const std::string problem = problem_of(json);
  if (!problem.empty()) return std::unexpected(path + ": " + problem);
  return json;
}

std::string title_of(const Json& result) {
  const Json& context = result["context"];
  return fmt::format("{} {}{}{}", context.value("driver", "?"), context.value("profile", ""),
                     context.value("profile", "").empty() ? "" : " ",
                     context.value("driver_version", 0));
}

}  // namespace assay::conformance
