// assay-driver-sweep: every scenario with each of its driver calls failing in turn.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <sys/mman.h>

#include <CLI/CLI.hpp>

#include "assay/harness/die_with_parent.hpp"
#include "assay/harness/driver_facts.hpp"
#include "assay/harness/natural.hpp"
#include "assay/harness/output.hpp"
#include "case_process.hpp"

namespace assay::sweep {
namespace {

constexpr int exit_good = 0;
constexpr int exit_bad = 1;
constexpr int exit_usage = 2;
constexpr int exit_internal = 70;
constexpr int exit_nothing = 77;

constexpr std::array injections = {
    Injection{cuda::abi::Status::out_of_memory, false},
    Injection{cuda::abi::Status::invalid_value, false},
    Injection{cuda::abi::Status::launch_failed, true},
    Injection{cuda::abi::Status::deinitialized, false},
};

constexpr std::uint64_t calls_max = 2000;  // of one scenario: more means that it does not end

struct Options {
  std::string driver = "model";
  std::string profile;
  std::string leaf;
  std::string scenario;
  std::uint64_t call = 0;
  bool mutants = false;
  bool verbose = false;
};

/// One leaf, one scenario, one code: all k.
struct Sweep {
  const Scenario* scenario;
  const Leaf* leaf;
  Injection injection;
};

/// Figures of a sweep, or of many. Plain data: workers write it for their parent.
struct Figures {
  std::uint64_t scenarios = 0;
  std::uint64_t skipped = 0;
  std::uint64_t failed_calls = 0;
  std::uint64_t errors = 0;
  std::uint64_t leaks = 0;
  std::uint64_t diagnoses = 0;
  std::uint64_t faults_found = 0;  ///< cases in which something was wrong
  char first[512] = {};

