// The table of docs/conformance.md, generated from result files.
#pragma once

#include <string>
#include <vector>

namespace assay::conformance {

/// Prints, for results of assay-conformance side by side, tests by group and skips by reason as
/// Markdown. Returns 0, or 2 if a file cannot be read.
int print_markdown(const std::vector<std::string>& files);

}  // namespace assay::conformance
