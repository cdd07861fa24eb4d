// One cell: one property asked of one subject, to a verdict with its evidence.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "assay/harness/verify_result.hpp"
#include "counterexample.hpp"

namespace assay::properties {

using Clock = std::chrono::steady_clock;

struct CellPlan {
  std::uint64_t seed = 0;
  std::uint32_t cases = 100;     ///< examples included
  Clock::time_point deadline{};  ///< stop asking new cases
  std::string trace_folder;      ///< where counterexamples go; empty: none is written
  std::chrono::milliseconds stall{2000};
};

/// The command lists of a property by seed and index, made once for all subjects.
///
/// **Threads** safe.
class CaseSource {
 public:
  CaseSource(const Property& property, std::uint64_t seed);
  [[nodiscard]] Commands commands(std::uint32_t index);
  /// Seed that makes case `index`: what a trace keeps.
  [[nodiscard]] std::uint64_t seed_of(std::uint32_t index) const noexcept;

 private:
  const Property& property_;
  const std::uint64_t seed_;
  std::vector<Commands> examples_;
  std::mutex mutex_;
  std::vector<Commands> made_;
};

/// What became of one run under a property.
struct Judgement {
  harness::CellOutcome outcome = harness::CellOutcome::pass;
  std::string detail;
  std::uint32_t step = 0;
};
[[nodiscard]] Judgement judge(const Property& property, const Case& which, const CaseRun& run);

/// Runs the cell: cases until one fails or the plan is done, then shrinks, replays in a fresh
/// process, and writes the trace. `server` must be ready.
[[nodiscard]] harness::VerifyCell run_cell(const harness::Subject& subject,
                                           const Property& property, harness::ChildServer& server,
                                           CaseSource& source, const CellPlan& plan);

/// Why this subject cannot be asked anything here ("install libmimalloc2.0"), or empty.
[[nodiscard]] std::string why_not_here(const harness::Subject& subject, const ChildFacts& facts);

/// Runs a counterexample in a fresh process. **Errors** io if the child does not come up,
/// not_supported if the subject cannot run here.
[[nodiscard]] Result<std::pair<Judgement, CaseRun>> rerun(const harness::Subject& subject,
                                                          const Property& property,
                                                          const Case& which,
                                                          std::chrono::milliseconds stall);

/// One sentence on a finding that is understood and real, or empty.
[[nodiscard]] std::string_view known_finding(std::string_view subject,
                                             std::string_view property) noexcept;

}  // namespace assay::properties
