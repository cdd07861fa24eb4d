// A yardstick program: rows chosen, run in order, told and judged.
#pragma once

#include <span>

#include "row.hpp"

namespace assay::yardstick {

/// `main` of a yardstick program that offers these rows. Never throws.
int yardstick_main(int argc, char** argv, std::span<const Row> rows) noexcept;

}  // namespace assay::yardstick
