#include "over_backing.hpp"

#include <map>

namespace assay::ordering {

Program over_backing(const Program& program) {
  Program expanded = program;
  expanded.commands.clear();
  std::map<std::uint16_t, std::uint8_t> own;
  for (const Command& command : program.commands) {
    if (command.action == Action::allocate) own[command.block] = command.stream;
    if (command.action == Action::free && own[command.block] != command.stream) {
      expanded.commands.push_back(
          {.action = Action::sync_stream, .stream = own[command.block], .implied = true});
    }
    expanded.commands.push_back(command);
  }
  return expanded;
}

}  // namespace assay::ordering
