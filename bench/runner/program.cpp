#include "program.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include "assay/cuda/driver.hpp"
#include "assay/harness/driver_facts.hpp"
#include "assay/harness/output.hpp"
#include "assay/harness/process.hpp"
#include "assay/harness/result_context.hpp"
#include "child.hpp"
#include "collect.hpp"
#include "console.hpp"
#include "result_file.hpp"

namespace assay::bench {
namespace {

using harness::Subject;

constexpr const char* schema = "assay.bench/1";

template <class... Arguments>
void complain(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::print(stderr, "assay-bench: {}\n",
             fmt::format(format, std::forward<Arguments>(arguments)...));
}

bool broken_on_purpose(const Subject& subject) {
  return subject.origin == harness::Origin::mutant || subject.origin == harness::Origin::demo;
}

/// The subjects asked for; an unknown one is told with those that are known.
std::optional<std::vector<const Subject*>> chosen_subjects(const Options& options,
                                                           const Offer& offer) {
  std::vector<const Subject*> chosen;
  for (const Subject* one : offer.subjects) {
    const bool named = std::ranges::find(options.subjects, one->id) != options.subjects.end();
    if (options.subjects.empty() ? !broken_on_purpose(*one) : named) chosen.push_back(one);
  }
  for (const std::string& id : options.subjects) {
    if (std::ranges::any_of(chosen, [&](const Subject* one) { return one->id == id; })) continue;
    std::vector<std::string_view> known;
    for (const Subject* one : offer.subjects) known.push_back(one->id);
    complain("--subject: there is no subject '{}'; there are {}", id, fmt::join(known, ", "));
    return std::nullopt;
  }
  return chosen;
}

/// What a run has come to so far.
struct Run {
  Json rows = Json::array();
  Json skipped = Json::array();
  std::size_t failed = 0;

  void skip(const Subject& subject, const std::string& reason) {
    complain("{} is skipped: {}", subject.id, reason);
    Json entry;
    entry["subject"] = std::string(subject.id);
    entry["reason"] = reason;
    skipped.push_back(std::move(entry));
  }
};

bool is_failure(const Json& row) {
  return row.contains("error_message") &&
         !row["error_message"].get<std::string>().starts_with(skip_prefix);
}

void print_subjects(const Offer& offer) {
  for (const Subject* one : offer.subjects) {
    fmt::print("{:<20} {:<8} {}{}\n", one->id, harness::name_of(one->origin), one->summary,
               is_present(*one) ? "" : fmt::format(" ({})", how_to_get(*one)));
  }
}

/// The context of the results, or what is wrong with a key of --benchmark_context.
std::optional<Json> context_of(const Options& options, bool needs_driver) {
  Json context = library_context();
  context["executable"] = "assay-bench";
  context["assay_schema"] = schema;
  context.update(harness::result_context(options.seed));
  if (needs_driver) context.update(harness::driver_context());
  context["scope"] = options.scope == Scope::full ? "full" : "standard";
  context["iteration_policy"] =
      options.smoke ? "smoke: one iteration"
                    : fmt::format("at least {} s a row", options.min_time_or_default_s());
  for (const auto& [key, value] : options.context) {
    if (context.contains(key) || key == "skipped_subjects") {
      complain("--benchmark_context: '{}' is a key of its own and cannot be set", key);
      return std::nullopt;
    }
    context[key] = value;
  }
  return context;
}

/// Rows that match, subject by subject, without those of absent subjects.
struct Absent {
  const Subject* subject;
  std::string reason;
};
struct Selection {
  std::vector<std::vector<Row>> by_subject;
  std::vector<Absent> absent;  ///< subjects of which rows would match
  std::vector<Row> all;

