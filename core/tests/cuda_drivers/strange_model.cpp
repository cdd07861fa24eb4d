// A driver with the model's marker, whose control table is of another build.
#include "assay/cuda/abi/model_control.hpp"

extern "C" const assay_model_control* assay_cuda_model() {
  static const assay_model_control control = [] {
    assay_model_control table{};
    table.abi = assay::cuda::abi::model_control_abi + 1;
    table.size = sizeof table;
    return table;
  }();
  return &control;
}
