#include "program/mutants.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "assay/cuda/abi/model_control.hpp"
#include "program/campaign.hpp"

namespace assay::conformance {
namespace {

namespace fs = std::filesystem;

/// Rules of which no caller can see whether they hold, and why.
struct Unnoticeable {
  const char* rule;
  const char* why;
};
constexpr Unnoticeable unnoticeable[] = {
    {"free_forgets_advice", "freed addresses stay in quarantine, so nobody can inherit advice"},
};

/// A folder that goes with its owner.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (fs::temp_directory_path() / "assay-mutants-XXXXXX").string();
    const char* const made = ::mkdtemp(pattern.data());
    if (made != nullptr) path_ = made;
  }
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

/// Under each profile, the tests that meet a rule.
using Meetings = std::map<std::string, std::map<std::string, std::vector<const Test*>>>;

/// Runs the whole suite unbroken under one profile. False, told, if it does not pass by itself.
bool meet(const MutantPlan& plan, const std::string& profile, Meetings& meetings) {
  const Scratch scratch;
  CampaignPlan campaign;
  campaign.driver = {plan.model, profile};
  campaign.jobs = plan.jobs;
  for (const Test& test : all_tests()) campaign.tests.push_back(&test);
  campaign.environment_of = [&](const Test& test) -> Environment {
    return {{"ASSAY_MODEL_ASKED", scratch.path() + "/" + test.id}};
  };
  const SuiteResult result = run_campaign(campaign);
  bool good = true;
  for (const TestResult& each : result.tests) {
    if (is_bad(each.outcome)) {
      fmt::print("unbroken, {}: {} {}: {}\n", profile, each.test->id, name_of(each.outcome),
                 each.detail);
      good = false;
    }
    if (each.outcome != Outcome::pass) continue;
    std::ifstream asked(scratch.path() + "/" + each.test->id);
    for (std::string rule; std::getline(asked, rule);) {
      meetings[rule][profile].push_back(each.test);
    }
  }
  return good;
}

struct Verdict {
  std::size_t met = 0;
  std::size_t noticed = 0;
  std::string first;  ///< the first test that noticed, and how
};

Verdict break_rule(const MutantPlan& plan, const std::string& rule, const Meetings& meetings) {
  Verdict verdict;
  const auto found = meetings.find(rule);
  if (found == meetings.end()) return verdict;
  for (const auto& [profile, tests] : found->second) {
    CampaignPlan campaign;
    campaign.driver = {plan.model, profile};
    campaign.jobs = plan.jobs;
    campaign.tests = tests;
    campaign.environment_of = [&](const Test&) -> Environment {
      return {{"ASSAY_MODEL_BREAK", rule}};
    };
    verdict.met += tests.size();
    for (const TestResult& each : run_campaign(campaign).tests) {
      if (!is_bad(each.outcome)) continue;
      verdict.noticed += 1;
      if (verdict.first.empty()) {
        verdict.first = fmt::format("{} ({})", each.test->id, name_of(each.outcome));
      }
    }
  }
  return verdict;
}

std::vector<std::string> rules_of(const nlohmann::ordered_json& facts,
                                  const std::vector<std::string>& filters) {
  std::vector<std::string> rules;
  std::istringstream lines(facts.value("rule_list", ""));
  for (std::string line; std::getline(lines, line);) {
    const std::string id = line.substr(0, line.find(' '));
    bool wanted = filters.empty();
    for (const std::string& filter : filters) {
      wanted = wanted || id.find(filter) != std::string::npos;
    }
    if (wanted) rules.push_back(id);
  }
  return rules;
}

}  // namespace

int run_mutants(const MutantPlan& plan) {
  const Facts facts = ask_facts({plan.model, cuda::abi::model_profiles[0]});
  if (!facts.why.empty()) {
    fmt::print(stderr, "assay-conformance: {}\n", facts.why);
    return facts.exit_code == 77 ? 77 : 2;
  }
  Meetings meetings;
  bool good = true;
  std::vector<std::string> profiles(std::begin(cuda::abi::model_profiles),
                                    std::end(cuda::abi::model_profiles));
  profiles.insert(profiles.end(), plan.profiles.begin(), plan.profiles.end());
  for (const std::string& profile : profiles) good = meet(plan, profile, meetings) && good;
  if (meetings.empty()) {
    fmt::print(stderr,
               "assay-conformance: --mutants: {} cannot be broken; name "
               "libassay_cuda_model_broken.so with --driver\n",
               plan.model.empty() ? "the usual driver" : plan.model);
    return 2;
  }
  const std::vector<std::string> rules = rules_of(facts.json, plan.rules);
  if (rules.empty()) {
    fmt::print(stderr, "assay-conformance: --filter: no rule of the model has such an id\n");
    return 2;
  }
  std::size_t noticed = 0;
  std::size_t survived = 0;
  std::size_t unmet = 0;
  for (const std::string& rule : rules) {
    const Unnoticeable* const excused =
        std::find_if(std::begin(unnoticeable), std::end(unnoticeable),
                     [&](const Unnoticeable& each) { return rule == each.rule; });
    if (excused != std::end(unnoticeable)) {
      fmt::print("{:<32} cannot be noticed: {}\n", rule, excused->why);
      continue;
    }
    const Verdict verdict = break_rule(plan, rule, meetings);
    noticed += verdict.noticed > 0 ? 1 : 0;
    survived += verdict.met > 0 && verdict.noticed == 0 ? 1 : 0;
    unmet += verdict.met == 0 ? 1 : 0;
    const std::string said = verdict.met == 0 ? "no test meets it"
                             : verdict.noticed == 0
                                 ? fmt::format("UNNOTICED by the {} runs that meet it", verdict.met)
                                 : fmt::format("noticed by {} of {} runs, {}", verdict.noticed,
                                               verdict.met, verdict.first);
    fmt::print("{:<32} {}\n", rule, said);
    std::fflush(stdout);
  }
  fmt::print("\n{} rules broken in turn: {} noticed, {} unnoticed, {} that no test meets\n",
             noticed + survived + unmet, noticed, survived, unmet);
  return good && survived == 0 ? 0 : 1;
}

}  // namespace assay::conformance
