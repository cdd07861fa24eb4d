#include "assay/harness/system_files.hpp"

#include <charconv>
#include <fstream>
#include <sstream>

namespace assay::harness {

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view space = " \t\r\n";
  const auto first = text.find_first_not_of(space);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(space) - first + 1);
}

std::optional<std::string> contents_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return file.bad() ? std::nullopt : std::optional(text.str());
}

std::optional<std::string> line_of(const std::string& path) {
  const auto text = contents_of(path);
  if (!text || trimmed(*text).empty()) return std::nullopt;
  return std::string(trimmed(*text));
}

std::optional<std::string> field_of(const std::optional<std::string>& text, std::string_view key) {
  if (!text) return std::nullopt;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || trimmed(std::string_view(line).substr(0, colon)) != key) {
      continue;
    }
    return std::string(trimmed(std::string_view(line).substr(colon + 1)));
  }
  return std::nullopt;
}

std::optional<std::uint64_t> bytes_of_field(const std::optional<std::string>& text,
                                            std::string_view key) {
  const auto field = field_of(text, key);
  std::uint64_t kib = 0;
  if (!field ||
      std::from_chars(field->data(), field->data() + field->size(), kib).ec != std::errc()) {
    return std::nullopt;
  }
  return kib * 1024;
}

std::optional<std::string> bracketed(const std::optional<std::string>& choices) {
  if (!choices) return std::nullopt;
  const auto open = choices->find('[');
  const auto close = choices->find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  return choices->substr(open + 1, close - open - 1);
}

}  // namespace assay::harness
