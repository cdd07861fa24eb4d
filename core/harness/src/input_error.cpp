#include "assay/harness/input_error.hpp"

#include <fmt/format.h>

namespace assay::harness {

std::string InputError::describe() const {
  return row == 0 ? fmt::format("{}: {}", file, message)
                  : fmt::format("{}: row {}: {}", file, row, message);
}

std::string quoted(std::string_view text) {
  constexpr std::size_t length_max = 60;
  std::string shown = "'";
  for (const char c : text.substr(0, length_max)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) {
      shown += fmt::format("\\x{:02x}", byte);
    } else {
      shown += c;
    }
  }
  return shown + (text.size() > length_max ? "...'" : "'");
}

}  // namespace assay::harness
