// SlotModel: what must live in the slots after each step, as the parent works it out.
#pragma once

#include <array>

#include "property.hpp"

namespace assay::properties {

struct LiveBlock {
  std::uint32_t number = 0;  ///< from 1; 0: the slot is empty
  std::uint32_t step = 0;    ///< that made it
  std::uint64_t size = 0;
  std::uint64_t alignment = 0;
  std::uint64_t address = 0;
  std::uint64_t capacity = 0;
};

/// The allocator did what it was asked, whatever its bytes turned out to be.
[[nodiscard]] inline bool was_done(const Outcome& outcome) noexcept {
  return outcome.status == Status::done || outcome.status == Status::mismatch ||
         outcome.status == Status::unreachable;
}

/// Follows the commands with their outcomes; judges look at it before and after each step.
class SlotModel {
 public:
  /// Takes the effect of one command. **Pre** the outcome is not not_run.
  void apply(const Command& command, const Outcome& outcome, std::uint32_t step) noexcept {
    LiveBlock& slot = slots_[command.slot];
    if (!was_done(outcome)) return;
    switch (command.operation) {
      case Operation::allocate:
        slot = {outcome.block,   step, command.size, command.alignment, outcome.address,
                outcome.capacity};
        break;
      case Operation::free: slot = {}; break;
      case Operation::resize:
        slot.size = command.size;
        slot.address = outcome.address;
        slot.capacity = outcome.capacity;
        break;
      case Operation::fill:
      case Operation::check: break;
    }
  }
  [[nodiscard]] const LiveBlock& at(std::uint16_t slot) const noexcept { return slots_[slot]; }
  [[nodiscard]] const std::array<LiveBlock, harness::slot_count>& all() const noexcept {
    return slots_;
  }

 private:
  std::array<LiveBlock, harness::slot_count> slots_{};
};

/// True if the command put or moved a block: its outcome has an address.
[[nodiscard]] inline bool places_block(const Command& command, const Outcome& outcome) noexcept {
  return (command.operation == Operation::allocate || command.operation == Operation::resize) &&
         was_done(outcome);
}

/// Calls `look(model_before, command, outcome, step)` for each step that ran, until it returns a
/// Violation.
template <class Look>
std::optional<Violation> each_step(const Case& which, const CaseRun& run, Look&& look) {
  SlotModel model;
  for (std::uint32_t step = 0; step < run.outcomes.size(); ++step) {
    const Outcome& outcome = run.outcomes[step];
    if (outcome.status == Status::not_run) break;
    if (auto violation = look(model, which.commands[step], outcome, step)) return violation;
    model.apply(which.commands[step], outcome, step);
  }
  return std::nullopt;
}

/// The first step that found bytes other than those last written, or zeros where they were asked.
[[nodiscard]] std::optional<Violation> first_mismatch(const Case& which, const CaseRun& run);

}  // namespace assay::properties
