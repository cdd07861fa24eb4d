// A host access that the memory does not allow ends the program by a signal, on the model as on
// hardware. Before it does, the model says what was touched.
#pragma once

namespace assay::cuda::model {

/// From now on an access fault on the driver's memory is diagnosed, then handled as it was before:
/// by the program's handler, or by its end. Faults elsewhere are passed on untouched. A handler
/// that the program installs later takes this one's place.
void watch_host_faults() noexcept;

}  // namespace assay::cuda::model
