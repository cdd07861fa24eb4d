#include "report.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "assay/harness/driver_facts.hpp"
#include "assay/harness/json_number.hpp"
#include "assay/harness/result_context.hpp"

namespace assay::replay {
namespace {

using Json = nlohmann::ordered_json;
using Line = std::vector<std::string>;

/// What an empty timer reads: the largest of the children, each of which measured it.
double timer_cost_ns(const Report& report) {
  double cost = 0;
  for (const Row& row : report.rows) cost = std::max(cost, row.timer_cost_ns);
  return cost;
}

bool used_driver(const Row& row) {
  const harness::Subject* const subject = harness::find_subject(row.subject);
  return subject != nullptr && subject->needs_driver && row.status != "skipped";
}

Json trace_json(const Report& report) {
  const harness::TraceFacts& facts = report.facts;
  Json json;
  json["path"] = report.options.trace;
  json["format"] = harness::name_of(report.format);
  json["rows"] = facts.rows;
  json["allocations"] = facts.allocations;
  json["frees"] = facts.frees;
  json["unknown_frees"] = facts.unknown_frees;
  json["failed_allocations"] = facts.failed;
  json["live_at_end"] = facts.live_at_end;
  json["live_bytes_at_end"] = facts.live_bytes_at_end;
  json["peak_live_bytes"] = facts.peak_live_bytes;
  json["threads"] = facts.threads;
  json["streams"] = facts.streams;
  if (facts.resizes != 0) json["resizes"] = facts.resizes;
  if (facts.zero_size != 0) json["zero_size_events"] = facts.zero_size;
  if (facts.unknown_others != 0) json["unknown_operations"] = facts.unknown_others;
  return json;
}

/// Columns padded to their widest cell, the first left, the others right.
std::string aligned(const std::vector<Line>& lines) {
  std::vector<std::size_t> widths;
  for (const Line& line : lines) {
    widths.resize(std::max(widths.size(), line.size()));
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const Line& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      text += i == 0 ? fmt::format("{:<{}}", line[i], widths[i])
                     : fmt::format("  {:>{}}", line[i], widths[i]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

std::string mebibytes(const Json& bytes) {
  if (bytes.is_null()) return "-";
  return fmt::format("{:.1f}", static_cast<double>(bytes.get<std::uint64_t>()) / (1 << 20));
}

std::string percent(const Json& share) {
  return share.is_null() ? "-" : fmt::format("{:.1f}", share.get<double>() * 100);
}

void add_times(Line& line, const Json& operation) {
  const bool below = operation.at("below_timer").get<bool>();
  for (const char* key : {"p50_ns", "p99_ns", "p999_ns", "max_ns"}) {
    const Json& value = operation.at(key);
    line.push_back(value.is_null() ? "-"
                                   : fmt::format("{:.0f}{}", value.get<double>(),
                                                 below && key[1] == '5' ? "*" : ""));
  }
}

std::string times_table(const Report& report) {
  std::vector<Line> lines = {{"subject", "time ms", "alloc p50", "p99", "p99.9", "max ns",
                              "free p50", "p99", "p99.9", "max ns"}};
  for (const Row& row : report.rows) {
    if (row.status != "ok") continue;
    Line line = {row.subject, fmt::format("{:.3f}", row.figures.at("time_s").get<double>() * 1e3)};
    add_times(line, row.figures.at("operations").at("allocate"));
    add_times(line, row.figures.at("operations").at("deallocate"));
    lines.push_back(std::move(line));
  }
  return aligned(lines);
}

std::string footprint_table(const Report& report) {
  std::vector<Line> lines = {
      {"at peak, MiB", "requested", "granted", "reserved", "resident", "internal %", "external %"}};
  for (const Row& row : report.rows) {
    if (row.status != "ok") continue;
    const Json& peak = row.figures.at("peak");
    lines.push_back({row.subject, mebibytes(peak.at("requested_bytes")),
                     mebibytes(peak.at("granted_bytes")), mebibytes(peak.at("reserved_bytes")),
                     mebibytes(peak.at("resident_bytes")),
                     percent(row.figures.at("internal_fragmentation")),
                     percent(row.figures.at("external_fragmentation"))});
  }
  return aligned(lines);
}

std::string facts_text(const Report& report) {
  const harness::TraceFacts& facts = report.facts;
  std::string text = fmt::format(
      "{} ({}): {} events, {} allocations, {} frees, peak {} bytes live, threads {}, streams {}\n",
      report.options.trace, harness::name_of(report.format), facts.rows, facts.allocations,
      facts.frees, facts.peak_live_bytes, facts.threads, facts.streams);
  const auto note = [&text](std::uint64_t count, std::string_view what) {
    if (count != 0) text += fmt::format("  {} {}\n", count, what);
  };
  note(facts.unknown_frees, "frees of blocks that the trace never allocated: skipped");
  note(facts.unknown_others, "other operations on such blocks: skipped");
  note(facts.failed, "allocations that failed when recorded: skipped");
  note(facts.zero_size, "allocations or resizes to 0 bytes: no call is made for an empty block");
  if (facts.live_at_end != 0) {
    text += fmt::format("  {} blocks ({} bytes) live at the end: freed after each repetition\n",
                        facts.live_at_end, facts.live_bytes_at_end);
  }
  if (report.options.scale.value() != 1) {
    text += fmt::format("  sizes scaled by {:.6g}\n", report.options.scale.value());
  }
  return text;
}

}  // namespace

Json to_json(const Report& report) {
  Json json;
  json["schema"] = "assay.replay/1";
  json["context"] = harness::result_context(report.seed);
  if (std::ranges::any_of(report.rows, used_driver)) {
    json["context"].update(harness::driver_context());
  }
  json["context"]["assay_schema"] = "assay.replay/1";
  json["trace"] = trace_json(report);
  Json& options = json["options"];
  options["touch"] = name_of(report.options.touch);
  options["repeat"] = report.options.repeat;
  options["scale"] = report.options.scale.value();
  json["timer_cost_ns"] = harness::json_number(timer_cost_ns(report));
  json["runs"] = Json::array();
  for (const Row& row : report.rows) json["runs"].push_back(to_json(row));
  json["timeline"] = Json::array();
  for (const harness::TimelinePoint& point : report.timeline) {
    json["timeline"].push_back({{"event", point.event}, {"live_bytes", point.live_bytes}});
  }
  return json;
}

std::string to_table(const Report& report) {
  std::string text = facts_text(report);
  const bool any_ok =
      std::ranges::any_of(report.rows, [](const Row& row) { return row.status == "ok"; });
  if (any_ok) text += '\n' + times_table(report) + '\n' + footprint_table(report) + '\n';
  for (const Row& row : report.rows) {
    if (row.status != "ok")
      text += fmt::format("{}: {}: {}\n", row.subject, row.status, row.reason);
  }
  if (any_ok) {
    text += fmt::format(
        "Times: the median of {} whole repetitions, without a clock inside. Latencies: a clock "
        "around\neach call, which costs {:.1f} ns; * marks a median below three times that.\n",
        report.options.repeat, timer_cost_ns(report));
  }
  return text;
}

int exit_code(const Report& report) {
  const auto any = [&](std::string_view status) {
    return std::ranges::any_of(report.rows, [&](const Row& row) { return row.status == status; });
  };
  if (any("crashed") || any("timed_out")) return exit_bad;
  if (any("error")) return exit_incomplete;
  if (!any("ok")) return exit_nothing_ran;
  return any("skipped") && !report.options.subjects.empty() ? exit_incomplete : exit_good;
}

}  // namespace assay::replay
