#include "options.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include "assay/harness/natural.hpp"
#include "assay/harness/result_context.hpp"

namespace assay::bench {
namespace {

constexpr const char* footer = R"(
Names are family/backing:<subject>/size:<bytes>. Each row proves its work before it is timed; one
that fails is an error row, never a fast row. Every subject runs in a process of its own.

Exit codes:
  0   every row was measured (rows of absent subjects are listed as skipped)
  2   usage, an unknown subject, a filter that matches nothing, output that cannot be written, or a
      driver that ASSAY_CUDA_DRIVER names and that cannot be used
  4   some row is an error row
  70  internal error
  77  nothing could run: every matching row belongs to an absent subject

Example:
  assay bench --benchmark_filter='^first_touch/' --out first_touch.json)";

/// "0.01" or, as newer versions of the library want it, "0.01s".
std::string parse_seconds(const std::string& text, double& seconds) {
  const char* const end = text.data() + text.size() - (text.ends_with('s') ? 1 : 0);
  const auto [stopped, failed] = std::from_chars(text.data(), end, seconds);
  if (failed != std::errc() || stopped != end || !std::isfinite(seconds) || seconds <= 0 ||
      seconds > 3600) {
    return fmt::format("'{}' is not a number of seconds above 0 and up to 3600", text);
  }
  return "";
}

std::string parse_context(const std::string& text,
                          std::vector<std::pair<std::string, std::string>>& context) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return fmt::format("'{}' is not of the form key=value", text);
  }
  const std::string key = text.substr(0, equals);
  for (const auto& [known, value] : context) {
    if (known == key) return fmt::format("the key '{}' is given twice", key);
  }
  context.emplace_back(key, text.substr(equals + 1));
  return "";
}

void add_library_options(CLI::App& app, Options& options) {
  app.add_option("--benchmark_filter", options.filter,
                 "rows to run: a POSIX extended regular expression, negated by a leading '-'")
      ->type_name("ERE");
  app.add_flag("--benchmark_list_tests", options.list_tests,
               "print the names of the rows, one a line");
  app.add_option("--out,--benchmark_out", options.out, "write the results to this JSON file")
      ->type_name("FILE");
  app.add_option("--benchmark_out_format", "format of that file")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"json"}));
  app.add_option_function<std::string>(
         "--benchmark_format",
         [&](const std::string& text) { options.json_to_stdout = text == "json"; },
         "what to print on standard output (default: console)")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"console", "json"}));
  app.add_option_function<std::string>(
         "--benchmark_min_time",
         [&](const std::string& text) {
           const auto wrong = parse_seconds(text, options.min_time_s);
           if (!wrong.empty()) throw CLI::ValidationError("--benchmark_min_time", wrong);
         },
         "seconds to time each row for (default 0.008; with --full 0.05)")
      ->type_name("SECONDS");
  app.add_option("--benchmark_repetitions", options.repetitions, "times to measure each row")
      ->check(CLI::Range(1u, 100'000u));
  app.add_option_function<std::vector<std::string>>(
         "--benchmark_context",
         [&](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             const auto wrong = parse_context(text, options.context);
             if (!wrong.empty()) throw CLI::ValidationError("--benchmark_context", wrong);
           }
         },
         "facts to add to the context of the results")
      ->type_name("KEY=VALUE,...")
      ->delimiter(',')
      ->allow_extra_args(false);
}

void add_own_options(CLI::App& app, Options& options, bool& full) {
  app.add_option("--subject", options.subjects, "measure this subject (repeatable)")
      ->type_name("ID")
      ->allow_extra_args(false);
  app.add_flag("--list-subjects", options.list_subjects,
               "list the subjects and whether they are present");
  app.add_option_function<std::string>(
         "--seed",
         [&](const std::string& text) {
           const auto wrong = harness::parse_natural(text, options.seed);
           if (!wrong.empty()) throw CLI::ValidationError("--seed", wrong);
         },
         "seed of orders and contents (default 1)")
      ->type_name("N");
  app.add_flag("--smoke", options.smoke,
               "run every row once: a check of the rows, not a measurement");
  app.add_flag("--full", full, "all sizes, and longer");
  app.add_option("--row-timeout", options.row_timeout_s, "seconds after which a row counts as hung")
      ->check(CLI::Range(1u, 86'400u))
      ->capture_default_str();
  app.add_option("--child-fd", options.child_fd)->group("");
  app.add_option("--parent-pid", options.parent_pid)->group("");
}

}  // namespace

double Options::min_time_or_default_s() const noexcept {
  if (min_time_s > 0) return min_time_s;
  return scope == Scope::full ? 0.05 : 0.008;
}

Parsed parse_options(int argc, char** argv) {
  Parsed parsed;
  bool full = false;
  CLI::App app("Measures memory allocators: verified rows, one process a subject.");
  app.name("assay-bench");
  app.footer(footer);
  app.set_version_flag("--version", [] {
    const auto context = harness::result_context(0);
    return fmt::format("assay-bench {} ({})", context["assay_version"].get<std::string>(),
                       context["commit"].get<std::string>());
  });
  add_library_options(app, parsed.options);
  add_own_options(app, parsed.options, full);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& ending) {
    const bool good = app.exit(ending) == 0;
    parsed.ends = good ? Exit::good : Exit::usage;
  }
  parsed.options.scope = full ? Scope::full : Scope::standard;
  return parsed;
}

std::vector<std::string> child_arguments(const Options& options, const std::string& program,
                                         const std::string& subject, int fd) {
  std::vector<std::string> arguments = {
      program,
      fmt::format("--child-fd={}", fd),
      fmt::format("--parent-pid={}", ::getpid()),
      fmt::format("--subject={}", subject),
      fmt::format("--benchmark_filter={}", options.filter),
      fmt::format("--benchmark_min_time={}", options.min_time_or_default_s()),
      fmt::format("--benchmark_repetitions={}", options.repetitions),
      fmt::format("--seed={}", options.seed),
      fmt::format("--row-timeout={}", options.row_timeout_s),
  };
  if (options.scope == Scope::full) arguments.emplace_back("--full");
  if (options.smoke) arguments.emplace_back("--smoke");
  return arguments;
}

}  // namespace assay::bench
