// The kernel's small text files, read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace assay::harness {

[[nodiscard]] std::string_view trimmed(std::string_view text) noexcept;

/// Everything in a file, or nothing if it cannot be read.
[[nodiscard]] std::optional<std::string> contents_of(const std::string& path);

/// The one line of a small file of /sys, if it has a word.
[[nodiscard]] std::optional<std::string> line_of(const std::string& path);

/// The value of "key : value" in a text of such lines.
[[nodiscard]] std::optional<std::string> field_of(const std::optional<std::string>& text,
                                                  std::string_view key);

/// The value of "key: 123 kB", as in /proc/meminfo, in bytes.
[[nodiscard]] std::optional<std::uint64_t> bytes_of_field(const std::optional<std::string>& text,
                                                          std::string_view key);

/// The word in brackets of "always [madvise] never".
[[nodiscard]] std::optional<std::string> bracketed(const std::optional<std::string>& choices);

}  // namespace assay::harness
