// Site: which call did something, so that a diagnosis can name it.
#pragma once

#include <cstdint>
#include <string>

namespace assay::cuda::model {

struct Site {
  const char* function = "";     ///< static text
  std::uint64_t call = 0;        ///< number of the call in this process
  const void* caller = nullptr;  ///< where the program called from
};

/// "cuMemFree_v2 (call 17, from program+0x1a2b)"
[[nodiscard]] std::string describe(const Site& site);

/// "0x7f... + 4096 bytes"
[[nodiscard]] std::string describe_range(std::uint64_t address, std::uint64_t size);

}  // namespace assay::cuda::model
