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

/// What results record of the driver that their rows used: `driver` is model or driver, or none
/// where there is none; then driver_version, device_name and, of the model, driver_profile.
/// **Cost** loads and initialises the driver.
[[nodiscard]] nlohmann::ordered_json driver_context();

/// Why a subject that needs a driver cannot be made here, in words for a list: "no CUDA driver:
/// install ...". Empty for an error that is the subject's own.
[[nodiscard]] std::string why_no_driver(ErrorCode code);

/// Is there a library to load as the driver? Calls nothing in it.
[[nodiscard]] bool driver_is_present();

/// The program's driver is the model: what it measures is no time of a GPU. **Cost** as above.
[[nodiscard]] bool driver_is_model();

/// Why a timed row is refused on the model.
inline constexpr std::string_view not_timed_on_model = "model (not a GPU): not timed";

}  // namespace assay::harness
