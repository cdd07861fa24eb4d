// What is checked of the place of a pool's block in stream order. Under the locks of the scheduler
// and of pool.cpp.
#pragma once

#include "pool.hpp"

namespace assay::cuda::model {

/// A use, by an operation that is being enqueued; diagnoses one out of its place.
void note_pool_use(const Allocation& allocation, const Site& site, const StreamOrder& order);

/// A free that is being enqueued, or of the host; diagnoses one that is not after all uses.
void check_pool_free(const Allocation& allocation, const Site& site, const StreamOrder& order);

}  // namespace assay::cuda::model
