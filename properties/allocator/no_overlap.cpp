// Goal: two live blocks never share a byte, and a block holds at least what was asked.
// Method: random allocations, frees and resizes over a few sizes that recur, so that freed blocks
// come back; the parent compares each new range with every live one. Some blocks are written, so
// that an allocator that keeps its lists inside freed blocks is put to the test.
#include <fmt/format.h>

#include "../engine/generators.hpp"
#include "../engine/slot_model.hpp"

namespace assay::properties::property_list {
namespace {

std::optional<Violation> judge_placement(const SlotModel& model, const Command& command,
                                         const Outcome& outcome, std::uint32_t step) {
  if (!places_block(command, outcome)) return std::nullopt;
  if (outcome.capacity < command.size) {
    return Violation{step, fmt::format("block {} holds {} bytes where {} were asked", outcome.block,
                                       outcome.capacity, command.size)};
  }
  if (outcome.address + outcome.capacity < outcome.address) {
    return Violation{step,
                     fmt::format("block {} runs past the end of the address space", outcome.block)};
  }
  for (const LiveBlock& other : model.all()) {
    if (other.number == 0 || other.number == outcome.block) continue;
    const std::uint64_t begin = std::max(outcome.address, other.address);
    const std::uint64_t end =
        std::min(outcome.address + outcome.capacity, other.address + other.capacity);
    if (begin < end) {
      return Violation{
          step, fmt::format("block {} shares {} bytes with live block {}, from its "
                            "byte {}",
                            outcome.block, end - begin, other.number, begin - other.address)};
    }
  }
  return std::nullopt;
}

std::optional<Violation> judge(const Case& which, const CaseRun& run) {
  return each_step(which, run, judge_placement);
}

}  // namespace

const Property& no_overlap() {
  static constexpr Property property{
      .id = "no_overlap",
      .goal = "two live blocks never share a byte, and each holds what was asked",
      .commands =
          [] {
            return command_lists({.length = 150, .allocate = 6, .free = 4, .fill = 1, .resize = 1});
          },
      .judge = judge};
  return property;
}

}  // namespace assay::properties::property_list
