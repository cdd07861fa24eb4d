#include "row_json.hpp"

#include <algorithm>
#include <locale>
#include <sstream>

#include <fmt/format.h>

#include "assay/harness/json_number.hpp"

namespace assay::bench {
namespace {

using Run = benchmark::BenchmarkReporter::Run;

/// Below this a loop did no work that memory or a call could have done (fault:B-39).
constexpr double least_ns_per_operation = 0.5;

/// The "C" locale, while this lives.
class PlainLocale {
 public:
  PlainLocale() : before_(std::locale::global(std::locale::classic())) {}
  ~PlainLocale() { std::locale::global(before_); }
  PlainLocale(const PlainLocale&) = delete;
  PlainLocale& operator=(const PlainLocale&) = delete;

 private:
  std::locale before_;
};

Json head_of(const Row& row) {
  Json json;
  json["name"] = row.name;
  json["family_index"] = row.family_index;
  json["per_family_instance_index"] = row.instance_index;
  json["run_name"] = row.name;
  json["source_version"] = std::string(row.family->source_version);
  return json;
}

void put_times(Json& json, const Row& row, const Run& run) {
  json["iterations"] = run.iterations;
  harness::put_number(json, "real_time", run.GetAdjustedRealTime());
  harness::put_number(json, "cpu_time", run.GetAdjustedCPUTime());
  json["time_unit"] = benchmark::GetTimeUnitString(run.time_unit);
  const auto operations = static_cast<double>(std::max<std::size_t>(row.family->allocations, 1));
  const double to_ns = 1e9 / benchmark::GetTimeUnitMultiplier(run.time_unit);
  const double ns = std::min(run.GetAdjustedRealTime(), run.GetAdjustedCPUTime()) * to_ns;
  if (run.run_type == Run::RT_Iteration && run.iterations > 1 &&
      ns / operations < least_ns_per_operation) {
    json["suspicious"] = 1;
    json["label"] = fmt::format("assay: suspicious: under {} ns per operation, work was removed",
                                least_ns_per_operation);
  }
}

}  // namespace

Json json_of(const Row& row, const Run& run) {
  Json json = head_of(row);
  const bool aggregate = run.run_type == Run::RT_Aggregate;
  json["run_type"] = aggregate ? "aggregate" : "iteration";
  json["repetitions"] = run.repetitions;
  if (!aggregate) json["repetition_index"] = run.repetition_index;
  json["threads"] = run.threads;
  if (aggregate) {
    json["name"] = fmt::format("{}_{}", row.name, run.aggregate_name);
    json["aggregate_name"] = run.aggregate_name;
    json["aggregate_unit"] = run.aggregate_unit == benchmark::kPercentage ? "percentage" : "time";
  }
  if (run.error_occurred) {
    json["error_occurred"] = true;
    json["error_message"] = run.error_message;
    return json;  // no times: a failed row must never look like a fast one
  }
  put_times(json, row, run);
  for (const auto& [name, counter] : run.counters) {
    harness::put_number(json, name, counter.value);
  }
  if (!run.report_label.empty() && !json.contains("label")) json["label"] = run.report_label;
  return json;
}

Json error_row(const Row& row, const std::string& message) {
  Json json = head_of(row);
  json["run_type"] = "iteration";
  json["repetitions"] = 1;
  json["repetition_index"] = 0;
  json["threads"] = 1;
  json["error_occurred"] = true;
  json["error_message"] = message;
  return json;
}

Json library_context() {
  // Only the library itself knows how it was built, and only its JSON reporter tells. That one
  // groups digits as the global locale has it, which is not JSON (fault:B-36).
  const PlainLocale plain;
  std::ostringstream text;
  benchmark::JSONReporter reporter;
  reporter.SetOutputStream(&text);
  reporter.ReportContext(benchmark::BenchmarkReporter::Context());
  Json context = Json::parse(text.str() + "]}")["context"];
  for (const char* key : {"date", "host_name", "executable"}) context.erase(key);
  return context;
}

std::string text_of(const Json& document, int indent) {
  return document.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace assay::bench
