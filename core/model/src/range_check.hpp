// Checks of managed ranges, shared by advice and range queries.
#pragma once

#include "memory.hpp"
#include "rules.hpp"

namespace assay::cuda::model {

/// 1 unless the range lies in one managed block, or in plain memory where devices may use that.
[[nodiscard]] Status check_managed_range(Range range) noexcept;

/// Checks a location and gives its plain form: a node by number. Errors: 1, 101.
[[nodiscard]] Status check_location(Location& location) noexcept;

}  // namespace assay::cuda::model
