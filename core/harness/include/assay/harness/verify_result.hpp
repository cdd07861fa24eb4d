// VerifyResult: the scorecard of a verification, as a value and as JSON (assay.verify/1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "assay/harness/subject.hpp"

namespace assay::harness {

enum class CellOutcome : std::uint8_t { pass, fail, not_applicable, skipped, crashed, timed_out };

/// The JSON's word: "pass", "fail", "n/a", "skipped", "crashed" or "timed_out".
[[nodiscard]] std::string_view name_of(CellOutcome outcome) noexcept;
[[nodiscard]] std::optional<CellOutcome> cell_outcome_of(std::string_view name) noexcept;
/// The subject did not keep the property: fail, crashed or timed_out.
[[nodiscard]] constexpr bool is_bad(CellOutcome outcome) noexcept {
  return outcome == CellOutcome::fail || outcome == CellOutcome::crashed ||
         outcome == CellOutcome::timed_out;
}

struct VerifySubject {
  std::string id;
  Origin origin = Origin::assay;
  bool process = false;
  bool ran = false;
  std::string reason;    ///< skipped: why
  std::string provider;  ///< path of the library that serves malloc, for process subjects
  std::string package;   ///< to install when it is absent
};

struct VerifyProperty {
  std::string id;
  std::string goal;
};

struct VerifyCell {
  std::string subject;
  std::string property;
  CellOutcome outcome = CellOutcome::skipped;
  std::string detail;  ///< what failed, or why the cell did not run
  std::uint64_t cases = 0;
  bool cut_short = false;  ///< fewer cases than asked for, because the time was up
  std::uint64_t seed = 0;
  std::vector<std::string> commands;  ///< the shrunk counterexample
  std::optional<std::string> trace;   ///< its file
  std::optional<bool> reproduced;     ///< it failed again in a fresh process
  std::string explanation;            ///< a known finding of a foreign allocator, in one sentence
  double elapsed_ms = 0;
};

struct VerifyMutant {
  std::string id;
  std::string property;
  bool killed = false;
  std::string detail;
};

struct VerifyResult {
  nlohmann::ordered_json context = nlohmann::ordered_json::object();
  std::uint64_t seed = 0;
  double elapsed_s = 0;
  std::vector<VerifySubject> subjects;
  std::vector<VerifyProperty> properties;
  std::vector<VerifyCell> cells;
  std::vector<VerifyMutant> mutants;
};

[[nodiscard]] nlohmann::ordered_json to_json(const VerifyResult& result);

}  // namespace assay::harness
