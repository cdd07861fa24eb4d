// Makes correct programs: every wait that is needed is there, and some that are not.
#pragma once

#include <vector>

#include "program.hpp"

namespace assay::ordering {

/// What a step of a program is to be like. Any numbers make a correct program.
struct Intent {
  std::uint8_t what = 0;
  std::uint8_t stream = 0;
  std::uint8_t block = 0;
  std::uint8_t value = 0;
  std::uint8_t style = 0;  ///< of the waits that the step needs
};

struct Shape {
  std::uint8_t streams = 2;     ///< besides the default one
  bool default_stream = false;  ///< is it used, and are the others blocking (all but the last)?
  bool host_functions = false;
  bool renewals = false;
  bool host_frees = true;  ///< by cuMemFree too
  bool writes_ordered = true;
};

/// **Post** no conflict under Reading::sure; at the end every block is freed.
[[nodiscard]] Program make_program(const Shape& shape, const std::vector<Intent>& intents);

}  // namespace assay::ordering
