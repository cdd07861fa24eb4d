// What the tests of safetensors share: a published file, and files made of a header and some data.
#pragma once

#include <expected>
#include <fstream>
#include <iterator>
#include <string>

#include "assay/harness/safetensors.hpp"

namespace assay::test {

inline const std::string fixture =
    std::string(ASSAY_TEST_DATA) + "/tensors/burn-multi_layer.safetensors";

inline std::string fixture_text() {
  std::ifstream file(fixture, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::string length_of(std::uint64_t length) {
  std::string text;
  for (int i = 0; i < 8; ++i) text.push_back(static_cast<char>(length >> (8 * i)));
  return text;
}

/// A file with that header and so many bytes of data, 0, 1, 2, ...
inline std::string file_of(const std::string& header, std::size_t data_bytes) {
  std::string file = length_of(header.size()) + header;
  for (std::size_t i = 0; i < data_bytes; ++i) file.push_back(static_cast<char>(i));
  return file;
}

inline std::expected<harness::SafeTensors, harness::InputError> opened(const std::string& file) {
  return harness::read_safetensors(Bytes::from_text(file).value(), "model");
}

}  // namespace assay::test
