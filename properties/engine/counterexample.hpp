// Counterexample: a failing case as lines for a person and as a trace that reproduces it.
#pragma once

#include <expected>
#include <string>
#include <vector>

#include "assay/harness/trace.hpp"
#include "assay/harness/verify_result.hpp"
#include "property.hpp"

namespace assay::properties {

struct Counterexample {
  std::string subject;
  std::string property;
  std::uint64_t seed = 0;  ///< of the case, not of the campaign
  harness::CellOutcome outcome = harness::CellOutcome::fail;
  std::string detail;
  Case which;
  std::vector<Outcome> outcomes;  ///< of the last run of `which`
};

/// One line a command, in the words of the trace grammar: "3 resize slot 5: 100 bytes -> refused".
[[nodiscard]] std::vector<std::string> command_lines(const Case& which,
                                                     const std::vector<Outcome>& outcomes);

/// As a trace of the block dialect. Blocks get an id each; the extra keys `slots`, `cycles`,
/// `address_space_limit`, `upstream_limit`, `sized_free`, `outcome` and `detail` hold the rest of
/// what a rerun needs. Commands that were skipped are left out: they did nothing.
[[nodiscard]] harness::Trace to_trace(const Counterexample& counterexample);

/// The case that such a trace describes. **Errors** a text that names what is wrong with it.
[[nodiscard]] std::expected<Counterexample, std::string> from_trace(const harness::Trace& trace);

}  // namespace assay::properties
