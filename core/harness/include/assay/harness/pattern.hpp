// Pattern: the bytes that a block of an id should hold, so that a stray write shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace assay::harness {

/// The eight bytes at word `index` of block `id`; differs between neighbours and between ids.
[[nodiscard]] constexpr std::uint64_t pattern_word(std::uint64_t id, std::uint64_t index) noexcept {
  std::uint64_t word = (id + 1) * 0x9e3779b97f4a7c15U + index * 0xd1b54a32d192ed03U;
  word ^= word >> 29;
  return word * 0xbf58476d1ce4e5b9U;
}

/// The byte at `offset` of block `id`.
[[nodiscard]] constexpr std::byte pattern_byte(std::uint64_t id, std::uint64_t offset) noexcept {
  return static_cast<std::byte>(pattern_word(id, offset / 8) >> (offset % 8 * 8));
}

namespace detail {

/// Calls `visit(position, offset, count, word)` for each word of a range: `count` bytes (up to 8)
/// that start at `position` of the range and at `offset % 8` of the word. Stops at false.
template <class Visit>
bool each_word(std::uint64_t id, std::uint64_t offset, std::size_t size, Visit visit) {
  std::size_t at = 0;
  while (at < size) {
    const std::uint64_t place = offset + at;
    const std::size_t skip = place % 8;
    const std::size_t count = size - at < 8 - skip ? size - at : 8 - skip;
    if (!visit(at, count, pattern_word(id, place / 8) >> (skip * 8))) return false;
    at += count;
  }
  return true;
}

}  // namespace detail

/// Writes the pattern of block `id` to `bytes`, which begin at `offset` of the block.
/// **Cost** one pass, eight bytes a store. Little-endian, as every supported machine is.
inline void fill_pattern(std::span<std::byte> bytes, std::uint64_t id,
                         std::uint64_t offset = 0) noexcept {
  detail::each_word(id, offset, bytes.size(),
                    [&](std::size_t at, std::size_t count, std::uint64_t word) {
                      std::memcpy(bytes.data() + at, &word, count);
                      return true;
                    });
}

/// The position in `bytes` of the first byte that differs from the pattern, or nothing.
[[nodiscard]] inline std::optional<std::size_t> check_pattern(std::span<const std::byte> bytes,
                                                              std::uint64_t id,
                                                              std::uint64_t offset = 0) noexcept {
  std::size_t wrong = 0;
  const bool whole = detail::each_word(id, offset, bytes.size(),
                                       [&](std::size_t at, std::size_t count, std::uint64_t word) {
                                         if (std::memcmp(bytes.data() + at, &word, count) == 0)
                                           return true;
                                         while (bytes[wrong = at] == static_cast<std::byte>(word))
                                           ++at, word >>= 8;
                                         return false;
                                       });
  if (whole) return std::nullopt;
  return wrong;
}

}  // namespace assay::harness
