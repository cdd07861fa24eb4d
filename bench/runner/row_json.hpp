// Rows as JSON: what Google Benchmark's own reporter writes, but strict and independent of locales.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "rows.hpp"

namespace assay::bench {

using Json = nlohmann::ordered_json;

/// One measured, failed or aggregate run of a row. A run of less than 0.5 ns per operation is
/// flagged: most likely the compiler removed the work.
[[nodiscard]] Json json_of(const Row& row, const benchmark::BenchmarkReporter::Run& run);

/// A row that was not measured because of what became of its process.
[[nodiscard]] Json error_row(const Row& row, const std::string& message);

/// What the library says of the machine: CPUs, caches, load, how the library was built. No host
/// name and no path.
[[nodiscard]] Json library_context();

/// Text of a document, whatever strings it holds: invalid UTF-8 becomes U+FFFD.
[[nodiscard]] std::string text_of(const Json& document, int indent);

}  // namespace assay::bench
