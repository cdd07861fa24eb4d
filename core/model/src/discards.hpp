// Discarded ranges of managed memory: their bytes mean nothing until somebody writes or prefetches
// them.
#pragma once

#include <cstddef>

#include "memory.hpp"

namespace assay::cuda::model {

/// Fills the whole pages within the range with a pattern, and keeps which call discarded them.
/// `bytes` is the model's pointer to the range. Pre: nothing else uses the range now.
void discard_pages(Range range, std::byte* bytes, const Site& site) noexcept;

/// A device wrote or prefetched the range, or its memory is freed.
void end_discard(Range range) noexcept;

/// Diagnoses a read by the work of `reader` of bytes that are still as a discard left them. What
/// the host has written meanwhile differs from the pattern, and is no mistake.
void look_for_discarded(Range range, const std::byte* bytes, const Site& reader) noexcept;

}  // namespace assay::cuda::model