  [[nodiscard]] bool needs_driver() const {
    return std::ranges::any_of(by_subject,
                               [](const auto& rows) { return rows[0].subject->needs_driver; });
  }
};

/// Why no row of the subject can be measured here, or empty.
std::string why_absent(const Subject& subject, const Options& options) {
  if (!is_present(subject)) return how_to_get(subject);
  if (!subject.needs_driver || options.list_tests) return "";
  if (const auto driver = cuda::Driver::instance(); !driver) {
    const std::string why = harness::why_no_driver(driver.error().code);
    return why.empty() ? describe(driver.error()) : why;
  }
  // A smoke run checks the rows there, and shows no figure of them.
  const bool timed = !options.smoke;
  return timed && harness::driver_is_model() ? std::string(harness::not_timed_on_model) : "";
}

std::vector<Row> matching_rows(const Options& options, const Offer& offer, const RowFilter& filter,
                               std::span<const Subject* const> subjects) {
  std::vector<Row> rows = rows_of(offer, subjects, options.scope);
  std::erase_if(rows, [&](const Row& row) { return !filter.matches(row.name); });
  return rows;
}

/// What is wrong with the driver that the rows use, if one was named.
std::string wrong_with_driver(const Options& options, const Offer& offer, const RowFilter& filter,
                              std::span<const Subject* const> subjects) {
  const auto rows = matching_rows(options, offer, filter, subjects);
  const bool wanted =
      std::ranges::any_of(rows, [](const Row& row) { return row.subject->needs_driver; });
  return wanted && !options.list_tests ? harness::wrong_with_named_driver("") : "";
}

Selection select_rows(const Options& options, const Offer& offer, const RowFilter& filter,
                      std::span<const Subject* const> subjects) {
  Selection selection;
  const std::vector<Row> rows = matching_rows(options, offer, filter, subjects);
  for (const Subject* subject : subjects) {
    std::vector<Row> own;
    std::ranges::copy_if(rows, std::back_inserter(own),
                         [&](const Row& row) { return row.subject == subject; });
    if (own.empty()) continue;
    if (std::string reason = why_absent(*subject, options); !reason.empty()) {
      selection.absent.push_back({subject, std::move(reason)});
      continue;
    }
    selection.all.insert(selection.all.end(), own.begin(), own.end());
    selection.by_subject.push_back(std::move(own));
  }
  return selection;
}

void measure(const Options& options, const Selection& selection, Run& run) {
  std::optional<Table> table;
  if (!options.json_to_stdout) table.emplace(selection.all);
  Progress progress(selection.by_subject.size());
  for (const auto& rows : selection.by_subject) {
    progress.begin(rows[0].subject->id, rows.size());
    auto collected = collect(options, rows, [&](const std::string& line) { progress.said(line); });
    if (!collected) throw std::runtime_error(describe(collected.error()));
    if (const auto& reason = collected.value().skip_reason; !reason.empty()) {
      run.skip(*rows[0].subject, fmt::format("{}: install {}", reason, rows[0].subject->package));
    }
    const auto failed =
        static_cast<std::size_t>(std::ranges::count_if(collected.value().rows, is_failure));
    progress.end(failed);
    run.failed += failed;
    for (Json& row : collected.value().rows) {
      if (table) table->print(row);
      run.rows.push_back(std::move(row));
    }
    std::fflush(stdout);
  }
}

Exit deliver(const Options& options, Json context, Run run) {
  context["skipped_subjects"] = std::move(run.skipped);
  const bool nothing = run.rows.empty();
  Json document;
  document["context"] = std::move(context);
  document["benchmarks"] = std::move(run.rows);
  const std::string text = text_of(document, 2) + "\n";
  if (options.json_to_stdout) std::fwrite(text.data(), 1, text.size(), stdout);
  if (!options.out.empty()) {
    if (const auto wrote = write_whole(options.out, text); !wrote) {
      complain("--out {}: {}", options.out, describe(wrote.error()));
      return Exit::usage;
    }
  }
  if (nothing) return Exit::nothing_ran;
  if (run.failed == 0) return Exit::good;
  complain("{} rows failed", run.failed);
  return Exit::incomplete;
}

Exit run_parent(const Options& options, const Offer& offer) {
  if (options.list_subjects) {
    print_subjects(offer);
    return Exit::good;
  }
  std::string why;
  const auto filter = RowFilter::make(options.filter, why);
  if (!filter) {
    complain("--benchmark_filter: '{}' is not a regular expression: {}", options.filter, why);
    return Exit::usage;
  }
  const auto subjects = chosen_subjects(options, offer);
  if (!subjects) return Exit::usage;
  if (const auto problem = wrong_with_driver(options, offer, filter.value(), *subjects);
      !problem.empty()) {
    complain("{}", problem);
    return Exit::usage;
  }
  const Selection selection = select_rows(options, offer, filter.value(), *subjects);
  if (selection.all.empty() && selection.absent.empty()) {
    complain("--benchmark_filter: no row matches '{}'", options.filter);
    return Exit::usage;
  }
  if (options.list_tests) {
    for (const Row& row : selection.all) fmt::print("{}\n", row.name);
    return selection.all.empty() ? Exit::nothing_ran : Exit::good;
  }
  if (!options.out.empty()) {
    if (const auto writable = harness::check_writable(options.out); !writable) {
      complain("--out {}: {}", options.out, describe(writable.error()));
      return Exit::usage;
    }
  }
  auto context = context_of(options, selection.needs_driver());
  if (!context) return Exit::usage;
  Run run;
  for (const Absent& one : selection.absent) run.skip(*one.subject, one.reason);
  measure(options, selection, run);
  return deliver(options, std::move(*context), std::move(run));
}

}  // namespace

int bench_main(int argc, char** argv, const Offer& offer) noexcept {
  return harness::run_program("assay-bench", [&] {
    const Parsed parsed = parse_options(argc, argv);
    if (parsed.ends) return static_cast<int>(*parsed.ends);
    if (parsed.options.child_fd >= 0) return run_child(parsed.options, offer);
    return static_cast<int>(run_parent(parsed.options, offer));
  });
}

}  // namespace assay::bench
