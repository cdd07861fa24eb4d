// Runs programs on the driver's model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "assay/cuda/driver.hpp"
#include "program.hpp"

namespace assay::ordering {

/// A call that a diagnosis names.
struct NamedCall {
  std::string function;
  std::uint64_t number = 0;
};

struct Diagnosis {
  std::string text;
  std::string rule;
  std::vector<NamedCall> calls;  ///< first the one at fault, last the one that it conflicts with
};

struct Outcome {
  std::vector<std::uint64_t> call_of;  ///< by command: the number of its (first) call
  std::size_t answered = 0;            ///< commands up to the first that failed
  std::string failure;                 ///< what that one answered; empty: none failed
  std::vector<Diagnosis> diagnoses;
  std::string wrong_content;  ///< of a read; empty: all are right, or none is certain
  std::string left_alive;     ///< objects that the program made; empty: none
};

/// Runs the program in a context and a pool of its own, waits for all of it, and cleans up.
/// Diagnoses are forgotten before and after.
[[nodiscard]] Outcome run(const cuda::Driver& driver, const Program& program);

/// The model, loaded from `path`, or from ASSAY_ORDERING_MODEL where that is set.
[[nodiscard]] const cuda::Driver& model(const char* path);

[[nodiscard]] Diagnosis read_diagnosis(const std::string& text);

}  // namespace assay::ordering
