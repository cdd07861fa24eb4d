// Probe: a question about the driver that no source answers. A probe judges nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "suite/observation.hpp"
#include "suite/run.hpp"

namespace assay::conformance {

struct Probe {
  const char* id;    ///< "P1" to "P25"
  const char* asks;  ///< the question, in one line
  Start start;
  void (*steps)(Run& run);
};

[[nodiscard]] const std::vector<Probe>& all_probes();
[[nodiscard]] std::vector<Probe> memory_probes();          ///< P1, P8 to P12, P15 to P23
[[nodiscard]] std::vector<Probe> virtual_memory_probes();  ///< P2 to P6
[[nodiscard]] std::vector<Probe> advice_probes();          ///< P7, P19, P20, P24
[[nodiscard]] std::vector<Probe> pool_probes();            ///< P13, P14, P25

// Answers whose name is made at run time.
inline void answer(const std::string& step, Status status) {
  say({Expectation::Kind::code, step, static_cast<std::int64_t>(status)});
}
inline void answer_value(const std::string& step, std::int64_t value) {
  say({Expectation::Kind::value, step, value});
}

/// True, and told as "absent: NAME", if the driver has no such function.
[[nodiscard]] bool is_absent(Run& run, const void* function, const char* name);
#define ASSAY_ABSENT(run, name) is_absent(run, reinterpret_cast<const void*>((run).cu.name), #name)

/// Opens every gate after 2 s unless it is destroyed before: then the call between did not wait.
class TwoSeconds {
 public:
  explicit TwoSeconds(Run& run);
  ~TwoSeconds();
  TwoSeconds(const TwoSeconds&) = delete;
  TwoSeconds& operator=(const TwoSeconds&) = delete;
  /// Had the gates to be opened?
  [[nodiscard]] bool passed();

 private:
  struct State;
  State* state_;
};

}  // namespace assay::conformance
