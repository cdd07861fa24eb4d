// The driver's codes by number, short names for the lists of allowed ones.
#pragma once

#include <cstdint>
#include <string>

namespace assay::conformance {

// Names as in the driver's errors, without CUDA_ERROR_.
inline constexpr std::int64_t ok = 0;
inline constexpr std::int64_t invalid_value = 1;
inline constexpr std::int64_t out_of_memory = 2;
inline constexpr std::int64_t not_initialized = 3;
inline constexpr std::int64_t deinitialized = 4;
inline constexpr std::int64_t invalid_image = 200;
inline constexpr std::int64_t invalid_device = 101;
inline constexpr std::int64_t invalid_context = 201;
inline constexpr std::int64_t invalid_ptx = 218;
inline constexpr std::int64_t invalid_handle = 400;
inline constexpr std::int64_t not_found = 500;
inline constexpr std::int64_t not_ready = 600;
inline constexpr std::int64_t context_is_destroyed = 709;
inline constexpr std::int64_t already_registered = 712;
inline constexpr std::int64_t not_registered = 713;
inline constexpr std::int64_t not_permitted = 800;
inline constexpr std::int64_t not_supported = 801;

/// "invalid_value (1)"; the number alone where it has no name here.
[[nodiscard]] std::string spell_code(std::uint32_t code);

}  // namespace assay::conformance
