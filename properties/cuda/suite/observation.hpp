// Observation: what a step gave, and the lines by which a test's process tells it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "suite/test.hpp"

namespace assay::conformance {

struct Observation {
  Expectation::Kind kind = Expectation::Kind::code;
  std::string step;
  std::int64_t value = 0;
  friend bool operator==(const Observation&, const Observation&) = default;
};

/// What the process of one test said.
struct Transcript {
  std::vector<Observation> observations;
  std::vector<std::string> notes;
  std::string skipped;  ///< why, or empty
  std::string setup;    ///< the preparation that failed, or empty
  bool finished = false;
  std::string garbled;  ///< the first line that no test writes, or empty
};

// Each writes one line of JSON to standard output, at once and unbuffered.
void say(const Observation& observation);
void say_note(const std::string& text);
void say_skipped(const std::string& why);
void say_setup_failed(const std::string& what);
void say_finished();

[[nodiscard]] Transcript read_transcript(std::string_view text);

}  // namespace assay::conformance
