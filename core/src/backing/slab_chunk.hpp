// The records of slab_pool: size classes and chunks. All of it lies outside the payload.
#pragma once

#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>

#include "assay/backing/slab_pool.hpp"

namespace assay::detail {

inline constexpr std::size_t slab_granularity = 16;
inline constexpr std::size_t slab_chunk_size = std::size_t{128} << 10;
inline constexpr std::size_t slab_shared_max = std::size_t{32} << 10;  ///< slots that share a chunk
inline constexpr std::size_t slab_class_max = std::size_t{1} << 20;

/// Smallest class whose slots hold `size` bytes. **Pre** 1 <= size <= slab_class_max.
constexpr std::size_t slab_class_of(std::size_t size) noexcept {
  if (size <= 128) return (size + 15) / 16 - 1;
  const auto octave = static_cast<std::size_t>(std::bit_width(size - 1)) - 1;  // 2^k < size
  const std::size_t above = size - (std::size_t{1} << octave);
  const std::size_t step = std::size_t{1} << (octave - 3);
  return 8 + (octave - 7) * 8 + (above + step - 1) / step - 1;
}

constexpr std::size_t slab_class_size(std::size_t index) noexcept {
  if (index < 8) return (index + 1) * 16;
  const std::size_t octave = 7 + (index - 8) / 8;
  return (std::size_t{1} << octave) + ((index - 8) % 8 + 1) * (std::size_t{1} << (octave - 3));
}

/// The class of a request whose slots are multiples of `alignment` too: where the step between
/// classes is smaller than the alignment, each multiple of it is a class of its own.
constexpr std::size_t slab_class_of(std::size_t size, std::size_t alignment) noexcept {
  return slab_class_of(align_up(size, alignment));
}

static_assert(slab_class_size(slab_class_of(slab_class_max)) == slab_class_max);

/// One block of the upstream and what has become of its slots.
struct SlabChunk {
  static constexpr std::uint16_t none = 0xffff;
  static constexpr std::uint8_t live_flag = 1;  ///< the slot is out
  static constexpr std::uint8_t zero_flag = 2;  ///< free: reads zero; live: so past its capacity

  Block block;
  Request request;              ///< what the upstream was asked for
  std::size_t class_index = 0;  ///< of the slots; without meaning if `direct`
  std::size_t slot_size = 0;
  std::uint16_t slots = 0;
  std::uint16_t untouched = 0;  ///< slots from here on were never out since the chunk was cut
  std::uint16_t live = 0;
  std::uint16_t free_head = none;  ///< slot freed last
  bool direct = false;             ///< one block of the caller's, never reused
  bool rest_zero = false;          ///< untouched slots and what no slot covers read zero
  bool listed = false;
  SlabChunk* next = nullptr;
  SlabChunk* previous = nullptr;

  /// A record with room for its slots, or null. Freed by `destroy`.
  static SlabChunk* make(std::size_t slots) noexcept {
    const std::size_t size = sizeof(SlabChunk) + slots * (sizeof(std::uint16_t) + 1);
    void* const memory = std::malloc(size);
    if (memory == nullptr) return nullptr;
    auto* const chunk = new (memory) SlabChunk;
    chunk->slots = static_cast<std::uint16_t>(slots);
    std::memset(chunk->flags(), 0, slots);
    return chunk;
  }
  static void destroy(SlabChunk* chunk) noexcept { std::free(chunk); }

  std::uint16_t* links() noexcept { return reinterpret_cast<std::uint16_t*>(this + 1); }
  std::uint8_t* flags() noexcept { return reinterpret_cast<std::uint8_t*>(links() + slots); }
  [[nodiscard]] bool has_room() const noexcept { return untouched < slots || free_head != none; }
  [[nodiscard]] std::uint64_t end() const noexcept { return block.address + block.capacity; }

  /// The live slot that starts at `address`, or `none`.
  std::uint16_t live_slot_at(std::uint64_t address) noexcept {
    const std::uint64_t offset = address - block.address;
    const std::uint64_t index = offset / slot_size;
    if (offset % slot_size != 0 || index >= slots) return none;
    return (flags()[index] & live_flag) != 0 ? static_cast<std::uint16_t>(index) : none;
  }
  /// Does every byte of the chunk read zero? **Pre** nothing of it is live.
  bool reads_zero() noexcept {
    if (!rest_zero) return false;
    for (std::size_t i = 0; i < untouched; ++i) {
      if ((flags()[i] & zero_flag) == 0) return false;
    }
    return true;
  }
};

}  // namespace assay::detail
