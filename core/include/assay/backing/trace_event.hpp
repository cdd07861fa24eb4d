// TraceEvent: one recorded call of the block dialect, as `tracing` keeps it and traces spell it.
#pragma once

#include <cstdint>

#include "assay/backing/source.hpp"
#include "assay/base/error.hpp"

namespace assay {

/// What a traced call did. The names are the operations of the text grammar (docs/formats.md).
enum class TraceOperation : std::uint8_t { allocate, free, resize, fill, check, trim };

/// One event of the block dialect. Ids are given at allocation and never reused within a trace;
/// no pointer is ever recorded.
struct TraceEvent {
  std::uint64_t sequence = 0;  ///< global order, from 0, without gaps unless events were dropped
  std::uint64_t time_ns = 0;   ///< since the start of the recording
  std::uint32_t thread = 0;    ///< small number, by first appearance
  TraceOperation operation = TraceOperation::allocate;
  Init init = Init::undefined;
  ErrorCode outcome = ErrorCode::none;
  std::uint64_t stream = 0;     ///< small number or the recorder's handle value; 0 is "no stream"
  std::uint64_t id = 0;         ///< the block
  std::uint64_t size = 0;       ///< bytes asked for (allocate, resize: the new size)
  std::uint64_t alignment = 0;  ///< 0 if unknown
  std::uint64_t offset = 0;     ///< fill and check: start of the range

  friend bool operator==(const TraceEvent&, const TraceEvent&) = default;
};

}  // namespace assay
