// Two outcome lists side by side: the driver's and the model's, say.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace assay::conformance {

struct Comparison {
  std::string incomparable;              ///< why the lists cannot be compared, or empty
  std::vector<std::string> differences;  ///< one line each
  std::size_t same = 0;
  std::size_t one_sided = 0;  ///< tests that only a model, or only a driver, can be asked
};

/// Compares two results of the schema assay.conformance/1: for each test the outcome, and the code,
/// truth or signal of each step. A signal is a signal: SIGSEGV and SIGBUS are the same.
[[nodiscard]] Comparison compare(const nlohmann::ordered_json& left,
                                 const nlohmann::ordered_json& right);

/// Prints the comparison of two files. Returns 0 same, 1 different, 2 unreadable, 3 not comparable.
int compare_files(const std::string& left, const std::string& right);

}  // namespace assay::conformance
