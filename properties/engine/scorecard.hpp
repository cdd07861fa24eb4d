// Scorecard: a verification as text for a person.
#pragma once

#include <string>

#include "assay/harness/verify_result.hpp"

namespace assay::properties {

/// The table of subjects and properties, then each failure with its commands and its trace.
[[nodiscard]] std::string scorecard(const harness::VerifyResult& result);

/// One line of progress.
[[nodiscard]] std::string progress_line(const harness::VerifyCell& cell);

}  // namespace assay::properties
