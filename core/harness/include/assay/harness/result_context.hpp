// The context of a result: what must be known of build and machine to compare two of them.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

namespace assay::harness {

/// Version, commit, build, machine, environment, seed and date of a result made now; the caller
/// adds `assay_schema`. Natural numbers are numbers, everything else is text, what cannot be read
/// is "unknown". Holds no host name. **Cost** reads a dozen small files.
[[nodiscard]] nlohmann::ordered_json result_context(std::uint64_t seed);

/// The machine's part of result_context, from the kernel's files below `root` ("" on the real
/// machine; another folder in tests).
[[nodiscard]] nlohmann::ordered_json machine_context(const std::string& root);

}  // namespace assay::harness
