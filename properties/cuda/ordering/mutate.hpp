// Programs with one thing wrong.
#pragma once

#include <string>
#include <vector>

#include "program.hpp"

namespace assay::ordering {

enum class Fault : std::uint8_t {
  wait_left_out,
  record_left_out,
  wrong_event,
  record_too_early,
  free_too_early,
  count
};
[[nodiscard]] const char* name_of(Fault fault);

struct Mutant {
  Fault fault;
  Program program;
  std::string what;  ///< is wrong with it
};

/// Every mutant of the program: for each wait the program without it, and so on.
[[nodiscard]] std::vector<Mutant> mutants_of(const Program& program);

}  // namespace assay::ordering
