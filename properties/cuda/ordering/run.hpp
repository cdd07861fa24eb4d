// Runs programs on the driver's model.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "assay/cuda/driver.hpp"
#include "memory.hpp"
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
  /// By command: the numbers of its calls, and of the first call after them.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> calls;
  std::size_t answered = 0;  ///< commands up to the first that failed
  std::string failure;       ///< what that one answered; empty: none failed
  std::vector<Diagnosis> diagnoses;
  std::string wrong_content;  ///< of a read; empty: all are right, or none is certain
  std::string left_alive;     ///< objects that the program made; empty: none
};

/// Runs the program with a pool of its own, waits for all of it, and cleans up. Diagnoses are
/// forgotten before and after.
[[nodiscard]] Outcome run(const Ref<cuda::Driver>& driver, const Program& program, Through through);

/// The model, loaded from `path`, or from ASSAY_ORDERING_MODEL where that is set.
[[nodiscard]] const Ref<cuda::Driver>& model(const char* path);

[[nodiscard]] Diagnosis read_diagnosis(const std::string& text);

}  // namespace assay::ordering
