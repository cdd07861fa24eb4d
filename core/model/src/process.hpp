// What the model knows of its process: is the driver initialised, and here; does the process end.
#pragma once

#include <cstdint>
#include <string>

#include "site.hpp"

namespace assay::cuda::model {

/// Marks this process as the one that called cuInit, and registers the exit handler: objects that
/// were made before meet 4 in their destructors, as with the driver.
void mark_initialised(const Site& site) noexcept;
/// The call that did, and its process. Pre: initialised().
[[nodiscard]] const Site& initialiser() noexcept;
[[nodiscard]] int initialiser_process() noexcept;
[[nodiscard]] bool initialised() noexcept;      ///< by this process or its parent
[[nodiscard]] bool in_forked_child() noexcept;  ///< by a parent
[[nodiscard]] bool shutting_down() noexcept;

/// Live objects, diagnoses, calls and rules met, as text.
[[nodiscard]] std::string report_text();
/// False, with errno set, if the report could not be written whole.
bool write_report(int fd) noexcept;

}  // namespace assay::cuda::model
