// The JSON header of a safetensors file, checked in every field.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "assay/harness/safetensors.hpp"

namespace assay::harness {

/// A tensor as the header describes it. Offsets count from the end of the header.
struct TensorFacts {
  std::string name;
  TensorType type{};
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct SafeTensorsHeader {
  std::map<std::string, std::string, std::less<>> metadata;
  std::vector<TensorFacts> tensors;  ///< by `begin`: they fill the data without hole or overlap
};

/// Reads the header of a file with `data_bytes` behind it. **Errors** one line that names the
/// field, its value and what it must be. Memory: some times the header's length; nesting costs no
/// stack.
[[nodiscard]] std::expected<SafeTensorsHeader, std::string> parse_safetensors_header(
    std::string_view json, std::uint64_t data_bytes);

}  // namespace assay::harness
