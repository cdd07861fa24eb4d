// Every backing of ours as a home, and the device whose memory values may come from. Those that
// need a driver get its model.
#pragma once

#include <cstdlib>
#include <vector>

#include "assay/cuda/driver.hpp"
#include "assay/harness/subject.hpp"

namespace assay::properties {

/// **Post** drivers that are loaded by default are the model.
inline void use_model() {
  static const int done = ::setenv(cuda::Driver::path_variable, ASSAY_MODEL_LIBRARY, 1);
  ASSAY_CONTRACT(done == 0, "setenv failed");
}

inline std::vector<const harness::Subject*> homes() {
  std::vector<const harness::Subject*> ours;
  for (const harness::Subject* const subject : harness::subjects()) {
    if (subject->origin == harness::Origin::assay) ours.push_back(subject);
  }
  return ours;
}

/// Memory of a device, one for the whole process.
inline const Ref<Backing>& model_device() {
  static const Ref<Backing> device = [] {
    use_model();
    return harness::find_subject("device")->make({}).value();
  }();
  return device;
}

}  // namespace assay::properties
