// Natural numbers of a command line, read alike by every program.
#pragma once

#include <cstdint>
#include <string>

namespace assay::harness {

/// Sets `number` to the decimal number that `text` is; or says what is wrong, in words for the
/// user. A sign, a blank or a value of 2^64 and more is refused, where CLI11 would wrap or clamp.
[[nodiscard]] std::string parse_natural(const std::string& text, std::uint64_t& number);

}  // namespace assay::harness
