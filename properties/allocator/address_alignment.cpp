// Goal: every address is a multiple of the alignment asked, also after a resize.
// Method: by example, each alignment from 8 B to 1 MiB with sizes one below, equal and one above,
// three live of each, twice over so that the second round meets a warmed pool, each block then
// resized to 1, A, A+1, 8A and A (fault:B-12); then random lists with larger alignments.
// The address is judged, never an offset in a slab.
#include <bit>

#include <fmt/format.h>

#include "../engine/generators.hpp"
#include "../engine/slot_model.hpp"

namespace assay::properties::property_list {
namespace {

void round_of(std::uint64_t alignment, Commands& commands) {
  std::uint16_t slot = 0;
  for (const std::uint64_t size : {alignment - 1, alignment, alignment + 1}) {
    for (int live = 0; live < 3; ++live) commands.push_back(allocate(slot++, size, alignment));
  }
  for (const std::uint64_t size :
       {std::uint64_t{1}, alignment, alignment + 1, alignment * 8, alignment}) {
    commands.push_back(resize(3, size));
  }
  while (slot > 0) commands.push_back(free_slot(--slot));
}

std::vector<Commands> examples() {
  Commands commands;
  for (std::uint64_t alignment = 8; alignment <= (std::uint64_t{1} << 20); alignment *= 2) {
    for (int warmed = 0; warmed < 2; ++warmed) round_of(alignment, commands);
  }
  return {commands};
}

std::optional<Violation> judge(const Case& which, const CaseRun& run) {
  return each_step(
      which, run,
      [](const SlotModel& model, const Command& command, const Outcome& outcome,
         std::uint32_t step) -> std::optional<Violation> {
        if (!places_block(command, outcome)) return std::nullopt;
        const bool resized = command.operation == Operation::resize;
        const std::uint64_t wanted = resized ? model.at(command.slot).alignment : command.alignment;
        if (outcome.address % wanted == 0) return std::nullopt;
        return Violation{
            step, fmt::format("block {} lies {} bytes past a multiple of {}{}", outcome.block,
                              outcome.address % wanted, wanted, resized ? " after a resize" : "")};
      });
}

}  // namespace

const Property& address_alignment() {
  static constexpr Property property{
      .id = "address_alignment",
      .goal = "every address is a multiple of the alignment asked, also after a resize",
      .commands =
          [] {
            return command_lists({.length = 120, .allocate = 6, .free = 3, .fill = 0, .resize = 3});
          },
      .judge = judge,
      .examples = examples};
  return property;
}

}  // namespace assay::properties::property_list
