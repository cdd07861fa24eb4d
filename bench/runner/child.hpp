// The child: measures the rows of one subject and tells its parent line by line.
#pragma once

#include <string_view>

#include "options.hpp"
#include "rows.hpp"

namespace assay::bench {

// What a child writes to its descriptor, one JSON object a line: {"begin": row name} before a row
// is run, then {"row": …} for each of its runs; or {"skip": reason} and nothing else.
inline constexpr std::string_view begin_key = "begin";
inline constexpr std::string_view row_key = "row";
inline constexpr std::string_view skip_key = "skip";

/// Runs the rows of `options.subjects[0]` that match the filter; returns the exit code.
int run_child(const Options& options, const Offer& offer);

}  // namespace assay::bench
