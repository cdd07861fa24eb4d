// Campaign: every chosen property asked of every chosen subject, on all processors.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "assay/harness/verify_result.hpp"
#include "property.hpp"

namespace assay::properties {

struct CampaignPlan {
  std::vector<const harness::Subject*> subjects;
  std::vector<const Property*> properties;
  /// Mutants, each asked the property that must kill it.
  std::vector<const harness::Subject*> mutants;
  std::uint64_t seed = 1;
  std::uint32_t cases = 100;  ///< a cell
  std::chrono::milliseconds budget{60'000};
  std::string trace_folder;
  /// Called after each cell, one call at a time, from any thread. May be null.
  std::function<void(const harness::VerifyCell&)> on_cell;
};

/// Runs the plan. Each subject has a child of its own, and what happens to one leaves the others
/// alone. When the budget runs short, cells run fewer cases, never none.
[[nodiscard]] harness::VerifyResult run_campaign(const CampaignPlan& plan);

}  // namespace assay::properties
