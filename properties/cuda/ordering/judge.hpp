// Holds what the model said of a program against what the graph says.
#pragma once

#include <cstdint>
#include <string>

#include "memory.hpp"
#include "program.hpp"

namespace assay::ordering {

struct Verdict {
  bool needed = false;       ///< the program is wrong by every reading
  bool found = false;        ///< and the model said so
  bool open = false;         ///< wrong only where the documents leave the order open
  std::string disagreement;  ///< of graph and model; empty: they agree
};

/// A correct program: nothing is said, contents are right, nothing stays alive.
[[nodiscard]] std::string judge_correct(const Ref<cuda::Driver>& driver, const Program& program,
                                        Through through);

/// Any program: every conflict is diagnosed at its later call, every diagnosis names the two calls
/// of a conflict, and without one nothing is said.
[[nodiscard]] Verdict judge(const Ref<cuda::Driver>& driver, const Program& program,
                            Through through);

}  // namespace assay::ordering
