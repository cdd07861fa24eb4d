// Programs whose blocks come from the backing device_pool.
#pragma once

#include "program.hpp"

namespace assay::ordering {

/// The program with what the backing does by itself, as its header promises: a free on another
/// stream than the block's own waits on the host for the latter.
[[nodiscard]] Program over_backing(const Program& program);

}  // namespace assay::ordering
