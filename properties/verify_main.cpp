// assay-verify: is this allocator correct?
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "assay/harness/driver_facts.hpp"
#include "assay/harness/natural.hpp"
#include "assay/harness/output.hpp"
#include "assay/harness/trace.hpp"
#include "engine/campaign.hpp"
#include "engine/cell.hpp"
#include "engine/scorecard.hpp"

namespace assay::properties {
namespace {

using harness::Origin;
using harness::Subject;

constexpr int exit_good = 0;
constexpr int exit_bad = 1;
constexpr int exit_usage = 2;
constexpr int exit_nothing = 77;

constexpr const char* footer =
    "Exit codes: 0 every property held; 1 a subject failed, crashed or hung, or a mutant survived; "
    "2 usage,\nunreadable input, or a CUDA driver that was named and cannot be used; 70 internal "
    "error; 77 nothing could\nrun.\n"
    "Examples: assay-verify --driver model --profile h200 --subject managed\n"
    "          assay-verify --subject heap --property no_overlap --cases 1000 --seed 7";

struct Options {
  std::vector<std::string> subjects;
  std::vector<std::string> properties;
  std::vector<std::string> origins;
  std::vector<std::string> serve;
  std::uint32_t cases = 100;
  std::uint64_t seed = 1;
  double budget_s = 60;
  std::string out;
  std::string traces = "traces";
  std::string reproduce;
  std::string driver;
  std::string profile;
  bool mutants = false;
  bool with_mutants = false;
  bool demos = false;
  bool list = false;
  bool json = false;
  bool verbose = false;
};

int usage_error(const std::string& message) {
  fmt::print(stderr, "assay-verify: {}\n", message);
  return exit_usage;
}

void list_everything() {
  fmt::print("subjects\n");
  for (const Subject* subject : harness::subjects()) {
    fmt::print("  {:<28} {:<8} {}\n", subject->id, name_of(subject->origin), subject->summary);
  }
  fmt::print("properties\n");
  for (const Property* property : properties()) {
    fmt::print("  {:<28} {}\n", property->id, property->goal);
  }
}

void list_everything_as_json() {
  nlohmann::ordered_json list;
  for (const Subject* subject : harness::subjects()) {
    list["subjects"].push_back({{"id", subject->id},
                                {"origin", name_of(subject->origin)},
                                {"summary", subject->summary},
                                {"killed_by", subject->killed_by}});
  }
  for (const Property* property : properties()) {
    list["properties"].push_back({{"id", property->id}, {"goal", property->goal}});
  }
  fmt::print("{}\n", list.dump(2));
}

bool wanted_origin(const Subject& subject, const std::vector<std::string>& origins) {
  if (origins.empty()) {
    return subject.origin == Origin::assay || subject.origin == Origin::system ||
           subject.origin == Origin::foreign;
  }
  return std::find(origins.begin(), origins.end(), name_of(subject.origin)) != origins.end();
}

template <class One>
bool contains(const std::vector<const One*>& list, const One* one) {
  return std::ranges::find(list, one) != list.end();
}

std::optional<std::string> choose(const Options& options, CampaignPlan& plan) {
  for (const std::string& id : options.subjects) {
    const Subject* const subject = harness::find_subject(id);
    if (subject == nullptr) {
      return fmt::format("--subject: no subject '{}'; --list names them all", id);
    }
    if (!options.origins.empty() && !wanted_origin(*subject, options.origins)) {
      return fmt::format("--subject {}: its origin is '{}', which --origin leaves out", id,
                         name_of(subject->origin));
    }
    if (!contains(plan.subjects, subject)) plan.subjects.push_back(subject);
  }
  for (const std::string& id : options.properties) {
    const Property* const property = find_property(id);
    if (property == nullptr) {
      return fmt::format("--property: no property '{}'; --list names them all", id);
    }
    if (!contains(plan.properties, property)) plan.properties.push_back(property);
  }
  if (options.properties.empty()) plan.properties.assign(properties().begin(), properties().end());
  const bool chosen = !options.subjects.empty();
  for (const Subject* subject : harness::subjects()) {
    if (!chosen && !options.mutants && wanted_origin(*subject, options.origins)) {
      plan.subjects.push_back(subject);
    }
    if (options.demos && subject->origin == Origin::demo && !contains(plan.subjects, subject)) {
      plan.subjects.push_back(subject);
    }
    if ((options.mutants || options.with_mutants) && subject->origin == Origin::mutant) {
      plan.mutants.push_back(subject);
    }
  }
  return std::nullopt;
}

int exit_code_of(const harness::VerifyResult& result) {
  bool ran = false;
  bool bad = false;
  for (const auto& cell : result.cells) {
    bad = bad || harness::is_bad(cell.outcome);
    ran = ran || harness::is_bad(cell.outcome) || cell.outcome == harness::CellOutcome::pass;
  }
  for (const auto& mutant : result.mutants) {
    ran = true;
    bad = bad || !mutant.killed;
  }
  if (bad) return exit_bad;
  return ran ? exit_good : exit_nothing;
}

/// What is wrong with the driver, where one is wanted.
std::string wrong_with_driver(const Options& options, const std::vector<const Subject*>& subjects) {
  const bool wanted = !options.driver.empty() || !options.profile.empty() ||
                      std::ranges::any_of(subjects, &Subject::needs_driver);
  return wanted ? harness::wrong_with_named_driver(options.profile) : "";
}

/// What a run could not write at its end, asked before it starts.
std::optional<std::string> unwritable(const Options& options) {
  if (!options.out.empty()) {
    if (const auto good = harness::check_writable(options.out); !good) {
      return fmt::format("--out {}: {}", options.out, describe(good.error()));
    }
  }
  if (options.traces.empty()) return std::nullopt;
  if (const auto good = harness::check_folder(options.traces); !good) {
    return fmt::format("--traces {}: {}", options.traces, describe(good.error()));
  }
  return std::nullopt;
}

int verify(const Options& options) {
  CampaignPlan plan;
  plan.seed = options.seed;
  plan.cases = options.cases;
  plan.budget = std::chrono::milliseconds(static_cast<std::int64_t>(options.budget_s * 1000));
  plan.trace_folder = options.traces;
  if (const auto problem = choose(options, plan)) return usage_error(*problem);
  if (const auto problem = unwritable(options)) return usage_error(*problem);
  if (const auto problem = wrong_with_driver(options, plan.subjects); !problem.empty()) {
    return usage_error(problem);
  }
  const bool verbose = options.verbose;
  plan.on_cell = [verbose](const harness::VerifyCell& cell) {
    if (verbose || harness::is_bad(cell.outcome)) {
      fmt::print(stderr, "{}\n", progress_line(cell));
    }
  };
  const harness::VerifyResult result = run_campaign(plan);
  const std::string json = to_json(result).dump(2) + "\n";
  // First what the user sees: the file may fail.
  const std::string shown = options.json ? json : scorecard(result);
  std::fwrite(shown.data(), 1, shown.size(), stdout);
  if (!options.out.empty()) {
    const auto written = harness::write_atomically(options.out, json);
    if (!written) return usage_error("--out: " + written.error().describe());
  }
  return exit_code_of(result);
}

int reproduce(const Options& options) {
  if (options.subjects.size() > 1) return usage_error("--reproduce takes one --subject at most");
  const auto loaded = harness::load_trace(options.reproduce);
  if (!loaded) return usage_error(loaded.error().describe());
  auto kept = from_trace(loaded->trace);
  if (!kept) return usage_error(fmt::format("{}: {}", options.reproduce, kept.error()));
  if (options.subjects.size() == 1) kept->subject = options.subjects.front();
  const Subject* const subject = harness::find_subject(kept->subject);
  const Property* const property = find_property(kept->property);
  if (subject == nullptr) return usage_error(fmt::format("no subject '{}'", kept->subject));
  if (property == nullptr) return usage_error(fmt::format("no property '{}'", kept->property));
  if (const auto problem = wrong_with_driver(options, {subject}); !problem.empty()) {
    return usage_error(problem);
  }
  const auto again = rerun(*subject, *property, kept->which, std::chrono::seconds(2));
  if (!again) {
    fmt::print(stderr, "assay-verify: {}\n", describe(again.error()));
    return exit_nothing;
  }
  const auto& [judgement, run] = again.value();
  for (const std::string& line : command_lines(kept->which, run.outcomes)) {
    fmt::print("  {}\n", line);
  }
  if (!harness::is_bad(judgement.outcome)) {
    fmt::print("did not reproduce: {} keeps {} in these steps\n", subject->id, property->id);
    return exit_good;
  }
  fmt::print("{} {} {}: {}\n", name_of(judgement.outcome), subject->id, property->id,
             judgement.detail);
  return exit_bad;
}

int serve(const std::vector<std::string>& arguments) {
  const Subject* const subject = harness::find_subject(arguments[0]);
  if (subject == nullptr) return usage_error(fmt::format("--serve: no subject '{}'", arguments[0]));
  return harness::serve_subject(*subject, std::atoi(arguments[1].c_str()),
                                std::atoi(arguments[2].c_str()));
}

/// Why the text is no time budget, or empty. Not CLI::Range: a NaN passes that.
std::string parse_budget(const std::string& text, double& seconds) {
  const char* const end = text.data() + text.size();
  double number = 0;
  const auto [stopped, failed] = std::from_chars(text.data(), end, number);
  if (failed != std::errc() || stopped != end || !(number >= 0.1 && number <= 86'400)) {
    return fmt::format("{} is not a number of seconds from 0.1 to 86400", harness::quoted(text));
  }
  seconds = number;
  return "";
}

void declare(CLI::App& app, Options& options) {
  app.footer(footer);
  app.add_option("--subject", options.subjects, "only this subject (again for more)")
      ->type_name("ID");
  app.add_option("--property", options.properties, "only this property (again for more)")
      ->type_name("ID");
  app.add_option("--origin", options.origins, "only subjects of this origin (again for more)")
      ->check(CLI::IsMember({"assay", "system", "foreign"}))
      ->type_name("ORIGIN");
  app.add_option("--cases", options.cases, "cases of each cell")
      ->capture_default_str()
      ->check(CLI::Range(1u, 1'000'000u));
  app.add_option_function<std::string>(
         "--seed",
         [&](const std::string& text) {
           const auto wrong = harness::parse_natural(text, options.seed);
           if (!wrong.empty()) throw CLI::ValidationError("--seed", wrong);
         },
         "seed of all cases (default 1)")
      ->type_name("N");
  app.add_option_function<std::string>(
         "--time-budget",
         [&](const std::string& text) {
           const auto wrong = parse_budget(text, options.budget_s);
           if (!wrong.empty()) throw CLI::ValidationError("--time-budget", wrong);
         },
         "seconds for everything, 0.1 to 86400 (default 60); cells run fewer cases when it gets "
         "short")
      ->type_name("SECONDS");
  app.add_option("--out", options.out, "write the scorecard as JSON (assay.verify/1)")
      ->type_name("FILE");
  app.add_option("--traces", options.traces, "folder for the traces of failures")
      ->capture_default_str()
      ->type_name("DIR");
  app.add_option("--reproduce", options.reproduce,
                 "run the failure of this trace again; with --subject, on another subject")
      ->type_name("TRACE");
  app.add_option("--driver", options.driver,
                 "CUDA driver library of the subjects that need one, or \"model\": the model that "
                 "comes with assay (default: $ASSAY_CUDA_DRIVER, else libcuda.so.1)")
      ->type_name("PATH");
  app.add_option("--profile", options.profile,
                 "what the model models: " + harness::model_profile_names() + ", or a file")
      ->type_name("NAME");
  app.add_flag("--mutants", options.mutants,
               "check that each broken allocator is caught, instead of the shipped subjects");
  app.add_flag("--with-mutants", options.with_mutants, "the same, besides the chosen subjects");
  app.add_flag("--demos", options.demos, "also the subjects that crash and hang on purpose");
  app.add_flag("--list", options.list, "print all subjects and properties");
  app.add_flag("--json", options.json, "print JSON instead of the table or the list");
  app.add_flag("-v,--verbose", options.verbose, "report every cell on standard error");
  app.add_option("--serve", options.serve, "be the child of a subject: ID SHARED_FD CONTROL_FD")
      ->expected(3)
      ->group("");
}

int run(int argument_count, char** arguments) {
  CLI::App app(
      "Asks every property of every allocator, each in a child process of its own, and "
      "prints a\nscorecard. A failure is shrunk to a minimal trace that reproduces it.",
      "assay-verify");
  Options options;
  declare(app, options);
  try {
    app.parse(argument_count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? exit_good : exit_usage;
  }
  if (const auto wrong = harness::choose_driver(options.driver, options.profile); !wrong.empty()) {
    return usage_error(wrong);
  }
  if (!options.serve.empty()) return serve(options.serve);
  if (options.list) {
    options.json ? list_everything_as_json() : list_everything();
    return exit_good;
  }
  return options.reproduce.empty() ? verify(options) : reproduce(options);
}

}  // namespace
}  // namespace assay::properties

int main(int argument_count, char** arguments) {
  return assay::harness::run_program(
      "assay-verify", [&] { return assay::properties::run(argument_count, arguments); });
}
