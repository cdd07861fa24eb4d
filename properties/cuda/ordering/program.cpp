#include "program.hpp"

#include <fmt/format.h>

namespace assay::ordering {

const char* function_of(Action action) {
  switch (action) {
    case Action::nothing: return "";
    case Action::allocate: return "cuMemAllocFromPoolAsync";
    case Action::set: return "cuMemsetD8Async";
    case Action::copy: return "cuMemcpyDtoDAsync_v2";
    case Action::read: return "cuMemcpyDtoHAsync_v2";
    case Action::free: return "cuMemFreeAsync";
    case Action::free_now: return "cuMemFree_v2";
    case Action::record: return "cuEventRecord";
    case Action::wait_event: return "cuStreamWaitEvent";
    case Action::sync_stream: return "cuStreamSynchronize";
    case Action::sync_event: return "cuEventSynchronize";
    case Action::sync_context: return "cuCtxSynchronize";
    case Action::query_stream: return "cuStreamQuery";
    case Action::query_event: return "cuEventQuery";
    case Action::host_function: return "cuLaunchHostFunc";
    case Action::renew_stream: return "cuStreamDestroy_v2";
  }
  return "";
}

std::string to_text(const Command& command) {
  const std::string function = function_of(command.action);
  const auto stream = fmt::format("stream {}", command.stream);
  const auto event = fmt::format("event {}", command.event);
  const auto block = fmt::format("block {}", command.block);
  switch (command.action) {
    case Action::nothing: return "(left out)";
    case Action::allocate:
    case Action::read:
    case Action::free: return fmt::format("{}({}, {})", function, block, stream);
    case Action::set:
      return fmt::format("{}({}{}, {}, {})", function, block,
                         command.part == 0 ? "" : fmt::format(" half {}", command.part),
                         command.value, stream);
    case Action::copy:
      return fmt::format("{}({}, from block {}, {})", function, block, command.source, stream);
    case Action::free_now: return fmt::format("{}({})", function, block);
    case Action::record: return fmt::format("{}({}, {})", function, event, stream);
    case Action::wait_event: return fmt::format("{}({}, {})", function, stream, event);
    case Action::sync_event:
    case Action::query_event: return fmt::format("{}({})", function, event);
    case Action::sync_context: return function + "()";
    case Action::sync_stream:
    case Action::query_stream:
    case Action::host_function: return fmt::format("{}({})", function, stream);
    case Action::renew_stream: return fmt::format("{0}({1}), cuStreamCreate", function, stream);
  }
  return "";
}

std::string to_text(const Program& program) {
  std::string text;
  for (std::size_t i = 1; i < program.blocking.size(); ++i) {
    if (program.blocking[i]) text += fmt::format("  stream {} is blocking\n", i);
  }
  for (std::size_t i = 0; i < program.commands.size(); ++i) {
    if (program.commands[i].action == Action::nothing) continue;
    text += fmt::format("  {:3} {}{}\n", i, to_text(program.commands[i]),
                        program.commands[i].implied ? " by the backing" : "");
  }
  return text;
}

}  // namespace assay::ordering
