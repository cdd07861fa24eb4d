// Running one child and making its lines into rows: every row asked for has an answer.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "options.hpp"
#include "row_json.hpp"

namespace assay::bench {

/// What became of the rows of one subject.
struct Collected {
  std::vector<Json> rows;   ///< in the order of the rows asked for
  std::string skip_reason;  ///< not empty: the subject is not there, and there are no rows
};

/// Starts a child for `rows`, all of one subject, and waits for it. A child that crashed or hung
/// leaves error rows for what it had not measured. `on_stderr_line` hears what it says.
/// **Errors** io if no child can be started.
Result<Collected> collect(const Options& options, std::span<const Row> rows,
                          const std::function<void(const std::string& line)>& on_stderr_line);

/// The rows that the lines of a child tell of, and error rows for the others. `ending` says how
/// the child ended if it did not end well, and is empty otherwise.
[[nodiscard]] Collected rows_from_lines(std::string_view lines, std::span<const Row> rows,
                                        const std::string& ending);

}  // namespace assay::bench
