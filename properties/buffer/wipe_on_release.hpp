// Property: on a home that wipes, every block is all zero at the moment it goes back, whichever
// way it goes: drop, fork, moved growth, halves, conversions, failures.
#pragma once

#include "copy_on_write_isolates.hpp"
#include "zero_on_grow.hpp"

namespace assay::properties {

inline std::string all_freed_are_zero(const CheckingBacking& backing) {
  for (const auto& block : backing.freed) {
    if (!block.all_zero()) return "a block went back with its bytes";
  }
  return "";
}

// Fresh blocks read zero here and no byte written by a command is zero, so whatever is left at the
// end was left by us. A read that fails has brought half of its bytes.
inline std::string wipe_on_release_of_bytes(const BytesOps& ops, const BytesCommands& commands,
                                            BytesWorld::Setup setup = {}) {
  setup.wipe = Wipe::on_release;
  setup.fresh_fill = std::byte{0};
  return with_each_failing(Injection::What::read, ops, commands, setup,
                           [](BytesWorld& world) { return all_freed_are_zero(world.leaf()); });
}

template <class Ops>
std::string wipe_on_release_of_buffers(const BufferCase& given) {
  const auto backing = CheckingBacking::make({.fresh_fill = std::byte{0}});
  const std::string fault = zero_on_grow_on<Ops>(backing, given);
  return fault.empty() ? all_freed_are_zero(*backing) : fault;
}

}  // namespace assay::properties
