// Blocks of many sizes, whoever gives them out.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "suite/run.hpp"

namespace assay::conformance {

inline constexpr std::array<std::size_t, 6> block_sizes{1, 255, 4096, 4097, MiB, 3 * MiB + 1};
using Blocks = std::array<DevicePointer, block_sizes.size()>;

/// Blocks of those sizes are aligned, apart and real.
inline void judge_blocks(Run& run, const Blocks& at) {
  bool aligned = true;
  bool apart = true;
  for (std::size_t i = 0; i < at.size(); ++i) {
    aligned = aligned && at[i] % 256 == 0;
    for (std::size_t j = 0; j < i; ++j) {
      apart = apart && (at[i] + block_sizes[i] <= at[j] || at[j] + block_sizes[j] <= at[i]);
    }
  }
  run.holds("addresses are multiples of 256", aligned);
  run.holds("no two overlap", apart);
  run.holds("none is null", std::find(at.begin(), at.end(), 0) == at.end());
}

}  // namespace assay::conformance
