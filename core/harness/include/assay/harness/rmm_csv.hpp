// RMM CSV: the log of rmm's logging_resource_adaptor, read as a trace (docs/formats.md).
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "assay/harness/trace.hpp"

namespace assay::harness {

/// Reads a log with the header `Thread,Time,Action,Pointer,Size,Stream`. One row gives one event;
/// each allocation gets a fresh id, so a reused address never confuses two blocks, and a free of
/// a pointer that is not live gets an id that was never allocated. **Errors** the first row that
/// is not of the format, or that allocates at the address of a live block.
[[nodiscard]] std::expected<LoadedTrace, InputError> parse_rmm_csv(std::string_view text,
                                                                   const std::string& name);

}  // namespace assay::harness
