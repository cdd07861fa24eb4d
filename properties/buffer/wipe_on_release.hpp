// Property: on a home that wipes, every block is all zero at the moment it goes back, whichever
// way it goes: drop, fork, moved growth, halves, conversions, failures.
#pragma once

#include "bytes_world.hpp"
#include "zero_on_grow.hpp"

namespace assay::properties {

inline std::string all_freed_are_zero(const CheckingBacking& backing) {
  for (const auto& block : backing.freed) {
    if (!block.all_zero()) return "a block went back with its bytes";
  }
  return "";
}

// Fresh blocks read zero here and no byte written by a command is zero, so whatever is left at the
// end was left by us.
template <class Ops>
std::string wipe_on_release_of_bytes(const BytesCommands& commands) {
  BytesWorld<Ops> world(Wipe::on_release, std::byte{0});
  const std::string fault = world.run(commands);
  return fault.empty() ? all_freed_are_zero(world.backing()) : fault;
}

template <class Ops>
std::string wipe_on_release_of_buffers(const BufferCase& given) {
  const auto backing = CheckingBacking::make({.fresh_fill = std::byte{0}});
  const std::string fault = zero_on_grow_on<Ops>(backing, given);
  return fault.empty() ? all_freed_are_zero(*backing) : fault;
}

}  // namespace assay::properties
