#include "assay/harness/natural.hpp"

#include <fmt/format.h>

#include "assay/harness/input_error.hpp"
#include "assay/harness/text_cursor.hpp"

namespace assay::harness {

std::string parse_natural(const std::string& text, std::uint64_t& number) {
  const auto parsed = parse_number<std::uint64_t>(text);
  if (!parsed) return fmt::format("{} is not a natural number below 2^64", quoted(text));
  number = *parsed;
  return "";
}

}  // namespace assay::harness
