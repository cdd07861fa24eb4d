// Command: one step of a case, over fixed slots, and what the child saw when it ran it.
#pragma once

#include <cstdint>

namespace assay::harness {

/// Blocks live in slots. Commands are total: one that does not fit the state of its slot (free of
/// an empty slot, allocate into a full one, check of a block never filled) is recorded as skipped,
/// so that every subsequence of a command list is a legal command list.
inline constexpr std::uint32_t slot_count = 64;

enum class Operation : std::uint8_t {
  allocate,  ///< slot, size, alignment, init
  free,      ///< slot
  resize,    ///< slot, size, init (of the new bytes); may move
  fill,      ///< slot: the whole block, with a pattern made of the block's number
  check,     ///< slot: the whole block against what was last written
};

struct Command {
  Operation operation = Operation::allocate;
  std::uint8_t zero = 0;  ///< 1: the new bytes must read zero
  std::uint16_t slot = 0;
  std::uint32_t padding = 0;
  std::uint64_t size = 0;
  std::uint64_t alignment = 1;

  friend bool operator==(const Command&, const Command&) = default;
};

enum class Status : std::uint8_t {
  not_run,      ///< the child never finished this command
  done,         ///< it succeeded
  skipped,      ///< it did not fit the slot's state
  refused,      ///< the allocator answered with an error
  mismatch,     ///< bytes were not what they must be
  unreachable,  ///< bytes of a live block could not be written or read: error_code
};

/// What the child saw. Figures only: judging is the parent's.
struct Outcome {
  Status status = Status::not_run;
  std::uint8_t error_code = 0;  ///< refused, unreachable: an ErrorCode
  std::uint16_t padding = 0;
  std::uint32_t block = 0;       ///< number of the block in the slot, from 1; 0 if there is none
  std::uint64_t address = 0;     ///< allocate, resize: where the block is now
  std::uint64_t capacity = 0;    ///< allocate, resize
  std::uint64_t bad_offset = 0;  ///< mismatch: first wrong byte, with its word
  std::uint64_t expected = 0;
  std::uint64_t found = 0;
};

/// A free that did not match its allocation, or other misuse of the backing below a subject.
enum class FindingKind : std::uint32_t {
  unknown_block,    ///< freed or resized a block that is not live
  wrong_size,       ///< freed with another size than it was allocated with
  wrong_alignment,  ///< freed with another alignment
  wrong_capacity,   ///< freed with another capacity than it was given
};

struct Finding {
  FindingKind kind = FindingKind::unknown_block;
  std::uint32_t step = 0;
  std::uint64_t expected = 0;
  std::uint64_t found = 0;
};

}  // namespace assay::harness
