// assay-conformance: does this CUDA driver, or the model of one, keep the driver's contract?
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "assay/harness/driver_facts.hpp"
#include "assay/harness/natural.hpp"
#include "assay/harness/output.hpp"
#include "assay/harness/trace.hpp"
#include "program/campaign.hpp"
#include "program/child.hpp"
#include "program/compare.hpp"
#include "program/markdown.hpp"
#include "program/mutants.hpp"
#include "sequences/sequences.hpp"

namespace assay::conformance {
namespace {

constexpr int exit_good = 0;
constexpr int exit_bad = 1;
constexpr int exit_usage = 2;
constexpr int exit_nothing = 77;

constexpr const char* footer =
    "Exit codes: 0 every test passed or was skipped with a reason; 1 a test failed, crashed or "
    "hung "
    "(--diff: the\nlists differ); 2 usage, unreadable input, or no driver to use; 3 --diff: the "
    "files cannot be "
    "compared; 70 internal error; 77 no\ndriver or no device, nothing could run.\n"
    "Example: assay-conformance --driver lib/libassay_cuda_model.so --profile h200 --jobs 4 "
    "--out model.json";

struct Options {
  DriverChoice driver;
  std::string out;
  std::vector<std::string> markdown;
  std::vector<std::string> filters;
  std::vector<std::string> more_profiles;
  std::vector<std::string> diff;
  std::string one;
  unsigned jobs = 4;
  bool facts = false;
  bool list = false;
  bool mutants = false;
  bool verbose = false;
  SequencePlan sequences{};
  bool sequence_child = false;
};

int usage_error(const std::string& message) {
  fmt::print(stderr, "assay-conformance: {}\n", message);
  return exit_usage;
}

std::vector<const Test*> chosen(const std::vector<std::string>& filters) {
  std::vector<const Test*> tests;
  for (const Test& test : all_tests()) {
    bool wanted = filters.empty();
    for (const std::string& filter : filters) {
      wanted = wanted || std::string_view(test.id).find(filter) != std::string_view::npos;
    }
    if (wanted) tests.push_back(&test);
  }
  return tests;
}

void list_tests(const std::vector<const Test*>& tests) {
  for (const Test* test : tests) {
    fmt::print("{}\n  {}\n", test->id, test->states);
    for (const Expectation& expectation : test->allowed) {
      std::string allowed;
      for (const std::int64_t each : expectation.allowed) {
        allowed += (allowed.empty() ? "" : " or ") + spell(expectation.kind, each);
      }
      fmt::print("    {}: {} {}\n", expectation.step, allowed.empty() ? "recorded" : allowed,
                 name_of(expectation.source));
    }
  }
}

/// Why no suite can run, told; the exit code.
int no_suite(const Facts& facts) {
  fmt::print(stderr, "assay-conformance: {}\n", facts.why);
  if (facts.exit_code != exit_nothing) return facts.exit_code;
  fmt::print(stderr,
             "assay-conformance: nothing was run. Name a driver, or the model, with --driver.\n");
  return exit_nothing;
}

int run_suite(const Options& options) {
  CampaignPlan plan;
  plan.driver = options.driver;
  plan.jobs = options.jobs;
  plan.tests = chosen(options.filters);
  if (plan.tests.empty()) return usage_error("--filter: no test has such an id; see --list");
  if (!options.out.empty()) {
    if (const auto good = harness::check_writable(options.out); !good) {
      return usage_error(fmt::format("--out {}: {}", options.out, describe(good.error())));
    }
  }
  const Facts facts = ask_facts(options.driver);
  if (!facts.why.empty()) return no_suite(facts);
  if (options.verbose) {
    plan.on_result = [](const TestResult& result) {
      fmt::print(stderr, "{:<9} {} {}\n", name_of(result.outcome), result.test->id, result.detail);
    };
  }
  SuiteResult result = run_campaign(plan);
  result.facts = facts.json;
  const std::string shown = to_table(result);
  fmt::print("{} {} {}: {}, memory regime {}\n\n", facts.json.value("driver", ""),
             facts.json.value("profile", ""), facts.json.value("driver_version", 0),
             facts.json.value("device", ""), facts.json.value("regime", ""));
  std::fwrite(shown.data(), 1, shown.size(), stdout);
  if (!options.out.empty()) {
    const auto written = harness::write_atomically(options.out, to_json(result).dump(1) + "\n");
    if (!written) return usage_error("--out: " + written.error().describe());
  }
  bool bad = false;
  bool ran = false;
  for (const TestResult& each : result.tests) {
    bad = bad || is_bad(each.outcome);
    ran = ran || each.outcome != Outcome::skipped;
  }
  if (bad) return exit_bad;
  return ran ? exit_good : exit_nothing;
}

CLI::Option* add_natural(CLI::App& app, const char* name, std::uint64_t& number,
                         std::uint64_t least, const char* help) {
  return app
      .add_option_function<std::string>(
          name,
          [&number, name, least](const std::string& text) {
            auto wrong = harness::parse_natural(text, number);
            if (wrong.empty() && number < least) wrong = fmt::format("is at least {}", least);
            if (!wrong.empty()) throw CLI::ValidationError(name, wrong);
          },
          help)
      ->type_name("N");
}

std::string not_empty(const std::string& text) {
  return text.empty() ? "it is empty" : "";
}

/// What the program does instead of running the suite, and what each of these heeds.
void declare_modes(CLI::App& app, Options& options) {
  app.add_option("--diff", options.diff, "compare the outcome lists of two result files")
      ->expected(2)
      ->type_name("FILE FILE");
  app.add_option("--markdown", options.markdown,
                 "print tables of one result file (again for more, one column each)")
      ->type_name("FILE");
  app.add_flag("--list", options.list, "print all tests with their allowed outcomes and sources");
  app.add_flag("--mutants", options.mutants,
               "break each rule of a breakable model in turn and say which tests notice; exit 1 if "
               "one that tests meet goes unnoticed");
  add_natural(app, "--sequences", options.sequences.count, 1,
              "instead of the tests: random sequences of memory operations, this many");
}

/// An option that a mode would ignore is refused with it.
void exclude_ignored(CLI::App& app) {
  const std::map<std::string, std::set<std::string>> heeded = {
      {"--diff", {}},
      {"--markdown", {}},
      {"--list", {"--filter"}},
      {"--mutants", {"--driver", "--jobs", "--filter", "--also-profile"}},
      {"--sequences", {"--driver", "--profile", "--seed", "--time-budget"}},
  };
  for (const auto& [mode, its] : heeded) {
    for (CLI::Option* const option : app.get_options()) {
      const std::string name = option->get_name();
      const bool of_child = option->get_group().empty() || name == "--help";
      if (name == mode || of_child || its.contains(name)) continue;
      app.get_option(mode)->excludes(option);
    }
  }
  app.get_option("--also-profile")->needs(app.get_option("--mutants"));
  for (const char* of_sequences : {"--seed", "--time-budget"}) {
    app.get_option(of_sequences)->needs(app.get_option("--sequences"));
  }
}

void declare(CLI::App& app, Options& options) {
  app.footer(footer);
  app.add_option("--driver", options.driver.path,
                 "library to load, or model for the one that comes with assay (default: "
                 "$ASSAY_CUDA_DRIVER, else libcuda.so.1)")
      ->check(not_empty)
      ->type_name("PATH");
  app.add_option("--profile", options.driver.profile,
                 "profile of the model: " + harness::model_profile_names() + ", or a file")
      ->check(not_empty)
      ->type_name("NAME");
  app.add_option("--out", options.out, "write all observations as JSON (assay.conformance/1)")
      ->check(not_empty)
      ->type_name("FILE");
  app.add_option("--filter", options.filters,
                 "only tests whose id holds this text, with --mutants only such rules (again for "
                 "more)")
      ->check(not_empty)
      ->type_name("TEXT");
  app.add_option("--jobs", options.jobs, "tests at a time")
      ->capture_default_str()
      ->check(CLI::Range(1u, 64u))
      ->type_name("N");
  declare_modes(app, options);
  app.add_option("--also-profile", options.more_profiles,
                 "with --mutants: a profile file besides the model's own (again for more)")
      ->type_name("FILE");
  app.add_flag("-v,--verbose", options.verbose, "report every test on standard error");
  add_natural(app, "--seed", options.sequences.seed, 0, "of the first sequence (default 1)");
  app.add_option("--time-budget", options.sequences.budget_s,
                 "seconds for all sequences; fewer run when it gets short")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 86'400.0))
      ->type_name("SECONDS");
  app.add_option("--one", options.one, "be the process of one test")->group("");
  app.add_flag("--facts", options.facts, "print what the driver is")->group("");
  app.add_flag("--sequence-child", options.sequence_child, "be the process of sequences")
      ->group("");
  exclude_ignored(app);
}

int dispatch(Options& options) {
  if (const auto wrong = settle(options.driver); !wrong.empty()) return usage_error(wrong);
  if (!options.one.empty()) {
    const Test* const test = find_test(options.one);
    if (test == nullptr) return usage_error(fmt::format("--one: no test '{}'", options.one));
    return run_one(*test, options.driver.path);
  }
  if (!std::isfinite(options.sequences.budget_s)) {  // CLI::Range lets a NaN pass
    return usage_error("--time-budget is not a number of seconds from 0.1 to 86400");
  }
  if (options.facts) return print_facts(options.driver.path);
  if (options.sequence_child) return run_sequences(options.sequences, options.driver.path);
  if (options.list) {
    list_tests(chosen(options.filters));
    return exit_good;
  }
  if (!options.diff.empty()) return compare_files(options.diff[0], options.diff[1]);
  if (!options.markdown.empty()) return print_markdown(options.markdown);
  if (options.sequences.count > 0) {
    const Facts facts = ask_facts(options.driver);
    return facts.why.empty() ? start_sequences(options.sequences, options.driver) : no_suite(facts);
  }
  if (options.mutants)
    return run_mutants({options.driver.path, options.jobs, options.more_profiles, options.filters});
  return run_suite(options);
}

int run(int argument_count, char** arguments) {
  CLI::App app(
      "Asks a CUDA driver, or the model that stands in for one, for the rules that assay builds "
      "on. "
      "Each\ntest is one process; the outcomes that its sources allow are data, see --list.",
      "assay-conformance");
  Options options;
  declare(app, options);
  try {
    app.parse(argument_count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? exit_good : exit_usage;
  }
  return dispatch(options);
}

}  // namespace
}  // namespace assay::conformance

int main(int argument_count, char** arguments) {
  return assay::harness::run_program(
      "assay-conformance", [&] { return assay::conformance::run(argument_count, arguments); });
}
