#include "configuration.hpp"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "assay/cuda/abi/model_control.hpp"
#include "faults.hpp"
#include "immortal.hpp"
#include "profile.hpp"

namespace assay::cuda::model {

namespace {

struct Switches {
  std::string error;  // first: the others' reading sets it
  bool strict = false;
  bool eager = false;

  Switches() : strict(read(abi::model_strict_variable)), eager(read(abi::model_eager_variable)) {}

 private:
  bool read(const char* variable) {
    const char* const text = std::getenv(variable);
    const std::string_view value = text == nullptr ? "" : text;
    if (value == "1") return true;
    if (value.empty() || value == "0") return false;
    error = std::string(variable) + ": '" + text + "' is neither 0 nor 1";
    std::fprintf(stderr, "assay model: %s\n", error.c_str());
    return false;
  }
};

const Switches& switches() noexcept {
  static Immortal<Switches> read;
  return *read;
}

std::string first_error() {
  if (!profile_error().empty()) return profile_error();
  if (!fault_plan_error().empty()) return std::string(fault_plan_error());
  return switches().error;
}

}  // namespace

bool strict() noexcept {
  return switches().strict;
}

bool eager() noexcept {
  return switches().eager;
}

const std::string& configuration_error() noexcept {
  static Immortal<std::string> error(first_error());
  return *error;
}

}  // namespace assay::cuda::model
