#include "driver_rows.hpp"

#include <array>

namespace assay::cuda {
namespace detail {
namespace {

constexpr std::array rows = {
#define ASSAY_DRIVER_FUNCTION(symbol, base, version, need, parameters)           \
  DriverRow{#symbol,                                                             \
            #base,                                                               \
            version,                                                             \
            #need,                                                               \
            Need::need,                                                          \
            [](abi::DriverTable& table, void* function) noexcept {               \
              table.symbol = reinterpret_cast<decltype(table.symbol)>(function); \
            }},
#include "assay/cuda/abi/driver_functions.def"
#undef ASSAY_DRIVER_FUNCTION
};

}  // namespace

std::span<const DriverRow> driver_rows() noexcept {
  return rows;
}

}  // namespace detail

std::string_view name_of(Feature feature) noexcept {
  switch (feature) {
#define ASSAY_DRIVER_FEATURE(name, meaning) \
  case Feature::name: return #name;
#include "assay/cuda/abi/driver_features.def"
#undef ASSAY_DRIVER_FEATURE
    case Feature::count: break;
  }
  return "";
}

}  // namespace assay::cuda
