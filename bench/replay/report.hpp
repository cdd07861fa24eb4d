// What assay-replay tells: the tables and the JSON.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "assay/harness/trace_facts.hpp"
#include "child.hpp"
#include "options.hpp"

namespace assay::replay {

/// One whole run of assay-replay.
struct Report {
  Options options;
  harness::TraceFormat format = harness::TraceFormat::assay_trace;
  std::uint64_t seed = 0;  ///< the trace's own
  harness::TraceFacts facts;
  std::vector<harness::TimelinePoint> timeline;
  std::vector<Row> rows;
};

/// The document `assay.replay/1` (docs/formats.md).
[[nodiscard]] nlohmann::ordered_json to_json(const Report& report);
/// For a person: the trace's counts, a table of times, a table of footprints.
[[nodiscard]] std::string to_table(const Report& report);
/// 1 if a row crashed or hung; 4 if one is an error, or was named by the user and skipped; 77 if
/// none is ok; else 0.
[[nodiscard]] int exit_code(const Report& report);

}  // namespace assay::replay
