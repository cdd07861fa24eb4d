// Checks of managed ranges, shared by advice and range queries.
#pragma once

#include "memory.hpp"
#include "rules.hpp"

namespace assay::cuda::model {

/// 1 unless the range lies in one managed block, or in plain memory where devices may use that.
/// A query asks on purpose what it may not know; advice and prefetch elsewhere are mistakes.
enum class Purpose : std::uint8_t { query, change };
[[nodiscard]] Status check_managed_range(Range range, Purpose purpose) noexcept;

/// Checks a location and gives its plain form: a node by number. Errors: 1, 101.
[[nodiscard]] Status check_location(Location& location) noexcept;

}  // namespace assay::cuda::model
