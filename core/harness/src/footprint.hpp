// Footprint of this process as the kernel sees it; nothing here allocates.
#pragma once

#include <cstdint>

namespace assay::harness {

struct Footprint {
  std::uint64_t mapped_bytes = 0;    ///< of private writable mappings
  std::uint64_t resident_bytes = 0;  ///< of all mappings
};

/// Reads /proc/self/maps and smaps_rollup (statm where there is no rollup). Zeros if unreadable.
/// **Cost** system calls in proportion to the number of mappings.
[[nodiscard]] Footprint footprint_now() noexcept;

}  // namespace assay::harness
