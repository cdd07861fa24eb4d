// What the processes of single tests do: the program runs itself with --one or --facts.
#pragma once

#include <string>

#include "suite/test.hpp"

namespace assay::conformance {

/// Seconds after which the process opens every gate, so that a blocked call can come back before
/// the parent's limit.
inline constexpr int gates_open_after_s = 12;
inline constexpr int test_limit_s = 20;

/// Runs one test and tells on standard output what it saw. Returns the exit code.
int run_one(const Test& test, const std::string& driver_path);

/// Prints, as one JSON object, what the driver and its first device are; {"nothing": why} and exit
/// 77 without a driver or a device, {"unusable": why} and exit 2 if the library is no driver,
/// {"broken": why} and exit 1 if it fails.
int print_facts(const std::string& driver_path);

}  // namespace assay::conformance
