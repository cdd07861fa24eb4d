// The groups of driver-contract tests, one file each.
#pragma once

#include "suite/test.hpp"

namespace assay::conformance {

#define ASSAY_CONFORMANCE_GROUP(name) [[nodiscard]] Tests name();
#include "contract/groups.def"
#undef ASSAY_CONFORMANCE_GROUP

}  // namespace assay::conformance
