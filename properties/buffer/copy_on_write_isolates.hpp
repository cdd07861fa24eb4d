// Property: whatever handles do to a block they share, each sees its own value, and bytes are
// copied exactly when others would have seen the write. A state machine against BytesModel.
#pragma once

#include "bytes_world.hpp"

namespace assay::properties {

template <class Ops>
std::string copy_on_write_isolates(const BytesCommands& commands) {
  const auto nodes = node_pool::balance_of_thread();
  std::string fault = BytesWorld<Ops>(Wipe::no).run(commands);
  if (fault.empty() && node_pool::balance_of_thread() != nodes) fault = "a node leaked";
  return fault;
}

/// The same with the k-th allocation failing, of nodes and of blocks, for every k.
template <class Ops>
std::string failures_change_nothing(const BytesCommands& commands) {
  const auto nodes = node_pool::balance_of_thread();
  for (const bool of_nodes : {true, false}) {
    bool failed = true;
    for (std::uint64_t nth = 1; failed; ++nth) {
      BytesWorld<Ops> world(Wipe::on_release);
      if (of_nodes) {
        node_pool::fail_nth(nth);
      } else {
        world.backing().fail_nth(nth);
      }
      const std::string fault = world.run(commands);
      failed = !(of_nodes ? node_pool::failure_pending() : world.backing().failure_pending());
      node_pool::fail_nth(0);
      if (!fault.empty()) {
        return fmt::format("{} {} failing: {}", of_nodes ? "node" : "block", nth, fault);
      }
    }
  }
  return node_pool::balance_of_thread() == nodes ? "" : "a node leaked";
}

}  // namespace assay::properties
