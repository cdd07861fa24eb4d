// The records of zero_cache: one a block of a size that it keeps, live or cached.
#pragma once

#include <bit>
#include <cstdlib>
#include <new>

#include "assay/backing/zero_cache.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define ASSAY_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ASSAY_ADDRESS_SANITIZER 1
#endif
#endif
#ifdef ASSAY_ADDRESS_SANITIZER
extern "C" void __asan_poison_memory_region(const volatile void* address, std::size_t size);
extern "C" void __asan_unpoison_memory_region(const volatile void* address, std::size_t size);
#endif

namespace assay::detail {

/// Under AddressSanitizer the bytes of a cached block are out of bounds, so that a use after free
/// is seen; elsewhere these do nothing.
inline void forbid_use([[maybe_unused]] Block host) noexcept {
#ifdef ASSAY_ADDRESS_SANITIZER
  __asan_poison_memory_region(reinterpret_cast<const void*>(host.address), host.capacity);
#endif
}
inline void allow_use([[maybe_unused]] Block host) noexcept {
#ifdef ASSAY_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(reinterpret_cast<const void*>(host.address), host.capacity);
#endif
}

struct CachedBlock {
  Block block;               ///< as the upstream gave it
  Request made;              ///< what the upstream was asked for
  std::size_t capacity = 0;  ///< live: as handed out
  std::uint8_t class_index = 0;
  bool live = true;
  bool zero = false;  ///< cached: all of it reads zero; live: so past the capacity handed out
  CachedBlock* chain = nullptr;  ///< in the table, or in a list of blocks to give back
  CachedBlock* class_next = nullptr;
  CachedBlock* class_previous = nullptr;
  CachedBlock* older = nullptr;
  CachedBlock* newer = nullptr;

  static CachedBlock* make() noexcept {
    void* const memory = std::malloc(sizeof(CachedBlock));
    return memory == nullptr ? nullptr : new (memory) CachedBlock;
  }
  static void destroy(CachedBlock* record) noexcept { std::free(record); }
};

/// Classes from class_min to block_max, eight to each power of two.
inline constexpr std::size_t cache_first_octave = 8;
static_assert(ZeroCache::class_min == std::size_t{1} << cache_first_octave);

/// The smallest class that holds `size`. **Pre** class_min <= size <= block_max.
constexpr std::size_t cache_class_of(std::size_t size) noexcept {
  if (size == ZeroCache::class_min) return 0;
  const auto octave = static_cast<std::size_t>(std::bit_width(size - 1)) - 1;  // 2^k < size
  const std::size_t step = std::size_t{1} << (octave - 3);
  return (octave - cache_first_octave) * 8 + (size - (std::size_t{1} << octave) + step - 1) / step;
}

constexpr std::size_t cache_class_size(std::size_t index) noexcept {
  const std::size_t octave = cache_first_octave + index / 8;
  return (std::size_t{1} << octave) + index % 8 * (std::size_t{1} << (octave - 3));
}

/// The largest class that a block made with so many bytes can serve. **Pre** made >= class_min.
constexpr std::size_t cache_class_within(std::size_t made) noexcept {
  if (made >= ZeroCache::block_max) return cache_class_of(ZeroCache::block_max);
  const std::size_t above = cache_class_of(made);
  return cache_class_size(above) == made ? above : above - 1;
}

static_assert(cache_class_size(128) == ZeroCache::block_max);
static_assert(cache_class_of(ZeroCache::block_max) == 128);
static_assert(cache_class_size(cache_class_of(70'000)) == 73'728);
static_assert(cache_class_size(cache_class_within(73'727)) == 65'536);
static_assert(cache_class_size(cache_class_within(73'728)) == 73'728);

}  // namespace assay::detail