  void add(const Figures& other) {
    scenarios += other.scenarios;
    skipped += other.skipped;
    failed_calls += other.failed_calls;
    errors += other.errors;
    leaks += other.leaks;
    diagnoses += other.diagnoses;
    faults_found += other.faults_found;
    if (first[0] == '\0') std::copy(std::begin(other.first), std::end(other.first), first);
  }
};

void note(const Case& which, const CaseReport& report, Figures& figures) {
  figures.failed_calls += report.injected != 0 ? 1 : 0;
  figures.errors += report.errors;
  figures.leaks += report.leaks;
  figures.diagnoses += report.diagnoses;
  if (report.what[0] == '\0') return;
  ++figures.faults_found;
  if (figures.first[0] != '\0') return;
  const std::string text = fmt::format("{}: {}", describe(which), report.what);
  text.copy(figures.first, sizeof figures.first - 1);
}

Figures run_sweep(const Sweep& sweep, const Options& options) {
  Figures figures;
  const std::uint64_t only = options.call;
  for (std::uint64_t k = only != 0 ? only : 1; only != 0 || k <= calls_max; ++k) {
    const Case which{sweep.scenario, sweep.leaf, sweep.injection, k};
    const CaseReport report = run_case(which);
    if (report.skipped != 0) {
      figures.skipped = 1;
      return figures;
    }
    note(which, report, figures);
    if (report.finished != 0 && report.injected == 0) break;  // it has fewer calls than k
    if (only != 0 || figures.faults_found > 20) break;
  }
  figures.scenarios = 1;
  return figures;
}

bool wanted(std::string_view name, const std::string& filter) {
  return filter.empty() || name == filter;
}

std::vector<Sweep> sweeps_of(const Options& options) {
  std::vector<Sweep> sweeps;
  const auto add = [&](const Leaf& leaf, const Scenario* scenario, std::string_view name) {
    if (!wanted(leaf.name, options.leaf) || !wanted(name, options.scenario)) return;
    for (const Injection& injection : injections) sweeps.push_back({scenario, &leaf, injection});
  };
  for (const Leaf& leaf : leaves()) {
    for (const Scenario& scenario : scenarios()) {
      const bool out_of_reach = leaf.name.starts_with("device");
      if (!scenario.of_host_memory || !out_of_reach) add(leaf, &scenario, scenario.name);
    }
    add(leaf, nullptr, "making");
  }
  return sweeps;
}

/// Runs the sweeps on all processors, in processes: what they fork must have one thread.
std::vector<Figures> run_all(const std::vector<Sweep>& sweeps, const Options& options) {
  const std::size_t bytes = std::max<std::size_t>(1, sweeps.size()) * sizeof(Figures);
  void* const shared =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return {};
  auto* const figures = static_cast<Figures*>(shared);
  const std::size_t workers = std::max(1U, std::thread::hardware_concurrency());
  const pid_t parent = ::getpid();
  std::vector<pid_t> children;
  for (std::size_t worker = 0; worker < workers; ++worker) {
    const pid_t child = ::fork();
    if (child == 0) {
      harness::die_with_parent(parent);
      for (std::size_t i = worker; i < sweeps.size(); i += workers) {
        ::new (&figures[i]) Figures(run_sweep(sweeps[i], options));
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  std::vector<Figures> found(sweeps.size());
  bool complete = true;
  for (const pid_t child : children) {
    int status = -1;
    complete = ::waitpid(child, &status, 0) == child && status == 0 && complete;
  }
  std::copy_n(figures, sweeps.size(), found.begin());
  ::munmap(shared, bytes);
  return complete ? found : std::vector<Figures>();
}

int usage_error(const std::string& message) {
  fmt::print(stderr, "assay-driver-sweep: {}\n", message);
  return exit_usage;
}

int nothing_swept() {
  fmt::print(stderr, "assay-driver-sweep: nothing was swept\n");
  return exit_nothing;
}

int show(const std::vector<Sweep>& sweeps, const std::vector<Figures>& all,
         const Options& options) {
  if (all.empty()) {
    fmt::print(stderr, "assay-driver-sweep: a worker was lost\n");
    return exit_internal;
  }
  Figures total;
  fmt::print("{:<50} {:>9} {:>12} {:>8} {:>6} {:>9}\n", "backing", "scenarios", "calls failed",
             "errors", "leaks", "diagnoses");
  for (const Leaf& leaf : leaves()) {
    Figures sum;
    for (std::size_t i = 0; i < sweeps.size(); ++i) {
      if (sweeps[i].leaf != &leaf) continue;
      sum.add(all[i]);
      if (options.verbose || all[i].faults_found != 0) {
        fmt::print("  {}/{} code {}: {} calls failed, {} errors{}{}\n", leaf.name,
                   sweeps[i].scenario == nullptr ? "making" : sweeps[i].scenario->name,
                   sweeps[i].injection.number(), all[i].failed_calls, all[i].errors,
                   all[i].first[0] == '\0' ? "" : "; WRONG: ", all[i].first);
      }
    }
    if (sum.scenarios == 0 && sum.skipped == 0) continue;
    fmt::print("{:<50} {:>9} {:>12} {:>8} {:>6} {:>9}{}\n", leaf.name, sum.scenarios,
               sum.failed_calls, sum.errors, sum.leaks, sum.diagnoses,
               sum.skipped != 0 ? "  skipped: the device has no such memory" : "");
    total.add(sum);
  }
  if (total.failed_calls == 0 && total.faults_found == 0) {
    return options.call != 0 && total.scenarios != 0
               ? usage_error(
                     fmt::format("--call {}: no scenario makes so many calls", options.call))
               : nothing_swept();
  }
  fmt::print("{} scenarios, {} calls failed, {} leaks, {} double frees or other diagnoses: {}\n",
             total.scenarios, total.failed_calls, total.leaks, total.diagnoses,
             total.faults_found == 0 ? "pass" : "FAIL");
  if (total.faults_found != 0) fmt::print("first: {}\n", total.first);
  return total.faults_found == 0 ? exit_good : exit_bad;
}

/// Each mutant must be caught, and the sound one must not.
int judge_mutants(const Options& options) {
  bool good = true;
  for (const auto some : {mutants(), pool_mutants(), virtual_mutants()}) {
    for (const Leaf& mutant : some) {
      const auto scenario = std::ranges::find(scenarios(), mutant.scenario, &Scenario::name);
      Figures sum;
      for (const Injection& injection : {injections[0], injections[1]}) {
        sum.add(run_sweep({&*scenario, &mutant, injection}, options));
      }
      if (sum.skipped != 0) {
        fmt::print("skipped {}: the device has no such memory\n", mutant.name);
        continue;
      }
      const bool caught = sum.faults_found != 0;
      const bool right = caught != mutant.flaw.empty() && sum.failed_calls != 0;
      good = good && right;
      fmt::print("{} {}: {}\n", right ? "good" : "BAD ", mutant.name,
                 caught ? fmt::format("caught: {}", sum.first) : std::string("passes"));
    }
  }
  return good ? exit_good : exit_bad;
}

void declare(CLI::App& app, Options& options) {
  app.footer(
      "Exit codes: 0 nothing was wrong; 1 a leak, a double free, lost contents or an error "
      "without\n"
      "its code, or a mutant that lives; 2 usage, no model that can be used, or --call beyond all "
      "scenarios;\n70 internal error; 77 the model has no device, or none of the memory: nothing "
      "was "
      "swept.\n"
      "Example: assay-driver-sweep --profile driver_11_8 --backing device --scenario growth -v");
  app.add_option("--driver", options.driver, "library of the model (default: the one beside)")
      ->type_name("PATH");
  app.add_option("--profile", options.profile, "what the model models")->type_name("NAME");
  auto* const backing =
      app.add_option("--backing", options.leaf, "only this backing")->type_name("NAME");
  auto* const scenario =
      app.add_option("--scenario", options.scenario, "only this scenario")->type_name("NAME");
  auto* const call = app.add_option_function<std::string>(
                            "--call",
                            [&options](const std::string& text) {
                              auto wrong = harness::parse_natural(text, options.call);
                              if (wrong.empty() && options.call == 0)
                                wrong = "calls are counted from 1";
                              if (!wrong.empty()) throw CLI::ValidationError("--call", wrong);
                            },
                            "only this call fails")
                         ->type_name("K");
  app.add_flag("--mutants", options.mutants, "check that each broken backing is caught")
      ->excludes(backing, scenario, call);
  app.add_flag("-v,--verbose", options.verbose, "a line for each scenario and code");
}

int run(int count, char** arguments) {
  CLI::App app("Runs programs on the backings over a driver with each driver call failing in turn.",
               "assay-driver-sweep");
  Options options;
  declare(app, options);
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? exit_good : exit_usage;
  }
  if (const auto wrong = harness::choose_driver(options.driver, options.profile); !wrong.empty()) {
    return usage_error(wrong);
  }
  // Loaded here, never called: each case finds it as a fresh process would, only sooner.
  const char* const path = std::getenv(cuda::Driver::path_variable);
  if (path == nullptr) return usage_error("--driver: no library is named");
  if (::dlopen(path, RTLD_NOW | RTLD_LOCAL) == nullptr) {
    return usage_error(fmt::format("--driver: {}", ::dlerror()));
  }
  if (const Unusable found = ask_driver(); !found.why.empty()) {
    fmt::print(stderr, "{}", found.model_said);
    (void)usage_error(fmt::format("--driver {}: {}", path, found.why));
    return found.no_device ? exit_nothing : exit_usage;
  }
  if (options.mutants) return judge_mutants(options);
  const auto sweeps = sweeps_of(options);
  if (sweeps.empty()) {
    return usage_error("no such backing or scenario");
  }
  return show(sweeps, run_all(sweeps, options), options);
}

}  // namespace
}  // namespace assay::sweep

int main(int count, char** arguments) {
  return assay::harness::run_program("assay-driver-sweep",
                                     [&] { return assay::sweep::run(count, arguments); });
}
