// The syntax of backing specs; what the names mean is make_backing's business.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace assay::detail {

/// A place in the spec and what is wrong there.
struct SpecFault {
  std::size_t column;
  std::string message;
};

/// A word of the spec with what it was given: `quota(512MiB, virtual)` or `nth=3` or `1MiB`.
struct SpecTerm {
  std::size_t column = 1;
  std::string_view word{};   ///< name, flag, size, or the option's name
  std::string_view value{};  ///< right of "="; empty if there is none
  std::size_t value_column = 0;
  bool has_arguments = false;  ///< parentheses were written
  std::vector<SpecTerm> arguments{};

  [[nodiscard]] bool is_size() const noexcept {
    return value_column == 0 && word.front() >= '0' && word.front() <= '9';
  }
  [[nodiscard]] bool is_option() const noexcept { return value_column != 0; }
};

inline constexpr std::size_t spec_depth_max = 32;

/// May throw std::bad_alloc.
std::expected<SpecTerm, SpecFault> parse_spec(std::string_view spec);

/// Bytes that a size such as `512MiB` says. **Errors** not a number, unknown unit, past size_max.
std::expected<std::uint64_t, SpecFault> parse_size(std::string_view text, std::size_t column);

/// A plain number. **Errors** not a number, past 2^64 - 1.
std::expected<std::uint64_t, SpecFault> parse_number(std::string_view text, std::size_t column);

/// Text of a message in quotes, with control characters as '?', cut to 40 characters.
std::string spec_quoted(std::string_view text);

}  // namespace assay::detail
