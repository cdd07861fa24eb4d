#include "counterexample.hpp"

#include <array>
#include <charconv>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "assay/base/system.hpp"

namespace assay::properties {
namespace {

using harness::Trace;

std::string describe_outcome(const Outcome& outcome) {
  switch (outcome.status) {
    case Status::not_run: return "not reached";
    case Status::done: return outcome.block == 0 ? "ok" : fmt::format("block {}", outcome.block);
    case Status::skipped: return "skipped";
    case Status::refused: return name_of(static_cast<ErrorCode>(outcome.error_code));
    case Status::mismatch: return fmt::format("wrong byte {}", outcome.bad_offset);
    case Status::unreachable:
      return fmt::format("unreachable: {}", name_of(static_cast<ErrorCode>(outcome.error_code)));
  }
  return "";
}

std::string describe_command(const Command& command) {
  const char* const zero = command.zero != 0 ? ", zero" : "";
  switch (command.operation) {
    case Operation::allocate:
      return fmt::format("allocate slot {}: {} bytes at {}{}", command.slot, command.size,
                         command.alignment, zero);
    case Operation::resize:
      return fmt::format("resize slot {}: {} bytes{}", command.slot, command.size, zero);
    case Operation::free: return fmt::format("free slot {}", command.slot);
    case Operation::fill: return fmt::format("fill slot {}", command.slot);
    case Operation::check: return fmt::format("check slot {}", command.slot);
  }
  return "";
}

constexpr std::array<std::pair<Operation, TraceOperation>, 5> operations = {{
    {Operation::allocate, TraceOperation::allocate},
    {Operation::free, TraceOperation::free},
    {Operation::resize, TraceOperation::resize},
    {Operation::fill, TraceOperation::fill},
    {Operation::check, TraceOperation::check},
}};

struct SlotId {
  std::uint64_t id = 0;
  std::uint64_t size = 0;
  bool known = false;
};

std::string number_list(const std::vector<std::uint16_t>& numbers) {
  return fmt::format("{}", fmt::join(numbers, " "));
}

void add_extra(Trace& trace, std::string key, std::string value) {
  trace.header.extra.emplace_back(std::move(key), std::move(value));
}

std::optional<std::string_view> extra(const Trace& trace, std::string_view key) {
  for (const auto& [name, value] : trace.header.extra) {
    if (name == key) return value;
  }
  return std::nullopt;
}

template <class T>
bool read_number(std::string_view text, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

/// The number of an extra key, or a message. A key that is absent leaves the number as it is.
template <class T>
std::optional<std::string> read_extra(const Trace& trace, std::string_view key, T& number) {
  const auto text = extra(trace, key);
  if (!text || read_number(*text, number)) return std::nullopt;
  return fmt::format("{}: '{}' is not a number", key, *text);
}

std::expected<std::vector<std::uint16_t>, std::string> read_slots(const Trace& trace) {
  std::vector<std::uint16_t> slots;
  std::string_view text = extra(trace, "slots").value_or("");
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    std::uint16_t slot = 0;
    if (!read_number(word, slot) || slot >= harness::slot_count) {
      return std::unexpected(
          fmt::format("slots: '{}' is not a slot below {}", word, harness::slot_count));
    }
    slots.push_back(slot);
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return slots;
}

/// The commands of the events; each allocation takes the next of the listed slots.
std::expected<Commands, std::string> commands_of(const Trace& trace,
                                                 const std::vector<std::uint16_t>& slots) {
  Commands commands;
  std::map<std::uint64_t, std::uint16_t> slot_of;
  std::size_t next = 0;
  for (const TraceEvent& event : trace.events) {
    Command command;
    bool known = false;
    for (const auto& [operation, word] : operations) {
      if (word != event.operation) continue;
      command.operation = operation;
      known = true;
    }
    if (!known) {
      return std::unexpected(fmt::format("event {}: '{}' cannot be verified", event.sequence,
                                         harness::name_of(event.operation)));
    }
    if (command.operation == Operation::allocate) {
      if (next == slots.size()) {
        return std::unexpected(
            fmt::format("slots: no slot for the allocation of event {}", event.sequence));
      }
      slot_of[event.id] = slots[next++];
      command.alignment = event.alignment == 0 ? 1 : event.alignment;
    }
    const auto slot = slot_of.find(event.id);
    if (slot == slot_of.end()) continue;  // on a block that was never there: nothing to do
    command.slot = slot->second;
    const bool sized =
        command.operation == Operation::allocate || command.operation == Operation::resize;
    if (sized) command.size = event.size;
    if (sized && event.init == Init::zero) command.zero = 1;
    commands.push_back(command);
  }
  if (commands.size() > harness::command_limit) {
    return std::unexpected(
        fmt::format("{} events are more than {}", commands.size(), harness::command_limit));
  }
  return commands;
}

}  // namespace

std::vector<std::string> command_lines(const Case& which, const std::vector<Outcome>& outcomes) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < which.commands.size(); ++i) {
    const Outcome outcome = i < outcomes.size() ? outcomes[i] : Outcome{};
    lines.push_back(fmt::format("{} {} -> {}", i, describe_command(which.commands[i]),
                                describe_outcome(outcome)));
  }
  return lines;
}

