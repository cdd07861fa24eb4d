// The parent's work: each test in a process of its own, several at a time.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "program/suite_result.hpp"

namespace assay::conformance {

struct DriverChoice {
  std::string path;     ///< empty: the process's normal driver
  std::string profile;  ///< of the model; empty: its default or the environment's
};

/// Chooses the driver as every program of assay does: "model" is the one beside this program, a
/// path must be there, an empty one leaves the environment's. What is wrong, or nothing.
[[nodiscard]] std::string settle(DriverChoice& driver);

using Environment = std::vector<std::pair<std::string, std::string>>;

struct CampaignPlan {
  DriverChoice driver;
  std::vector<const Test*> tests;
  unsigned jobs = 4;
  std::function<void(const TestResult&)> on_result{};  ///< called under a lock, in any order
  /// More of the environment of each test's process, if set. Called on any thread.
  std::function<Environment(const Test&)> environment_of{};
};

/// What `--facts` of the same driver printed.
struct Facts {
  nlohmann::ordered_json json;
  int exit_code = 0;  ///< 77 no driver or no device, 2 no driver to use, 1 one that fails
  std::string why;    ///< not empty: no suite can run; with what the process said besides
};
[[nodiscard]] Facts ask_facts(const DriverChoice& driver);

[[nodiscard]] SuiteResult run_campaign(const CampaignPlan& plan);

/// Arguments and environment of a child of this program.
[[nodiscard]] harness::ChildSpec child_of(const DriverChoice& driver,
                                          std::vector<std::string> arguments, int limit_s);

}  // namespace assay::conformance
