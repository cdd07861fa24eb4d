#include "assay/harness/json_number.hpp"

#include <cmath>

namespace assay::harness {

nlohmann::ordered_json json_number(double value) {
  if (!std::isfinite(value)) return nullptr;
  return value;
}

void put_number(nlohmann::ordered_json& object, const std::string& key, double value) {
  object[key] = json_number(value);
  if (!std::isfinite(value)) object["non_finite"].push_back(key);
}

}  // namespace assay::harness
