// The rows of driver_functions.def as data that a loop can walk.
#pragma once

#include <cstdint>
#include <span>

#include "assay/cuda/driver.hpp"

namespace assay::cuda::detail {

/// How a driver must have a function: `required`, `entry`, or the feature it belongs to.
enum class Need : std::uint8_t {
#define ASSAY_DRIVER_FEATURE(name, meaning) name,
#include "assay/cuda/abi/driver_features.def"
#undef ASSAY_DRIVER_FEATURE
  required,
  entry,
};

struct DriverRow {
  const char* symbol;
  const char* base;
  int version;
  const char* need_name;
  Need need;
  void (*store)(abi::DriverTable& table, void* function) noexcept;
};

[[nodiscard]] std::span<const DriverRow> driver_rows() noexcept;

}  // namespace assay::cuda::detail
