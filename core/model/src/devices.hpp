// Checks of device ordinals, shared by the exports.
#pragma once

#include "rules.hpp"

namespace assay::cuda::model {

/// 101 for an ordinal that the profile does not have.
[[nodiscard]] Status check_ordinal(Device device) noexcept;

}  // namespace assay::cuda::model
