// What each operation owes to each value: the specification once more, as a table of rules.
//
// Nothing here looks at the code under test. A rule says what an operation *needs* of a value; what
// then fails, is copied and is read follows for every fault in one place (`expect`).
#pragma once

#include "assay/buffer/bytes.hpp"
#include "axes.hpp"

namespace assay::matrix {

class World;

inline constexpr std::size_t split_at = 32;
inline constexpr std::size_t truncated_to = 32;
inline constexpr std::size_t view_start = 5;
inline constexpr std::size_t view_end = 50;
inline constexpr std::size_t copied_from = 5;
inline constexpr std::size_t copied_size = 10;
inline constexpr std::size_t spare = 64;                        ///< extend_fits has this room
inline constexpr std::size_t fitting = 16;                      ///< of which it takes so much
inline constexpr std::size_t growing = std::size_t{256} << 10;  ///< more than any block has
inline constexpr std::size_t whatever = SIZE_MAX;               ///< a figure that no rule fixes

/// A value as its owner may know it. The words are those of docs/bytes.md.
struct Value {
  std::size_t len = 0;
  bool exclusive = false;  ///< else shared
  bool alone = false;      ///< nobody else has its range, so a write may take it over
  bool resident = true;
  bool immutable = false;  ///< foreign memory that nobody may write
  bool watched = false;    ///< of a file that is compared at each look
  bool vector = false;     ///< an adopted vector, whole
  AllocationProperty property = AllocationProperty::native;
  std::size_t align = 16;
  std::size_t address_align = 16;  ///< of the address itself, where it is more than promised
  std::size_t retained = 0;        ///< bytes that it keeps alive

  // What it inherits.
  AllocationProperty home_property = AllocationProperty::native;
  std::size_t fork_align = 16;
  std::size_t footprint = 0;  ///< of a block of its own
  std::size_t device_block = 0;

  [[nodiscard]] bool can_be_taken_over() const {
    return exclusive || (alone && resident && !immutable);
  }
};

[[nodiscard]] Value fresh_value(const World& world);
[[nodiscard]] Value value_in(State state, const World& world);
/// With a block of its own, forked or grown.
[[nodiscard]] Value with_block_of_its_own(Value value);

struct Expected {
  ErrorCode error = ErrorCode::none;
  std::uint64_t copied = 0;  ///< exactly; after an error, at most
  SourceReads reads{};
  bool block = false;  ///< asks the home for memory
  unsigned nodes = 0;  ///< that it takes
  Value after{};
};

/// **Pre** not_applicable(cell) is null.
[[nodiscard]] Expected expect(const Cell& cell, const Value& before);

}  // namespace assay::matrix
