// Numbers in JSON: it has no infinity and no NaN, and readers must not take one for a result.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace assay::harness {

/// The number, or null if it is not finite.
[[nodiscard]] nlohmann::ordered_json json_number(double value);

/// Sets `object[key]`. A value that is not finite becomes null and `key` is added to
/// `object["non_finite"]`, a list of such keys, so that null never reads as "not measured".
void put_number(nlohmann::ordered_json& object, const std::string& key, double value);

}  // namespace assay::harness
