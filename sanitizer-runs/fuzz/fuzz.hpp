// What the fuzz targets share: a statement that must hold, in every build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <vector>

#include <fmt/format.h>

namespace assay::fuzz {

/// Stops the target, so that libFuzzer keeps the input.
inline void expect(bool holds, const char* what) {
  if (holds) return;
  fmt::print(stderr, "does not hold: {}\n", what);
  std::abort();
}

}  // namespace assay::fuzz
