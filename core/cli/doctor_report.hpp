// From facts to advice and to text.
#pragma once

#include <string>

#include "doctor_host.hpp"

namespace assay::doctor {

/// What is missing here, and how to get it: a list of {what, why, get}.
[[nodiscard]] Json missing_from(const Json& facts);

/// The report for a person.
[[nodiscard]] std::string to_text(const Json& facts);

}  // namespace assay::doctor
