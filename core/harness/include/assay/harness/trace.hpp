// Trace: recorded allocator calls, and the text grammar that keeps them (docs/formats.md).
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "assay/backing/trace_event.hpp"
#include "assay/harness/input_error.hpp"

namespace assay::harness {

/// What a trace says of itself.
struct TraceHeader {
  std::string dialect = "block";
  std::string subject;   ///< id or spec of what was traced; may be empty
  std::string property;  ///< the property that failed; empty unless this is a counterexample
  std::uint64_t seed = 0;
  std::uint64_t page_size = 0;  ///< of the recording machine, 0 if unknown
  std::string clock = "monotonic";
  std::uint64_t dropped = 0;  ///< events that the recorder had no room for
  /// Further `key: value` lines, in order. Keys are [a-z0-9_.-]+ and differ from those above.
  std::vector<std::pair<std::string, std::string>> extra;

  friend bool operator==(const TraceHeader&, const TraceHeader&) = default;
};

struct Trace {
  TraceHeader header;
  std::vector<TraceEvent> events;

  /// A failing history of one property, to be judged again rather than timed.
  [[nodiscard]] bool is_counterexample() const noexcept { return !header.property.empty(); }
  friend bool operator==(const Trace&, const Trace&) = default;
};

enum class TraceFormat : std::uint8_t { assay_trace, rmm_csv };
[[nodiscard]] std::string_view name_of(TraceFormat format) noexcept;

/// A trace with where it came from.
struct LoadedTrace {
  Trace trace;
  TraceFormat format = TraceFormat::assay_trace;
  std::vector<std::uint64_t> rows;  ///< line of each event in its file, from 1
};

/// The grammar's word of an operation, such as "allocate".
[[nodiscard]] std::string_view name_of(TraceOperation operation) noexcept;
[[nodiscard]] std::optional<TraceOperation> trace_operation_of(std::string_view name) noexcept;

/// The trace in the text grammar; independent of the locale. Header values are one line each:
/// control characters become spaces, blanks at either end go.
/// **Post** parse_trace of it gives the same trace, if sequences increase and ids are not live
/// twice. **Pre** extra keys are well-formed.
[[nodiscard]] std::string to_text(const Trace& trace);

/// Reads the text grammar. `name` is the file named in errors. **Errors** the first row that is
/// not of the grammar, a sequence that does not increase, an id allocated while it is live, or a
/// text without its `end` line. Any size is legal, and so is an operation on an unknown id.
[[nodiscard]] std::expected<Trace, InputError> parse_trace(std::string_view text,
                                                           const std::string& name);
/// As parse_trace, with the row of each event.
[[nodiscard]] std::expected<LoadedTrace, InputError> parse_trace_rows(std::string_view text,
                                                                      const std::string& name);

/// Reads a trace of either format, told by its content, plain or gzip.
[[nodiscard]] std::expected<LoadedTrace, InputError> load_trace(const std::string& path);

/// The bytes of a file, unpacked if they are gzip. **Errors** unreadable, cut-off or damaged gzip,
/// or more than 2 GiB of text.
[[nodiscard]] std::expected<std::string, InputError> read_text(const std::string& path);

/// Replaces `path` by `text`, whole or not at all: a temporary file beside it, fsync, rename.
/// **Errors** what the system said, a full disk included; then `path` is as before.
[[nodiscard]] std::expected<void, InputError> write_atomically(const std::string& path,
                                                               std::string_view text);

}  // namespace assay::harness
