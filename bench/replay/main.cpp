// assay-replay: what a recorded workload would do on each allocator.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include "assay/base/system.hpp"
#include "assay/harness/driver_facts.hpp"
#include "assay/harness/output.hpp"
#include "assay/harness/process.hpp"
#include "child.hpp"
#include "options.hpp"
#include "report.hpp"

namespace assay::replay {
namespace {

using harness::InputError;
using harness::LoadedTrace;
using harness::Origin;
using harness::Subject;

constexpr std::size_t timeline_points_max = 1000;
constexpr std::uint32_t threads_max = 256;

constexpr const char* footer = R"(
TRACE is an assay trace or an RMM CSV log, plain or gzip, told apart by content. Each subject
replays it in a child process of its own; one that crashes or hangs is a row, and the rest go on.

A replay whose peak of live bytes, after --scale, passes half of the memory available now is
refused, whatever --touch says: an allocator may write to what nobody touched. --allow-large
takes the risk.

A trace of several threads is replayed by as many, in recorded global order: each waits for its
turn. A trace with a 'property' is a counterexample: it is handed to assay-verify --reproduce, and
of the options only --subject applies.

Exit codes:
  0   every subject that could run replayed the trace
  1   a subject crashed or hung
  2   usage, an unreadable trace, a replay too large for this machine, or a driver that
      ASSAY_CUDA_DRIVER names and that cannot be used
  4   a row is an error (an allocation failed, ...), or a subject named by --subject was skipped
  70  internal error
  77  nothing could run here

Example:
  assay-replay training-step.csv.gz --subject heap --subject malloc --scale 1/8 --out replay.json
)";

int refuse(std::string_view message) {
  fmt::print(stderr, "assay-replay: {}\n", message);
  return exit_usage;
}

void set_up(CLI::App& app, Options& options) {
  app.footer(footer);
  app.add_option("TRACE", options.trace, "the trace to replay");
  app.add_option("--subject", options.subjects,
                 "replay on this subject only; may be given again (default: all of ours, the "
                 "system's and foreign ones)");
  // Not CLI::CheckedTransformer: it would take numbers too, and print them as raw bytes.
  app.add_option_function<std::string>(
         "--touch",
         [&options](const std::string& word) {
           options.touch = word == "none"  ? harness::Touch::none
                           : word == "all" ? harness::Touch::all
                                           : harness::Touch::first;
         },
         "write no byte, the first byte, or one byte a page of each block (default: first)")
      ->check(CLI::IsMember({"none", "first", "all"}));
  app.add_option("--repeat", options.repeat,
                 "whole repetitions, and as many with single calls timed")
      ->capture_default_str()
      ->check(CLI::Range(1U, 1000U));
  app.add_option_function<std::string>(
      "--scale",
      [&options](const std::string& text) {
        const auto scale = harness::Scale::parse(text);
        if (!scale)
          throw CLI::ValidationError("--scale", harness::quoted(text) + " is not a factor");
        options.scale = *scale;
      },
      "multiply every size by this, such as 1/8 or 0.125; at most 1024 (default: 1)");
  app.add_option_function<std::string>(
         "--threads",
         [&options](const std::string& word) {
           options.threads =
               word == "one" ? harness::PlanThreads::one : harness::PlanThreads::recorded;
         },
         "as many as recorded, or one (default: recorded)")
      ->check(CLI::IsMember({"recorded", "one"}));
  app.add_flag("--strict", options.strict,
               "refuse a trace that uses blocks it never allocated, or leaves some live");
  app.add_option("--out", options.out, "write the result as JSON to this file");
  app.add_flag("--json", options.json, "print the result as JSON instead of the tables");
  app.add_flag("--list-subjects", options.list_subjects, "list the subjects and end");
  app.add_option_function<std::uint32_t>(
         "--timeout",
         [&options](const std::uint32_t& seconds) {
           options.timeout = std::chrono::seconds(seconds);
         },
         "seconds that a subject may take (default: 120)")
      ->check(CLI::Range(1U, 86400U));
  app.add_flag("--allow-large", options.allow_large, "replay even if memory may not suffice");
}

/// The first option given that says something of a timed replay only, or empty.
std::string option_for_timing(const CLI::App& app) {
  for (const char* name : {"--touch", "--repeat", "--scale", "--threads", "--strict", "--out",
                           "--json", "--timeout", "--allow-large"}) {
    if (app.count(name) != 0) return name;
  }
  return "";
}

void list_subjects() {
  for (const Subject* subject : harness::subjects()) {
    fmt::print("{:<20} {:<8} {}\n", subject->id, harness::name_of(subject->origin),
               subject->summary);
  }
}

bool by_default(const Subject& subject) noexcept {
  return subject.origin == Origin::assay || subject.origin == Origin::system ||
         subject.origin == Origin::foreign;
}

/// The subjects to replay on, or the id that is none.
std::expected<std::vector<const Subject*>, std::string> chosen_subjects(const Options& options) {
  std::vector<const Subject*> chosen;
  if (options.subjects.empty()) {
    std::ranges::copy_if(harness::subjects(), std::back_inserter(chosen),
                         [](const Subject* subject) { return by_default(*subject); });
  }
  for (const std::string& id : options.subjects) {
    const Subject* const subject = harness::find_subject(id);
    if (subject == nullptr) return std::unexpected(id);
    if (std::ranges::find(chosen, subject) == chosen.end()) chosen.push_back(subject);
  }
  return chosen;
}

/// Hands a counterexample to the program that judges it. Returns only if that cannot be started.
int reproduce(const Options& options) {
  std::vector<std::string> words = {harness::sibling_program("assay-verify"), "--reproduce",
                                    options.trace};
  for (const std::string& id : options.subjects) {
    words.emplace_back("--subject");
    words.push_back(id);
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::fflush(nullptr);
  ::execv(arguments[0], arguments.data());
  fmt::print(stderr,
             "assay-replay: {} is a counterexample, and {}, which judges such, cannot be run: {}\n",
             options.trace, words[0], std::strerror(errno));
  return exit_nothing_ran;
}

/// Under --strict: the first row that a complete trace would not have.
std::optional<InputError> incomplete_row(const LoadedTrace& loaded,
                                         const harness::TraceFacts& facts,
                                         const std::string& path) {
  if (facts.first_unknown &&
      (!facts.first_leftover || *facts.first_unknown < *facts.first_leftover)) {
    const TraceEvent& event = loaded.trace.events[*facts.first_unknown];
    return InputError{path, loaded.rows[*facts.first_unknown],
                      fmt::format("{} of a block that no row before allocated (--strict)",
                                  harness::name_of(event.operation))};
  }
  if (facts.first_leftover) {
    return InputError{path, loaded.rows[*facts.first_leftover],
                      "allocates a block that no later row frees (--strict)"};
  }
  return std::nullopt;
}

/// Why this plan must not be replayed here, or nothing.
std::string objection(const harness::PlanView& plan, const Options& options) {
  if (plan.steps.empty()) return fmt::format("{}: holds no event to replay", options.trace);
  if (plan.threads() > threads_max) {
    return fmt::format("{}: {} threads, at most {} are replayed; use --threads one", options.trace,
                       plan.threads(), threads_max);
  }
  const std::uint64_t available = available_memory();
  if (!options.allow_large && available != 0 && plan.peak_requested > available / 2) {
    return fmt::format(
        "{}: its peak of {} bytes passes half of the {} bytes of memory available; use --scale or "
        "--allow-large",
        options.trace, plan.peak_requested, available);
  }
  return "";
}

/// Replays on each subject in turn and tells how it goes on standard error.
std::vector<Row> run_all(const std::vector<const Subject*>& chosen, const SharedPlan& plan,
                         const Options& options) {
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  std::vector<Row> rows;
  for (const Subject* subject : chosen) {
    if (terminal) {
      fmt::print(stderr, "\r\x1b[K[{}/{}] {}", rows.size() + 1, chosen.size(), subject->id);
      std::fflush(stderr);
    }
    rows.push_back(run_subject(*subject, plan, options));
    if (terminal) continue;
    const std::string& reason = rows.back().reason;
    fmt::print(stderr, "assay-replay: [{}/{}] {}: {}{}{}\n", rows.size(), chosen.size(),
               subject->id, rows.back().status, reason.empty() ? "" : ": ", reason);
  }
  if (terminal) fmt::print(stderr, "\r\x1b[K");
  return rows;
}

int tell(const Report& report) {
  const std::string json =
      to_json(report).dump(2, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
  // First what the user sees: the file may fail.
  const std::string text = report.options.json ? json : to_table(report);
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (!report.options.out.empty()) {
    if (const auto written = harness::write_atomically(report.options.out, json); !written) {
      return refuse("--out: " + written.error().describe());
    }
  }
  return exit_code(report);
}

int replay_trace(const Options& options) {
  const auto chosen = chosen_subjects(options);
  if (!chosen) {
    return refuse(fmt::format("--subject {} is not known; see --list-subjects",
                              harness::quoted(chosen.error())));
  }
  const auto loaded = harness::load_trace(options.trace);
  if (!loaded) return refuse(loaded.error().describe());
  if (loaded->trace.is_counterexample()) {
    if (options.for_timing.empty()) return reproduce(options);
    return refuse(fmt::format("{} does not apply: {} is a counterexample, which is judged again",
                              options.for_timing, options.trace));
  }
  if (loaded->trace.events.size() >= std::numeric_limits<std::uint32_t>::max()) {
    return refuse(fmt::format("{}: more than 2^32 events", options.trace));
  }
  Report report{.options = options,
                .format = loaded->format,
                .seed = loaded->trace.header.seed,
                .facts = harness::facts_of(loaded->trace),
                .timeline = harness::timeline_of(loaded->trace, timeline_points_max),
                .rows = {}};
  if (options.strict) {
    const auto bad = incomplete_row(*loaded, report.facts, options.trace);
    if (bad) return refuse(bad->describe());
  }
  if (!options.out.empty()) {
    if (const auto writable = harness::check_writable(options.out); !writable) {
      return refuse(fmt::format("--out {}: {}", options.out, describe(writable.error())));
    }
  }
  const auto plan = harness::plan_replay(loaded->trace, options.scale, options.threads);
  if (const auto why = objection(plan.view(), options); !why.empty()) return refuse(why);
  if (std::ranges::any_of(*chosen, &Subject::needs_driver)) {
    if (const auto why = harness::wrong_with_named_driver(""); !why.empty()) return refuse(why);
  }
  const auto shared = SharedPlan::make(plan.view());
  if (!shared) {
    fmt::print(stderr, "assay-replay: {}\n", describe(shared.error()));
    return exit_internal;
  }
  report.rows = run_all(*chosen, shared.value(), options);
  return tell(report);
}

int main_of(int count, char** arguments) {
  const std::span<char* const> words(arguments, static_cast<std::size_t>(count));
  if (is_child(words)) return child_main(words);
  CLI::App app(
      "Replays a recorded trace on each allocator and reports time, tail latency, "
      "footprint and\nfragmentation.",
      "assay-replay");
  Options options;
  set_up(app, options);
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? exit_good : exit_usage;
  }
  options.for_timing = option_for_timing(app);
  if (options.list_subjects) {
    list_subjects();
    return exit_good;
  }
  if (options.trace.empty()) return refuse("TRACE is needed; see --help");
  return replay_trace(options);
}

}  // namespace
}  // namespace assay::replay

int main(int count, char** arguments) {
  return assay::harness::run_program("assay-replay",
                                     [&] { return assay::replay::main_of(count, arguments); });
}
