// Programs over streams: what the ordering properties run, with a wait left out too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace assay::ordering {

enum class Action : std::uint8_t {
  nothing,  ///< what was here was left out
  allocate,
  set,
  copy,
  read,
  free,      ///< in stream order
  free_now,  ///< by cuMemFree
  record,
  wait_event,
  sync_stream,
  sync_event,
  sync_context,
  query_stream,  ///< until it succeeds
  query_event,
  host_function,
  renew_stream,  ///< destroys the stream and makes another one in its place
};

/// One call, or for queries and renewals a few. Indices of streams, events and blocks.
struct Command {
  Action action = Action::nothing;
  std::uint8_t stream = 0;  ///< 0: the default stream
  std::uint8_t event = 0;
  std::uint16_t block = 0;
  std::uint16_t source = 0;  ///< of a copy: the block read
  std::uint8_t value = 0;    ///< of a set
  std::uint8_t part = 0;     ///< of a set: 0 the whole block, 1 and 2 a half
  bool implied = false;      ///< a part of the next command, which the backing does by itself
};

struct Program {
  static constexpr std::size_t stream_max = 4;
  static constexpr std::size_t event_count = 4;

  std::array<bool, stream_max> blocking{true};  ///< towards the default stream, which is the first
  std::vector<Command> commands;
  bool writes_ordered = true;  ///< accesses that conflict are ordered, so contents are certain
};

[[nodiscard]] constexpr bool is_event_wait(Action action) {
  return action == Action::wait_event || action == Action::sync_event ||
         action == Action::query_event;
}
[[nodiscard]] constexpr bool is_wait(Action action) {
  return is_event_wait(action) || action == Action::sync_stream || action == Action::sync_context ||
         action == Action::query_stream;
}
[[nodiscard]] constexpr bool is_free(Action action) {
  return action == Action::free || action == Action::free_now;
}
/// Does it read or write the block?
[[nodiscard]] constexpr bool uses(const Command& command, std::size_t block) {
  switch (command.action) {
    case Action::set:
    case Action::read: return command.block == block;
    case Action::copy: return command.block == block || command.source == block;
    default: return false;
  }
}
/// Does it put work into its stream?
[[nodiscard]] constexpr bool is_work(Action action) {
  return action == Action::allocate || action == Action::set || action == Action::copy ||
         action == Action::read || action == Action::free || action == Action::record ||
         action == Action::wait_event || action == Action::host_function;
}

/// The driver's function that a command calls, as diagnoses name it.
[[nodiscard]] const char* function_of(Action action);

[[nodiscard]] std::string to_text(const Command& command);
[[nodiscard]] std::string to_text(const Program& program);

}  // namespace assay::ordering
