// Checked size arithmetic: no sum, product or rounding of sizes ever wraps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace assay {

/// Largest size of one block: half of the address space, so that pointer differences fit.
inline constexpr std::size_t size_max =
    static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());

/// Largest alignment that a request may name: 1 GiB.
inline constexpr std::size_t alignment_max = std::size_t{1} << 30;

[[nodiscard]] constexpr std::optional<std::size_t> checked_add(std::size_t a,
                                                               std::size_t b) noexcept {
  std::size_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

[[nodiscard]] constexpr std::optional<std::size_t> checked_multiply(std::size_t a,
                                                                    std::size_t b) noexcept {
  std::size_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

[[nodiscard]] constexpr bool is_alignment(std::size_t alignment) noexcept {
  // By hand: without a popcount instruction std::has_single_bit is a call.
  return alignment != 0 && (alignment & (alignment - 1)) == 0 && alignment <= alignment_max;
}

/// `value` rounded up to a multiple of `alignment`, a power of two; nothing if that wraps.
[[nodiscard]] constexpr std::optional<std::size_t> checked_align_up(
    std::size_t value, std::size_t alignment) noexcept {
  const auto padded = checked_add(value, alignment - 1);
  if (!padded) return std::nullopt;
  return *padded & ~(alignment - 1);
}

/// As checked_align_up. **Pre** the result does not wrap, for instance value <= size_max.
[[nodiscard]] constexpr std::size_t align_up(std::size_t value, std::size_t alignment) noexcept {
  return (value + (alignment - 1)) & ~(alignment - 1);
}

[[nodiscard]] constexpr bool is_aligned(std::uint64_t address, std::size_t alignment) noexcept {
  return (address & (alignment - 1)) == 0;
}

}  // namespace assay
