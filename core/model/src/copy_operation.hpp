// Copies and sets as operations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stream_access.hpp"

namespace assay::cuda::model {

/// What becomes of a copy's source between the call and the copy.
enum class Source : std::uint8_t {
  staged,   ///< read at the call: the program may use it again at once
  watched,  ///< the program has to leave it alone until the copy is done: a change is diagnosed
  live,     ///< read when the copy runs, whatever it holds: the caller waits, or it is the device's
};

/// A copy of `from` to `to`, of equal sizes, in a stream of `device`. Diagnoses an overlap.
[[nodiscard]] Operation make_copy(const Operand& to, const Operand& from, Source source,
                                  Running running);

/// Fills `to` with values of `width` bytes (1, 2 or 4).
[[nodiscard]] Operation make_set(const Operand& to, std::uint32_t value, std::size_t width,
                                 Running running);

}  // namespace assay::cuda::model
