// What rows are made of: values with known contents, and pointers that the compiler cannot follow.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "../row.hpp"
#include "assay/buffer/bytes.hpp"

namespace assay::yardstick {

/// Handles that a row works through in one call: few enough for the first-level data cache, so that
/// such rows are hot, and enough for the clock not to matter.
inline constexpr std::size_t batch = 256;
/// Of large values fewer, for the memory that they take.
constexpr std::size_t batch_of(std::size_t size) noexcept {
  return size < (std::size_t{1} << 20) ? batch : batch / 4;
}

/// The compiler may know neither where the value came from nor what memory holds afterwards. It
/// would merge malloc with memset, drop a pair of malloc and free, and hoist loads out of loops.
template <class T>
  requires(std::is_pointer_v<T> || std::is_integral_v<T>)
[[gnu::always_inline]] inline void hide(T& value) noexcept {
  asm volatile("" : "+r"(value) : : "memory");
}

/// The object is used: it must exist in memory.
template <class T>
[[gnu::always_inline]] inline void use(const T& object) noexcept {
  const T* at = &object;
  hide(at);
}

/// The value of a Result, or an exception that makes the row an error.
template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(describe(result.error()));
  if constexpr (!std::is_void_v<T>) return std::move(result).value();
}

inline std::byte pattern_at(std::size_t index) noexcept {
  return static_cast<std::byte>((index * 131) >> 3);
}

/// `size` bytes of the pattern.
inline std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = pattern_at(i);
  return bytes;
}

/// Does `bytes` hold `size` bytes of the pattern, from `first` on?
inline bool holds_pattern(const Bytes& bytes, std::size_t size, std::size_t first = 0) {
  if (bytes.len() != size) return false;
  for (std::size_t i = 0; i < size; ++i) {
    if (bytes.data()[i] != pattern_at(first + i)) return false;
  }
  return true;
}

inline Bytes exclusive_value(std::size_t size) {
  return must(Bytes::from_span(pattern(size)));
}

inline Bytes shared_value(std::size_t size) {
  Bytes value = exclusive_value(size);
  must(value.shared());
  return value;
}

/// As many values as a batch has, each with a block of its own.
inline std::vector<Bytes> exclusive_values(std::size_t size) {
  const std::vector<std::byte> bytes = pattern(size);
  std::vector<Bytes> values;
  for (std::size_t i = 0; i < batch_of(size); ++i) values.push_back(must(Bytes::from_span(bytes)));
  return values;
}

inline std::vector<Bytes> shared_values(std::size_t size) {
  std::vector<Bytes> values = exclusive_values(size);
  for (Bytes& value : values) must(value.shared());
  return values;
}

/// A slice as large as a handle, so that walking over many costs the same.
struct RawSlice {
  std::byte* data = nullptr;
  std::size_t len = 0;
  std::uint64_t as_large_as_a_handle[2] = {};

  [[nodiscard]] std::byte at(std::size_t index) const noexcept {
    ASSAY_CONTRACT(index < len, "index past the end");
    return data[index];
  }
};
static_assert(sizeof(RawSlice) == sizeof(Bytes));

/// A yardstick: malloc, memcpy and free.
inline void copies_by_hand(const std::byte* from, std::size_t size, std::size_t times) noexcept {
  for (std::size_t i = 0; i < times; ++i) {
    hide(from);
    hide(size);
    void* to = std::malloc(size);
    hide(to);
    std::memcpy(to, from, size);
    hide(to);
    std::free(to);
  }
}

/// A yardstick: one atomic increment each, all of one counter.
inline void increments(std::atomic<std::uint32_t>& counter, std::size_t count) noexcept {
  auto* at = &counter;
  for (std::size_t i = 0; i < count; ++i) {
    hide(at);
    at->fetch_add(1, std::memory_order_relaxed);
  }
}

/// A yardstick: what an owner is counted with when it comes and goes.
inline void increments_and_decrements(std::atomic<std::uint32_t>& counter,
                                      std::size_t count) noexcept {
  auto* at = &counter;
  for (std::size_t i = 0; i < count; ++i) {
    hide(at);
    at->fetch_add(1, std::memory_order_relaxed);
    hide(at);
    at->fetch_sub(1, std::memory_order_acq_rel);
  }
}

}  // namespace assay::yardstick
