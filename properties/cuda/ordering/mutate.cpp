#include "mutate.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace assay::ordering {

namespace {

Mutant mutant(Fault fault, Program program, std::size_t at, const Command& command) {
  return {fault, std::move(program),
          fmt::format("{}: {} {}", name_of(fault), at, to_text(command))};
}

Program with(const Program& program, std::size_t at, const Command& command) {
  Program changed = program;
  changed.commands[at] = command;
  return changed;
}

Program moved(const Program& program, std::size_t from, std::size_t to) {
  Program changed = program;
  const auto begin = changed.commands.begin();
  std::rotate(begin + static_cast<std::ptrdiff_t>(to), begin + static_cast<std::ptrdiff_t>(from),
              begin + static_cast<std::ptrdiff_t>(from + 1));
  return changed;
}

/// The last command before `at` of which `wanted` is true, or `at`.
template <class Wanted>
std::size_t last_before(const Program& program, std::size_t at, Wanted wanted) {
  for (std::size_t i = at; i-- > 0;) {
    if (wanted(program.commands[i])) return i;
  }
  return at;
}

}  // namespace

const char* name_of(Fault fault) {
  switch (fault) {
    case Fault::wait_left_out: return "waits left out";
    case Fault::record_left_out: return "records left out";
    case Fault::wrong_event: return "waits for the wrong event";
    case Fault::record_too_early: return "records too early";
    case Fault::free_too_early: return "frees too early";
    case Fault::count: break;
  }
  return "";
}

std::vector<Mutant> mutants_of(const Program& program) {
  std::vector<Mutant> mutants;
  const auto add = [&](Fault fault, Program changed, std::size_t at) {
    mutants.push_back(mutant(fault, std::move(changed), at, program.commands[at]));
  };
  for (std::size_t i = 0; i < program.commands.size(); ++i) {
    const Command& command = program.commands[i];
    if (is_wait(command.action)) add(Fault::wait_left_out, with(program, i, {}), i);
    if (is_event_wait(command.action)) {
      Command other = command;
      other.event = static_cast<std::uint8_t>((command.event + 1) % Program::event_count);
      add(Fault::wrong_event, with(program, i, other), i);
    }
    if (command.action == Action::record) {
      add(Fault::record_left_out, with(program, i, {}), i);
      const std::size_t to = last_before(program, i, [&](const Command& earlier) {
        return earlier.stream == command.stream &&
               (is_work(earlier.action) || earlier.action == Action::renew_stream);
      });
      const bool moves = to != i && program.commands[to].action != Action::renew_stream;
      if (moves) add(Fault::record_too_early, moved(program, i, to), i);
    }
    if (is_free(command.action)) {
      const std::size_t to = last_before(
          program, i, [&](const Command& earlier) { return uses(earlier, command.block); });
      const bool of_this_life = to != i;
      if (of_this_life) add(Fault::free_too_early, moved(program, i, to), i);
    }
  }
  return mutants;
}

}  // namespace assay::ordering
