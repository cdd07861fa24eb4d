// What a run leaves: a table for people, and rows of Google Benchmark's shape for programs.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "measure.hpp"
#include "options.hpp"

namespace assay::yardstick {

using Json = nlohmann::ordered_json;

/// The table's first line. `width` is that of the longest id.
[[nodiscard]] std::string table_head(std::size_t width);
[[nodiscard]] std::string table_line(const Row& row, const Outcome& outcome, std::size_t width);

/// A row of the result: `real_time` is the operation's median, everything about the yardstick
/// stands beside it. `index` is its place in the program.
[[nodiscard]] Json json_of(const Row& row, const Outcome& outcome, std::size_t index);

/// What must be known of build and machine, with the keys that assay-bench writes.
[[nodiscard]] Json context_of(const Options& options);

}  // namespace assay::yardstick
