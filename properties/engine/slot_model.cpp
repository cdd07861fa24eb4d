#include "slot_model.hpp"

#include <fmt/format.h>

namespace assay::properties {

std::optional<Violation> first_mismatch(const Case& which, const CaseRun& run) {
  return each_step(
      which, run,
      [](const SlotModel& model, const Command& command, const Outcome& outcome,
         std::uint32_t step) -> std::optional<Violation> {
        if (outcome.status == Status::unreachable) {
          return Violation{step,
                           fmt::format("block {}: its bytes cannot be reached: {}", outcome.block,
                                       name_of(static_cast<ErrorCode>(outcome.error_code)))};
        }
        if (outcome.status != Status::mismatch) return std::nullopt;
        const std::uint64_t size = command.operation == Operation::check
                                       ? model.at(command.slot).capacity
                                       : outcome.capacity;
        return Violation{step, fmt::format("block {} of {} bytes: byte {} is {:#04x}, not {:#04x}",
                                           outcome.block, size, outcome.bad_offset, outcome.found,
                                           outcome.expected)};
      });
}

}  // namespace assay::properties
