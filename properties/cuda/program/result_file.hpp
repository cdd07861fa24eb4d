// Result files of assay-conformance, read back.
#pragma once

#include <expected>
#include <string>

#include <nlohmann/json.hpp>

namespace assay::conformance {

/// The result in a file, or why it is none, for the user.
[[nodiscard]] std::expected<nlohmann::ordered_json, std::string> load_result(
    const std::string& path);

/// The result in a text, or why it is none.
[[nodiscard]] std::expected<nlohmann::ordered_json, std::string> parse_result(
    const std::string& text);

/// Text from a file as it may be shown in a line: control characters as \xNN.
[[nodiscard]] std::string shown(const std::string& text);

/// "model h200 13000".
[[nodiscard]] std::string title_of(const nlohmann::ordered_json& result);

}  // namespace assay::conformance
