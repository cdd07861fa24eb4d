// What the tests of diagnoses share: mistakes that a driver lets pass, and the model names.
#pragma once

#include <string>
#include <string_view>

#include "suite/run.hpp"

namespace assay::conformance {

inline constexpr std::int64_t illegal_address = 700;
inline constexpr const char* named = "the model names its rule";

[[nodiscard]] inline Needs model_alone() {
  return model_only("a driver diagnoses nothing");
}

[[nodiscard]] inline bool diagnosed(Run& run, const char* rule) {
  for (std::uint64_t i = 0; i < run.model->diagnosis_count(); ++i) {
    if (std::string_view(run.model->diagnosis(i)).starts_with(std::string(rule) + ":")) return true;
  }
  return false;
}

/// A mistake of which only the diagnosis tells.
[[nodiscard]] inline Test silent(const char* id, const char* states, Steps steps,
                                 Needs needs = {}) {
  return {id, states, model_alone() + needs, {holds(named, Source::model)}, steps};
}

/// A mistake that ends the context with `status`, at "the wait".
[[nodiscard]] inline Test fatal(const char* id, const char* states, std::int64_t status,
                                Steps steps, Needs needs = {}) {
  return {id,
          states,
          model_alone() + having(cuda::Feature::tests) + needs,
          {code("the wait", {status}, Source::doc),
           code("every call from now on", {status}, Source::doc), holds(named, Source::model)},
          steps};
}

/// A program without fault, at the end of its steps.
inline void blamed_for_nothing(Run& run) {
  const auto count = static_cast<std::int64_t>(run.model->diagnosis_count());
  if (count > 0) run.note(run.model->diagnosis(0));
  run.value("diagnoses", count);
}
[[nodiscard]] inline Test clean_program(const char* id, const char* states, Steps steps,
                                        Needs needs = {}) {
  return {id, states, model_alone() + needs, {value("diagnoses", {0}, Source::model)}, steps};
}

}  // namespace assay::conformance