Trace to_trace(const Counterexample& counterexample) {
  const Case& which = counterexample.which;
  Trace trace;
  trace.header.subject = counterexample.subject;
  trace.header.property = counterexample.property;
  trace.header.seed = counterexample.seed;
  trace.header.page_size = page_size();
  trace.header.clock = "none";
  std::array<SlotId, harness::slot_count> ids{};
  std::vector<std::uint16_t> slots;
  std::uint64_t next_id = 0;
  for (std::size_t i = 0; i < which.commands.size(); ++i) {
    const Command& command = which.commands[i];
    const Outcome outcome =
        i < counterexample.outcomes.size() ? counterexample.outcomes[i] : Outcome{};
    if (outcome.status == Status::skipped) continue;
    SlotId& slot = ids[command.slot];
    if (command.operation == Operation::allocate) {
      slot = {next_id++, command.size, true};
      slots.push_back(command.slot);
    }
    if (!slot.known) continue;
    if (command.operation == Operation::resize) slot.size = command.size;
    TraceEvent event;
    event.sequence = trace.events.size();
    for (const auto& [operation, word] : operations) {
      if (operation == command.operation) event.operation = word;
    }
    event.id = slot.id;
    if (command.operation != Operation::free) event.size = slot.size;
    if (command.operation == Operation::allocate) event.alignment = command.alignment;
    event.init = command.zero != 0 ? Init::zero : Init::undefined;
    if (outcome.status == Status::refused) {
      event.outcome = static_cast<ErrorCode>(outcome.error_code);
    }
    trace.events.push_back(event);
  }
  add_extra(trace, "slots", number_list(slots));
  add_extra(trace, "cycles", std::to_string(which.settings.cycles));
  add_extra(trace, "address_space_limit", std::to_string(which.settings.address_space_limit));
  add_extra(trace, "upstream_limit", std::to_string(which.settings.upstream_limit));
  if (which.settings.driver_capacity != 0) {
    add_extra(trace, "driver_capacity", std::to_string(which.settings.driver_capacity));
  }
  add_extra(trace, "sized_free", std::to_string(which.settings.sized_free));
  add_extra(trace, "outcome", std::string(harness::name_of(counterexample.outcome)));
  add_extra(trace, "detail", counterexample.detail);
  return trace;
}

std::expected<Counterexample, std::string> from_trace(const Trace& trace) {
  if (!trace.is_counterexample()) {
    return std::unexpected("property: absent, so this trace is no counterexample");
  }
  Counterexample made;
  made.subject = trace.header.subject;
  made.property = trace.header.property;
  made.seed = trace.header.seed;
  harness::CaseSettings& settings = made.which.settings;
  for (const auto& problem :
       {read_extra(trace, "cycles", settings.cycles),
        read_extra(trace, "address_space_limit", settings.address_space_limit),
        read_extra(trace, "upstream_limit", settings.upstream_limit),
        read_extra(trace, "driver_capacity", settings.driver_capacity),
        read_extra(trace, "sized_free", settings.sized_free)}) {
    if (problem) return std::unexpected(*problem);
  }
  const auto outcome = extra(trace, "outcome").value_or("fail");
  const auto known = harness::cell_outcome_of(outcome);
  if (!known || !harness::is_bad(*known)) {
    return std::unexpected(
        fmt::format("outcome: '{}' is none of fail, crashed, timed_out", outcome));
  }
  made.outcome = *known;
  made.detail = extra(trace, "detail").value_or("");
  const auto slots = read_slots(trace);
  if (!slots) return std::unexpected(slots.error());
  auto commands = commands_of(trace, *slots);
  if (!commands) return std::unexpected(commands.error());
  made.which.commands = std::move(*commands);
  return made;
}

}  // namespace assay::properties
