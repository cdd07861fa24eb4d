// FaultPlan: which calls fail, by whom and how; and the count of calls.
#pragma once

#include <cstdint>
#include <string_view>

#include "exports.hpp"

namespace assay::cuda::model {

/// Counts a call. Returns the status that the plan injects into it, or success. `number` is the
/// count of the process's calls, this one included; it never starts anew.
Status count_call(Function function, std::uint64_t& number) noexcept;

/// Replaces the plan and starts counting anew; lifts what an earlier plan's sticky fault poisoned.
/// False, and nothing changes, if the text is no plan.
bool set_fault_plan(std::string_view text) noexcept;

/// By exported name, or "*" for all; 0 for a name that is not exported.
[[nodiscard]] std::uint64_t calls_of(std::string_view function) noexcept;
[[nodiscard]] std::uint64_t calls_of(Function function) noexcept;
[[nodiscard]] std::uint64_t faults_injected() noexcept;

/// Empty unless ASSAY_MODEL_FAULTS could not be read; cuInit then answers 999.
[[nodiscard]] std::string_view fault_plan_error() noexcept;

}  // namespace assay::cuda::model
