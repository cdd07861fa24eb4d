// One operation on a world's value, and everything that can be seen of what it did.
#pragma once

#include <string>

#include "axes.hpp"
#include "rules.hpp"
#include "world.hpp"

namespace assay::matrix {

/// What an operation answered and cost, on this thread.
struct Seen {
  Error error{};
  std::uint64_t copied = 0;
  SourceReads reads{};
  std::uint64_t allocations = 0;
  bool missed_a_node = false;  ///< if one was to be missed
};

/// Runs one cell in a world of its own. Returns what is not as the rules say, or "".
[[nodiscard]] std::string run(const Machine& machine, const Cell& cell);

/// Brings `world.value` to where the operation starts: room, or a neighbour.
struct Prepared {
  Bytes twin;   ///< the same bytes elsewhere
  Bytes right;  ///< the neighbour to join
  std::vector<std::byte> more;
};
[[nodiscard]] Prepared prepare(World& world, Operation operation, Value& before);

/// The operation. What it makes goes to `world.others`, its effect to `world.content`.
[[nodiscard]] Result<void> operate(World& world, Prepared& prepared, const Cell& cell);

}  // namespace assay::matrix
