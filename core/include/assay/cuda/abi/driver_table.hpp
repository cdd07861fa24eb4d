// DriverTable: one pointer for each function of driver_functions.def.
#pragma once

#include "assay/cuda/abi/types.hpp"

namespace assay::cuda::abi {

/// The driver's functions under their exported names. A null pointer is a function that this driver
/// lacks; those that are `required` are never null in a loaded driver.
struct DriverTable {
  template <class... Parameters>
  using Pointer = Status (*)(Parameters...);

#define ASSAY_PARAMETERS(...) Pointer<__VA_ARGS__>
#define ASSAY_DRIVER_FUNCTION(symbol, base, version, need, parameters) \
  ASSAY_PARAMETERS parameters symbol = nullptr;
#include "assay/cuda/abi/driver_functions.def"
#undef ASSAY_DRIVER_FUNCTION
#undef ASSAY_PARAMETERS
};

}  // namespace assay::cuda::abi
