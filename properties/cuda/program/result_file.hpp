// Result files of assay-conformance, read back.
#pragma once

#include <expected>
#include <string>

#include <nlohmann/json.hpp>

namespace assay::conformance {

/// The result in a file, or why it is none, for the user.
[[nodiscard]] std::expected<nlohmann::ordered_json, std::string> load_result(
    const std::string& path);

/// "model h200 13000".
[[nodiscard]] std::string title_of(const nlohmann::ordered_json& result);

}  // namespace assay::conformance
