// The CUDA driver as the tools see it: which one to use, and what results say of it.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "assay/base/error.hpp"

namespace assay::harness {

/// Makes this process and its children use the driver at `driver` and the model's `profile`; an
/// empty one leaves the environment as it is. "model" names the model that is built and installed
/// with this program. Returns what is wrong, or nothing. Before the driver's first use.
[[nodiscard]] std::string choose_driver(const std::string& driver, const std::string& profile);

/// What is wrong with the driver that was named, as ASSAY_CUDA_DRIVER or by choose_driver(), or
/// with `profile`, which needs a model: a message for exit code 2. Nothing where none was named and
/// no profile is wanted: a host without a driver is no mistake of the user's. Nor is a driver that
/// is too old or sees no device. **Cost** loads the driver, in a process of its own, so that a
/// broken one hurts nobody and this one stays free to fork. Before any thread.
[[nodiscard]] std::string wrong_with_named_driver(const std::string& profile);

/// What results record of the driver that their rows used: `driver` is model or driver, or none
/// where there is none; then driver_version, device_name and, of the model, driver_profile.
/// **Cost** loads and initialises the driver.
[[nodiscard]] nlohmann::ordered_json driver_context();

/// Why a subject that needs a driver cannot be made here, in words for a list: "no CUDA driver:
/// install ...". Empty for an error that is the subject's own.
[[nodiscard]] std::string why_no_driver(ErrorCode code);

/// The model's profiles by name, "h200, ..., small_capacity": what --profile takes besides a file.
[[nodiscard]] std::string model_profile_names();

/// Is there a library to load as the driver? Calls nothing in it.
[[nodiscard]] bool driver_is_present();

/// The program's driver is the model: what it measures is no time of a GPU. **Cost** as above.
[[nodiscard]] bool driver_is_model();

/// Why a timed row is refused on the model.
inline constexpr std::string_view not_timed_on_model = "model (not a GPU): not timed";

}  // namespace assay::harness
