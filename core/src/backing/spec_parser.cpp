#include "spec_parser.hpp"

#include <array>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "assay/base/checked.hpp"

namespace assay::detail {
namespace {

bool is_word(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// Recursive descent over the spec; `at_` is the next character.
class Parser {
 public:
  explicit Parser(std::string_view spec) : spec_(spec) {}

  std::expected<SpecTerm, SpecFault> parse_all() {
    auto term = parse_term(1);
    if (!term) return term;
    skip_blanks();
    if (at_ < spec_.size()) return fault("nothing more is expected here");
    return term;
  }

 private:
  std::expected<SpecTerm, SpecFault> parse_term(std::size_t depth) {
    skip_blanks();
    if (depth > spec_depth_max) return fault("chains may be 32 deep at most");
    SpecTerm term{.column = at_ + 1};
    term.word = read_word();
    if (term.word.empty()) return fault("a name or a size is expected here");
    skip_blanks();
    if (take('=')) {
      skip_blanks();
      term.value_column = at_ + 1;
      term.value = read_word();
      if (term.value.empty()) return fault("a value is expected after '='");
      return term;
    }
    if (!take('(')) return term;
    term.has_arguments = true;
    do {
      auto argument = parse_term(depth + 1);
      if (!argument) return argument;
      term.arguments.push_back(*std::move(argument));
      skip_blanks();
    } while (take(','));
    if (!take(')')) return fault("',' or ')' is expected here");
    return term;
  }

  std::unexpected<SpecFault> fault(std::string message) const {
    if (at_ < spec_.size()) {
      message += fmt::format(", not {}", spec_quoted(spec_.substr(at_, 1)));
    } else {
      message += ", but the spec ends";
    }
    return std::unexpected(SpecFault{at_ + 1, std::move(message)});
  }
  void skip_blanks() {
    while (at_ < spec_.size() && spec_[at_] == ' ') ++at_;
  }
  bool take(char wanted) {
    if (at_ >= spec_.size() || spec_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  std::string_view read_word() {
    const std::size_t first = at_;
    while (at_ < spec_.size() && is_word(spec_[at_])) ++at_;
    return spec_.substr(first, at_ - first);
  }

  std::string_view spec_;
  std::size_t at_ = 0;
};

struct Unit {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr std::array units = {Unit{"", 1}, Unit{"B", 1}, Unit{"KiB", 1ull << 10},
                              Unit{"MiB", 1ull << 20}, Unit{"GiB", 1ull << 30}};

std::optional<std::uint64_t> unit_of(std::string_view name) {
  for (const Unit& unit : units) {
    if (unit.name == name) return unit.bytes;
  }
  return std::nullopt;
}

}  // namespace

std::string spec_quoted(std::string_view text) {
  std::string shown = "'";
  for (const char c : text.substr(0, 40)) shown += c >= ' ' && c <= '~' ? c : '?';
  if (text.size() > 40) shown += "...";
  return shown + "'";
}

std::expected<SpecTerm, SpecFault> parse_spec(std::string_view spec) {
  return Parser(spec).parse_all();
}

std::expected<std::uint64_t, SpecFault> parse_number(std::string_view text, std::size_t column) {
  std::uint64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status == std::errc::result_out_of_range) {
    return std::unexpected(SpecFault{column, spec_quoted(text) + " is too large a number"});
  }
  if (status != std::errc{} || end != text.data() + text.size()) {
    return std::unexpected(SpecFault{column, spec_quoted(text) + " is not a number"});
  }
  return value;
}

std::expected<std::uint64_t, SpecFault> parse_size(std::string_view text, std::size_t column) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view suffix = text.substr(digits);
  if (digits == 0) {
    return std::unexpected(SpecFault{column, spec_quoted(text) + " is not a size, such as 64MiB"});
  }
  const auto unit = unit_of(suffix);
  if (!unit) {
    return std::unexpected(
        SpecFault{column + digits,
                  fmt::format("unknown unit {}: write B, KiB, MiB or GiB", spec_quoted(suffix))});
  }
  auto number = parse_number(text.substr(0, digits), column);
  if (!number) return number;
  const auto bytes = checked_multiply(*number, *unit);
  if (!bytes || *bytes > size_max) {
    return std::unexpected(SpecFault{
        column,
        fmt::format("{} is more than {} bytes, the largest size", spec_quoted(text), size_max)});
  }
  return *bytes;
}

}  // namespace assay::detail
