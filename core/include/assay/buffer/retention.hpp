// Retention: what many values hold together, and what they keep alive.
#pragma once

#include <cstddef>
#include <span>

#include "assay/buffer/bytes.hpp"

namespace assay {

/// Bytes of memory behind a set of values.
struct Retention {
  std::size_t logical_bytes = 0;   ///< what the values show: the sum of their lengths
  std::size_t retained_bytes = 0;  ///< what they keep alive: every block once
  friend bool operator==(const Retention&, const Retention&) = default;
};

/// Counts a set of values together: of two views of one block, `Bytes::retained_bytes()` tells the
/// whole block twice, this once. An unread value of a device keeps the device's block, a read one
/// its mirror too; a file keeps no memory until it is read.
/// **Errors** out_of_memory, too_large if the lengths of overlapping values sum to more than
/// size_max. **Cost** n log n, 32 bytes of temporary memory a value; nothing is read or copied.
/// **Threads** as a const operation on each value.
[[nodiscard]] Result<Retention> retention_of(std::span<const Bytes> values) noexcept;

}  // namespace assay
