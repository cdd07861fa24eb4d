#include "program/campaign.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "assay/harness/driver_facts.hpp"
#include "program/child.hpp"

namespace assay::conformance {

std::string settle(DriverChoice& driver) {
  auto wrong = harness::choose_driver(driver.path, driver.profile);
  const char* const chosen = std::getenv(cuda::Driver::path_variable);
  if (chosen != nullptr) driver.path = chosen;
  return wrong;
}

harness::ChildSpec child_of(const DriverChoice& driver, std::vector<std::string> arguments,
                            int limit_s) {
  harness::ChildSpec spec;
  spec.arguments = std::move(arguments);
  spec.arguments.insert(spec.arguments.begin(), harness::this_program());
  if (!driver.path.empty()) {
    spec.arguments.emplace_back("--driver");
    spec.arguments.push_back(driver.path);
  }
  if (!driver.profile.empty()) {
    spec.environment.emplace_back(cuda::abi::model_profile_variable, driver.profile);
  }
  spec.timeout = std::chrono::seconds(limit_s);
  return spec;
}

Facts ask_facts(const DriverChoice& driver) {
  Facts facts;
  const auto started = harness::run_child(child_of(driver, {"--facts"}, test_limit_s));
  if (!started) {
    facts.exit_code = 1;
    facts.why = describe(started.error());
    return facts;
  }
  const harness::ChildResult& child = started.value();
  facts.json = nlohmann::ordered_json::parse(child.standard_output, nullptr, false);
  if (!facts.json.is_object()) {
    facts.exit_code = 1;
    facts.why = "the driver could not be asked: " + child.describe();
  }
  for (const auto& [key, code] : {std::pair{"nothing", 77}, {"unusable", 2}, {"broken", 1}}) {
    if (!facts.json.is_object() || !facts.json.contains(key)) continue;
    facts.exit_code = code;
    facts.why = facts.json[key].get<std::string>();
  }
  std::string said = child.standard_error;
  while (said.ends_with('\n')) said.pop_back();
  if (!facts.why.empty() && !said.empty()) facts.why += "\n" + said;
  return facts;
}

namespace {

TestResult run_test(const CampaignPlan& plan, const Test& test) {
  const auto start = std::chrono::steady_clock::now();
  harness::ChildSpec spec = child_of(plan.driver, {"--one", test.id}, test_limit_s);
  if (plan.environment_of) {
    for (auto& variable : plan.environment_of(test))
      spec.environment.push_back(std::move(variable));
  }
  const auto child = harness::run_child(spec);
  TestResult result;
  if (child) {
    result = judge(test, child.value());
  } else {
    result.test = &test;
    result.outcome = Outcome::crashed;
    result.detail = describe(child.error());
  }
  result.elapsed_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace

SuiteResult run_campaign(const CampaignPlan& plan) {
  SuiteResult result;
  result.tests.resize(plan.tests.size());
  std::atomic<std::size_t> next{0};
  std::mutex telling;
  const auto work = [&] {
    for (std::size_t i = next++; i < plan.tests.size(); i = next++) {
      result.tests[i] = run_test(plan, *plan.tests[i]);
      if (!plan.on_result) continue;
      const std::lock_guard lock(telling);
      plan.on_result(result.tests[i]);
    }
  };
  std::vector<std::thread> workers;
  const std::size_t count = std::min<std::size_t>(plan.jobs, plan.tests.size());
  for (std::size_t i = 0; i < count; ++i) workers.emplace_back(work);
  for (std::thread& worker : workers) worker.join();
  return result;
}

}  // namespace assay::conformance
