// What has been diagnosed, for the control table and the report.
#pragma once

#include <cstdint>

namespace assay::cuda::model {

[[nodiscard]] std::uint64_t diagnosis_count() noexcept;
/// Null past the end; valid until forget_diagnoses().
[[nodiscard]] const char* diagnosis_text(std::uint64_t index) noexcept;
void forget_diagnoses() noexcept;

/// `id [source] text`, a line for each rule. Static text.
[[nodiscard]] const char* rules_text();

}  // namespace assay::cuda::model
