// Every exported function of a driver, answering success and doing nothing; weak, so that those of
// behaviour.cpp win. What is exported of it is decided by each library's version script.
#include "assay/cuda/abi/types.hpp"

namespace assay::cuda::abi {

#define ASSAY_DRIVER_FUNCTION(symbol, base, version, need, parameters) \
  extern "C" __attribute__((weak)) Status symbol parameters {          \
    return Status::success;                                            \
  }
#include "assay/cuda/abi/driver_functions.def"
#undef ASSAY_DRIVER_FUNCTION

}  // namespace assay::cuda::abi
