// Mutants: the suite against a model with one rule broken, for each rule. A rule that can be broken
// without a test noticing is one that no test holds the model to.
#pragma once

#include <string>
#include <vector>

namespace assay::conformance {

struct MutantPlan {
  std::string model;  ///< libassay_cuda_model_broken.so
  unsigned jobs = 4;
  std::vector<std::string> profiles;  ///< files, besides the model's own profiles
  std::vector<std::string> rules;     ///< only rules whose id holds one of these; empty: all
};

/// Prints a line for each rule: how many tests noticed, and the first; or that none did; or that no
/// test meets it. Returns 0 if every rule that a test meets is noticed, 1 if one is not, 2 if the
/// model cannot be broken, 77 if nothing could run.
int run_mutants(const MutantPlan& plan);

}  // namespace assay::conformance
