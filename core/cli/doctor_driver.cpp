#include "doctor_driver.hpp"

#include <chrono>

#include <fmt/format.h>

#include "assay/cuda/driver.hpp"
#include "assay/harness/process.hpp"
#include "assay/harness/subject.hpp"

namespace assay::doctor {
namespace {

constexpr std::chrono::seconds driver_time_max{60};
constexpr std::chrono::seconds malloc_time_max{20};

/// The outcome in one word: what a script may ask for.
const char* status_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::no_driver: return "no_driver";
    case ErrorCode::no_device: return "no_device";
    case ErrorCode::driver_too_old: return "driver_too_old";
    case ErrorCode::invalid_argument: return "not_a_driver";
    default: return "driver_error";
  }
}

Json symbols_missing(const std::vector<cuda::SymbolFacts>& symbols) {
  auto list = Json::array();
  for (const cuda::SymbolFacts& one : symbols) {
    if (one.found) continue;
    list.push_back({{"symbol", one.symbol}, {"version", one.version}, {"need", one.need}});
  }
  return list;
}

/// Each feature, and whether every function of it was found.
Json features_in(const std::vector<cuda::SymbolFacts>& symbols) {
  Json features = Json::object();
  if (symbols.empty()) return features;
  for (int i = 0; i < static_cast<int>(cuda::Feature::count); ++i) {
    const std::string_view name = cuda::name_of(static_cast<cuda::Feature>(i));
    bool whole = true;
    for (const cuda::SymbolFacts& one : symbols) whole &= one.found || name != one.need;
    features[std::string(name)] = whole;
  }
  return features;
}

Json device_json(const cuda::DeviceFacts& facts) {
  Json attributes = Json::object();
  for (const cuda::AttributeRow& row : cuda::attribute_rows()) {
    attributes[row.name] = facts.attribute(row.attribute);
  }
  return {{"ordinal", facts.ordinal},
          {"name", facts.name},
          {"uuid", facts.uuid},
          {"pci_bus_id", facts.pci_bus_id.empty() ? Json() : Json(facts.pci_bus_id)},
          {"total_bytes", facts.total_bytes},
          {"compute_capability", fmt::format("{}.{}", facts.compute_major, facts.compute_minor)},
          {"multiprocessors", facts.multiprocessors},
          {"regime", std::string(cuda::name_of(facts.regime))},
          {"attributes", attributes}};
}

Json error_json(const Error& error) {
  return {{"code", name_of(error.code)},
          {"feature", error.feature},
          {"native", error.native != 0 ? Json(error.native) : Json()},
          {"native_name", error.native_name[0] != '\0' ? Json(error.native_name) : Json()}};
}

Json no_answer(const std::string& path, const std::string& message) {
  return {{"driver",
           {{"status", "driver_error"},
            {"kind", "none"},
            {"path", path.empty() ? Json() : Json(path)},
            {"version", nullptr},
            {"profile", nullptr},
            {"message", message},
            {"error", nullptr},
            {"features", Json::object()},
            {"advice_abi", nullptr},
            {"missing_symbols", Json::array()}}},
          {"devices", Json::array()}};
}

harness::ChildResult run_self(std::vector<std::string> arguments, std::chrono::milliseconds time,
                              std::vector<std::pair<std::string, std::string>> environment = {}) {
  harness::ChildSpec spec;
  spec.arguments = {harness::this_program()};
  spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
  spec.environment = std::move(environment);
  spec.timeout = time;
  auto child = harness::run_child(spec);
  if (child) return std::move(child).value();
  harness::ChildResult failed;
  failed.code = 70;
  failed.standard_error = describe(child.error());
  return failed;
}

}  // namespace

int examine_driver(const std::string& path) {
  cuda::LoadReport report;
  const auto driver = cuda::Driver::load({path}, &report);
  Json facts;
  facts["status"] = driver ? "ok" : status_of(driver.error());
  // No driver at all is of neither kind.
  facts["kind"] = report.symbols.empty() ? "none" : report.is_model ? "model" : "driver";
  facts["path"] = report.path;
  facts["version"] = report.version == 0 ? Json() : Json(cuda::version_text(report.version));
  facts["profile"] = driver && report.is_model ? Json(driver.value()->profile()) : Json();
  facts["message"] = report.message.empty() ? Json() : Json(report.message);
  facts["error"] = driver ? Json() : error_json(driver.error());
  facts["features"] = features_in(report.symbols);
  const Json by_location = facts["features"].value("advise_by_location", Json());
  facts["advice_abi"] = by_location.is_null() ? Json()
                        : by_location         ? Json("location")
                                              : Json("ordinal");
  facts["missing_symbols"] = symbols_missing(report.symbols);
  auto devices = Json::array();
  for (int i = 0; driver && i < driver.value()->device_count(); ++i) {
    const auto one = driver.value()->device_facts(i);
    devices.push_back(one ? device_json(one.value())
                          : Json{{"ordinal", i}, {"error", describe(one.error())}});
  }
  const Json all{{"driver", facts}, {"devices", devices}};
  fmt::print("{}\n", all.dump(-1, ' ', true, Json::error_handler_t::replace));
  return 0;
}

int examine_malloc(const std::string& id) {
  const harness::Subject* const subject = harness::find_subject(id);
  if (subject == nullptr) return 1;
  const auto proven = harness::prove_preload(*subject);
  if (!proven) return 1;
  fmt::print("{}\n", proven.value());
  return 0;
}

Json driver_facts(const std::string& path) {
  const auto child = run_self({driver_child, path}, driver_time_max);
  if (child.succeeded()) {
    Json facts = Json::parse(child.standard_output, nullptr, false);
    if (!facts.is_discarded() && facts.contains("driver")) return facts;
  }
  std::string words = child.standard_error;
  while (!words.empty() && words.back() == '\n') words.pop_back();
  return no_answer(path, fmt::format("the program that loaded the driver {}{}{}",
                                     child.succeeded() ? "gave no answer" : child.describe(),
                                     words.empty() ? "" : ": ", words));
}

Json allocator_facts() {
  auto list = Json::array();
  for (const harness::Subject* subject : harness::subjects()) {
    if (!subject->is_process()) continue;
    const std::string id(subject->id);
    const auto child = run_self({malloc_child, id}, malloc_time_max,
                                {{"LD_PRELOAD", std::string(subject->preload)}});
    const std::string& path = child.standard_output;
    list.push_back({{"id", id},
                    {"present", child.succeeded()},
                    {"library", child.succeeded() ? Json(path.substr(0, path.find('\n'))) : Json()},
                    {"package", std::string(subject->package)}});
  }
  return list;
}

}  // namespace assay::doctor
