// Checks that the exports of pools share.
#pragma once

#include "pool.hpp"

namespace assay::cuda::model {

/// 801 where MEMORY_POOLS_SUPPORTED is 0.
[[nodiscard]] Status check_pools_supported() noexcept;

/// May a pool of that type lie there? The location is brought into one form: an id that says
/// nothing becomes 0. Errors: 1; 801 where the device supports no such pools. A device that is not
/// there answers `bad_device`.
[[nodiscard]] Status check_pool_location(Location& location, AllocationType type,
                                         Status bad_device) noexcept;

}  // namespace assay::cuda::model
