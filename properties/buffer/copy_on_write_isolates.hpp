// Property: whatever handles do to a block they share, each sees its own value; bytes are copied
// exactly when others would have seen the write, and read exactly when they are first needed. A
// state machine against BytesModel, over every source and home.
#pragma once

#include "bytes_world.hpp"

namespace assay::properties {

inline std::string copy_on_write_isolates(const BytesOps& ops, const BytesCommands& commands,
                                          const BytesWorld::Setup& setup = {}) {
  const auto nodes = node_pool::balance_of_thread();
  std::string fault = BytesWorld(ops, setup).run(commands);
  if (fault.empty() && node_pool::balance_of_thread() != nodes) fault = "a node leaked";
  return fault;
}

/// The same with the k-th of all calls of one kind failing, for every k: nodes, blocks, growth of
/// blocks, reads of the watched source. `look` judges each world at its end.
template <class Look>
std::string with_each_failing(Injection::What what, const BytesOps& ops,
                              const BytesCommands& commands, const BytesWorld::Setup& setup,
                              const Look& look) {
  const auto nodes = node_pool::balance_of_thread();
  bool failed = true;
  for (std::uint64_t nth = 1; failed; ++nth) {
    BytesWorld world(ops, setup);
    std::string fault = world.run(commands, {what, nth});
    failed = !world.injection_pending();
    if (fault.empty()) fault = look(world);
    if (!fault.empty()) {
      static constexpr const char* names[] = {"nothing", "node", "allocation", "resize", "read"};
      return fmt::format("{} {} failing: {}", names[static_cast<std::size_t>(what)], nth, fault);
    }
  }
  return node_pool::balance_of_thread() == nodes ? "" : "a node leaked";
}

inline std::string failures_change_nothing(const BytesOps& ops, const BytesCommands& commands,
                                           const BytesWorld::Setup& setup = {
                                               .wipe = Wipe::on_release}) {
  using enum Injection::What;
  for (const auto what : {node, allocation, resize, read}) {
    std::string fault =
        with_each_failing(what, ops, commands, setup, [](BytesWorld&) { return std::string(); });
    if (!fault.empty()) return fault;
  }
  return "";
}

}  // namespace assay::properties
