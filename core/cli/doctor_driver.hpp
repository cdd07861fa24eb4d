// What loading the CUDA driver comes to on this host, examined in a child process: a broken library
// may crash or hang it.
#pragma once

#include <string>

#include "doctor_host.hpp"

namespace assay::doctor {

/// The word by which this program, started again, knows that it is such a child.
inline constexpr const char* driver_child = "--examine-driver";
/// Likewise, for a child with a preloaded malloc; the subject's id follows.
inline constexpr const char* malloc_child = "--examine-malloc";

/// Loads the driver (`path`, or the default if empty) in this process and prints what it found as
/// JSON. Returns the exit code.
int examine_driver(const std::string& path);
/// Prints the path of the library that malloc comes from, or fails with 1.
int examine_malloc(const std::string& subject);

/// {"driver": ..., "devices": [...]}, by a child.
[[nodiscard]] Json driver_facts(const std::string& path);
/// The allocators of the system and of others: {id, origin, present, library, package}.
[[nodiscard]] Json allocator_facts();

}  // namespace assay::doctor
