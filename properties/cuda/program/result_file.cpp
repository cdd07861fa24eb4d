#include "program/result_file.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "assay/harness/input_error.hpp"
#include "assay/harness/trace.hpp"

namespace assay::conformance {
namespace {

using Json = nlohmann::ordered_json;

/// Is the member of this type, or absent?
bool may_be(const Json& object, const char* key, Json::value_t type) {
  if (!object.contains(key)) return true;
  const Json::value_t found = object[key].type();
  return type == Json::value_t::number_integer ? object[key].is_number_integer() : found == type;
}

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
  if (!json.is_object() || !json.contains("context") || !json["context"].is_object()) {
    return "no result of assay-conformance: it has no object 'context'";
  }
  const Json& context = json["context"];
  if (!context.contains("assay_schema") || context["assay_schema"] != "assay.conformance/1") {
    return "no result of assay-conformance: context.assay_schema is not assay.conformance/1";
  }
  for (const char* key : {"driver", "profile", "device", "regime"}) {
    if (!may_be(context, key, Json::value_t::string)) {
      return fmt::format("context.{} is no text", key);
    }
  }
  if (!may_be(context, "driver_version", Json::value_t::number_integer)) {
    return "context.driver_version is no whole number";
  }
  if (!json.contains("tests") || !json["tests"].is_array()) return "field 'tests' is no list";
  std::map<std::string, std::size_t> numbers;
  std::size_t number = 0;
  for (const Json& test : json["tests"]) {
    number += 1;
    if (!test.is_object() || !is_test(test)) {
      return fmt::format("test {} lacks a field or has one of the wrong type", number);
    }
    const auto [first, is_new] = numbers.emplace(test["id"].get<std::string>(), number);
    if (!is_new) {
      return fmt::format("tests {} and {} are both {}", first->second, number,
                         harness::quoted(first->first));
    }
  }
  return "";
}

std::string not_json(const std::string& text, const Json::parse_error& error) {
  const std::size_t at = error.byte > 0 ? error.byte - 1 : 0;
  if (at >= text.size()) return fmt::format("not JSON: it ends at byte {}, half way", text.size());
  const auto line =
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  return fmt::format("not JSON: line {} (byte {}) has {}", line, error.byte,
                     harness::quoted(text.substr(at, 12)));
}

}  // namespace

std::expected<Json, std::string> load_result(const std::string& path) {
  const auto text = harness::read_text(path);
  if (!text) return std::unexpected(text.error().describe());
  auto result = parse_result(*text);
  if (!result) return std::unexpected(path + ": " + result.error());
  return result;
}

std::expected<Json, std::string> parse_result(const std::string& text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    return std::unexpected(not_json(text, error));
  }
  std::string problem = problem_of(json);
  if (!problem.empty()) return std::unexpected(std::move(problem));
  return json;
}

std::string shown(const std::string& text) {
  std::string out;
  for (const char each : text) {
    const auto byte = static_cast<unsigned char>(each);
    out += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, each);
  }
  return out;
}

std::string title_of(const Json& result) {
  const Json& context = result["context"];
  return fmt::format("{} {}{}{}", context.value("driver", "?"), context.value("profile", ""),
                     context.value("profile", "").empty() ? "" : " ",
                     context.value("driver_version", 0));
}

}  // namespace assay::conformance
