// Cutting lines, words and numbers out of untrusted text, without the locale.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace assay::harness {

/// The lines of a text, numbered from 1; a carriage return before the line feed is dropped, and
/// the last line needs no line feed.
class Lines {
 public:
  explicit Lines(std::string_view text) noexcept : rest_(text) {}
  /// Moves to the next line; false at the end of the text.
  bool next() noexcept {
    if (rest_.empty()) return false;
    const std::size_t end = rest_.find('\n');
    line_ = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    if (line_.ends_with('\r')) line_.remove_suffix(1);
    ++row_;
    return true;
  }
  [[nodiscard]] std::string_view line() const noexcept { return line_; }
  [[nodiscard]] std::uint64_t row() const noexcept { return row_; }

 private:
  std::string_view rest_;
  std::string_view line_;
  std::uint64_t row_ = 0;
};

[[nodiscard]] inline std::string_view trimmed(std::string_view text) noexcept {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Cuts the next word (blanks separate) off the front of `rest`; empty at the end.
[[nodiscard]] inline std::string_view next_word(std::string_view& rest) noexcept {
  const std::size_t first = rest.find_first_not_of(" \t");
  if (first == std::string_view::npos) {
    rest = {};
    return {};
  }
  rest.remove_prefix(first);
  const std::string_view word = rest.substr(0, rest.find_first_of(" \t"));
  rest.remove_prefix(word.size());
  return word;
}

/// The whole text as an unsigned number; nothing if it is not one or overflows `T`.
template <class T>
[[nodiscard]] std::optional<T> parse_number(std::string_view text, int base = 10) noexcept {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, value, base);
  if (text.empty() || problem != std::errc{} || stop != end) return std::nullopt;
  return value;
}

}  // namespace assay::harness
