// The model's rules by name. Each refusal and each diagnosis says which rule it follows, so that a
// report can tell which rules a run has met.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "assay/cuda/abi/types.hpp"

namespace assay::cuda::model {

using namespace abi;

/// rules.def: contexts and memory; stream_rules.def: streams, copies, kernels; the others by name.
enum class Rule : std::uint16_t {
#define ASSAY_MODEL_RULE(id, source, text) id,
#include "batch_rules.def"
#include "pool_rules.def"
#include "rules.def"
#include "stream_rules.def"
#include "virtual_rules.def"
#undef ASSAY_MODEL_RULE
  count
};

inline constexpr std::size_t rule_count = static_cast<std::size_t>(Rule::count);

/// Counts that `rule` was met and returns `status`: `return answer(Rule::free_twice, ...)`.
Status answer(Rule rule, Status status) noexcept;

/// Refuses a call because of a mistake of the program: answer() and diagnose() with the text "(the
/// call that runs now) `what`".
Status refuse(Rule rule, Status status, const std::string& what) noexcept;

/// Records a mistake of the program: one line to stderr and to the report. Aborts under
/// ASSAY_MODEL_STRICT=1. **Threads** any; may be called under any lock of the model.
void diagnose(Rule rule, std::string text) noexcept;

[[nodiscard]] std::uint64_t times_met(Rule rule) noexcept;
[[nodiscard]] const char* id_of(Rule rule) noexcept;

}  // namespace assay::cuda::model
