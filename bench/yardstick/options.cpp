#include "options.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "assay/harness/natural.hpp"
#include "assay/harness/result_context.hpp"

namespace assay::yardstick {
namespace {

constexpr const char* footer = R"(
A row is an operation beside its yardstick: what the least work would cost, on this machine, in this
process, at this moment. Both run in turns, in windows of 0.3 ms; the ratio of the medians is held
against the row's limit. A row whose median lies above 1.3 times its 10th percentile was disturbed:
it is measured again, up to four times, and then called disturbed. Each row verifies its answer
before it is timed, and counts payload bytes copied and pages faulted in while it is.

Exit codes:
  0   every row was measured, whether its limit is met or not
  1   a row is an error row: a wrong answer, a failed operation, a violated counter
  2   usage, a filter that matches nothing, or output that cannot be written
  5   under --strict: a limit is missed, or a row was disturbed
  70  internal error
  77  nothing could run: every matching row needs more CPUs than there are

Example:
  assay yardstick --filter '^B1\.|^B4\.' --json yardstick.json)";

constexpr std::uint64_t windows_least = 11;
constexpr std::uint64_t windows_most = 100'000;

void add_options(CLI::App& app, Options& options) {
  app.add_option("--filter", options.filter,
                 "rows to run: a POSIX extended regular expression, negated by a leading '-'")
      ->type_name("ERE");
  app.add_flag("--list", options.list, "list the rows with their yardsticks and limits, and end");
  app.add_option_function<std::string>(
         "--windows",
         [&options](const std::string& text) {
           auto wrong = harness::parse_natural(text, options.windows);
           if (wrong.empty() &&
               (options.windows < windows_least || options.windows > windows_most)) {
             wrong = fmt::format("{} is not between {} and {}", options.windows, windows_least,
                                 windows_most);
           }
           if (!wrong.empty()) throw CLI::ValidationError("--windows", wrong);
         },
         "windows of each side of a row (default 101; a row of long operations takes fewer)")
      ->type_name("N");
  app.add_option("--json", options.json, "write the results to this file, as benchmarks do")
      ->type_name("FILE")
      ->check([](const std::string& path) { return path.empty() ? "the path is empty" : ""; });
  app.add_flag("--smoke", options.smoke, "verify and count every row, and time none");
  app.add_flag("--strict", options.strict, "end with 5 if a limit is missed or a row disturbed");
}

}  // namespace

Parsed parse_options(int argc, char** argv) {
  Parsed parsed;
  CLI::App app("Holds operations against yardsticks: ratios that mean the same on every machine.");
  app.name("assay-yardstick");
  app.footer(footer);
  app.set_version_flag("--version", [] {
    const auto context = harness::result_context(0);
    return fmt::format("assay-yardstick {} ({})", context["assay_version"].get<std::string>(),
                       context["commit"].get<std::string>());
  });
  add_options(app, parsed.options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& ending) {
    parsed.ends = app.exit(ending) == 0 ? Exit::good : Exit::usage;
  }
  return parsed;
}

}  // namespace assay::yardstick
