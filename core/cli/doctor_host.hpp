// What the kernel says of this host: memory, limits, cores, and what makes measurements noisy.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace assay::doctor {

using Json = nlohmann::ordered_json;

// Files are read below `root`: "" on the real machine, another folder in tests. What cannot be read
// is null.

/// Pages, huge pages, overcommit, memory, swap.
[[nodiscard]] Json memory_facts(const std::string& root);
/// Soft and hard resource limits of this process in bytes; null is unlimited.
[[nodiscard]] Json limit_facts();
/// Model, cores, affinity, simultaneous threads, quota, NUMA nodes.
[[nodiscard]] Json processor_facts(const std::string& root);
/// What disturbs measurements: a list of {name, value, noisy, remedy}.
[[nodiscard]] Json noise_facts(const std::string& root);
/// Traces of an NVIDIA device that need no driver library: PCI functions, the kernel module.
[[nodiscard]] Json nvidia_facts(const std::string& root);

}  // namespace assay::doctor
