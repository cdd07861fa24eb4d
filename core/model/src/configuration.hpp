// What the environment asks of the model beside profile and faults, and what is wrong with all of
// it.
#pragma once

#include <string>

namespace assay::cuda::model {

[[nodiscard]] bool strict() noexcept;  ///< ASSAY_MODEL_STRICT
[[nodiscard]] bool eager() noexcept;   ///< ASSAY_MODEL_EAGER

/// What is wrong with a variable of the model's, or "". While it is not empty, cuInit answers 999
/// and cuGetErrorString says it for 999. Static text.
[[nodiscard]] const std::string& configuration_error() noexcept;

}  // namespace assay::cuda::model
