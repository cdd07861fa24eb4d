#include "report.hpp"

#include <fmt/format.h>

#include "assay/harness/json_number.hpp"
#include "assay/harness/result_context.hpp"
#include "crew.hpp"
#include "row_json.hpp"

namespace assay::yardstick {
namespace {

constexpr const char* schema = "assay.yardstick/1";
constexpr std::uint64_t seed = 1;  // of the orders in which rows read

std::string time_text(double ns) {
  if (ns < 1e4) return fmt::format("{:.2f} ns", ns);
  if (ns < 1e7) return fmt::format("{:.2f} us", ns / 1e3);
  return fmt::format("{:.2f} ms", ns / 1e6);
}

void put_spread(Json& json, const std::string& name, const Spread& spread) {
  harness::put_number(json, name + "_p10", spread.p10);
  harness::put_number(json, name + "_p90", spread.p90);
}

void put_times(Json& json, const Row& row, const Outcome& outcome) {
  const Comparison& measured = outcome.comparison;
  json["iterations"] = static_cast<std::uint64_t>(outcome.counters.operations);
  harness::put_number(json, "real_time", measured.operation.median);
  harness::put_number(json, "cpu_time", outcome.counters.cpu_ns);
  json["time_unit"] = "ns";
  put_spread(json, "real_time", measured.operation);
  harness::put_number(json, "yardstick_time", measured.yardstick.median);
  put_spread(json, "yardstick_time", measured.yardstick);
  harness::put_number(json, "ratio", measured.ratio);
  put_spread(json, "ratio", measured.ratios);
  harness::put_number(json, "ratio_limit", row.limit);
}

}  // namespace

std::string table_head(std::size_t width) {
  return fmt::format("{:<{}} {:>12} {:>12} {:>7} {:>15} {:>6}  {}", "row", width, "time",
                     "yardstick", "ratio", "p10 - p90", "limit", "verdict");
}

std::string table_line(const Row& row, const Outcome& outcome, std::size_t width) {
  if (!outcome.error.empty()) {
    return fmt::format("{:<{}} ERROR: {}", id_of(row), width,
                       outcome.error.substr(error_prefix.size()));
  }
  if (!outcome.skipped.empty()) {
    return fmt::format("{:<{}} skipped: {}", id_of(row), width,
                       outcome.skipped.substr(skip_prefix.size()));
  }
  if (outcome.verdict == Verdict::checked) {
    return fmt::format("{:<{}} {:>12} {:>12} {:>7} {:>15} {:>6}  checked", id_of(row), width, "-",
                       "-", "-", "-", row.limit);
  }
  const Comparison& measured = outcome.comparison;
  return fmt::format("{:<{}} {:>12} {:>12} {:>7.2f} {:>15} {:>6}  {}", id_of(row), width,
                     time_text(measured.operation.median), time_text(measured.yardstick.median),
                     measured.ratio,
                     fmt::format("{:.2f} - {:.2f}", measured.ratios.p10, measured.ratios.p90),
                     row.limit, name_of(outcome.verdict));
}

Json json_of(const Row& row, const Outcome& outcome, std::size_t index) {
  Json json;
  // Google Benchmark's word for rows whose operation is timed by hand, part by part.
  json["name"] = id_of(row) + "/manual_time";
  json["family_index"] = index;
  json["per_family_instance_index"] = 0;
  json["run_name"] = json["name"];
  json["source_version"] = std::string(row.source_version);
  json["run_type"] = "iteration";
  json["repetitions"] = 1;
  json["repetition_index"] = 0;
  json["threads"] = row.threads;
  json["operation"] = std::string(row.summary);
  json["yardstick"] = std::string(row.yardstick);
  if (!outcome.measured()) {  // no times: a failed row must never look like a fast one
    json["error_occurred"] = true;
    json["error_message"] = outcome.error.empty() ? outcome.skipped : outcome.error;
    return json;
  }
  if (outcome.verdict != Verdict::checked) put_times(json, row, outcome);
  json["verdict"] = std::string(name_of(outcome.verdict));
  json["windows"] = outcome.windows;
  json["tries"] = outcome.tries;
  harness::put_number(json, "copied_bytes", outcome.counters.copied);
  harness::put_number(json, "page_faults", outcome.counters.page_faults);
  return json;
}

Json context_of(const Options& options) {
  Json context = bench::library_context();
  context["executable"] = "assay-yardstick";
  context["assay_schema"] = schema;
  context.update(harness::result_context(seed));
  context["scope"] = "standard";
  context["iteration_policy"] = options.smoke
                                    ? std::string("smoke: verified and counted, not timed")
                                    : fmt::format("{} windows of 0.3 ms", options.windows);
  context["pinned_cpus"] = fmt::format("{}", fmt::join(cpus(), ","));
  return context;
}

}  // namespace assay::yardstick
