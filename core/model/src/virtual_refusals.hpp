// Refusals of mappings and reservations, in words.
#pragma once

#include "rules.hpp"
#include "virtual_memory.hpp"

namespace assay::cuda::model {

/// The range is not one reservation, or not within one. `there`: what was reserved, or null.
Status refuse_reservation(Rule rule, Range range, const Reservation* there);
/// The range is mapped, in part at least.
Status refuse_mapped(Rule rule, Range range, const Allocation& mapping);
/// The physical memory is smaller.
Status refuse_size(Rule rule, Range range, const Physical& physical);
/// The range is no whole mappings.
Status refuse_partial(Rule rule, Range range);
/// The device was not given such access to the mapping.
Status refuse_access(Rule rule, Range range, const Allocation& mapping, Device device);

}  // namespace assay::cuda::model
