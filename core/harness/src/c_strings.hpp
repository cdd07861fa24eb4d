// The argument and environment lists that execve and posix_spawn take.
#pragma once

#include <string>
#include <vector>

namespace assay::harness {

/// Pointers to the strings, ended by a null. Valid as long as `strings` is neither changed nor
/// gone.
[[nodiscard]] inline std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace assay::harness
