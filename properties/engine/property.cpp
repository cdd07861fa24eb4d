#include "property.hpp"

#include <array>

namespace assay::properties {

namespace property_list {
#define ASSAY_PROPERTY(function) const Property& function();
#include "../manifest.def"
#undef ASSAY_PROPERTY
}  // namespace property_list

std::span<const Property* const> properties() noexcept {
  static const std::array all = {
#define ASSAY_PROPERTY(function) &property_list::function(),
#include "../manifest.def"
#undef ASSAY_PROPERTY
  };
  return all;
}

const Property* find_property(std::string_view id) noexcept {
  for (const Property* property : properties()) {
    if (property->id == id) return property;
  }
  return nullptr;
}

}  // namespace assay::properties
