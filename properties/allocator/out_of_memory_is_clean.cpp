// Goal: a request that cannot be served fails as an error: no abort, no live byte changed, and
// what fitted before fits again once as much is free.
// Method: small blocks are filled, then large ones asked for until a limit is met, among them sizes
// that no machine can serve (fault:B-11); everything is checked, freed, and the same sizes asked
// for again in the same order. The limit is the checking backing's for a subject with an upstream,
// the capacity of the driver's model for memory of a driver, else RLIMIT_AS beyond what is mapped
// after a warm-up. Large blocks are not written, so no page of theirs exists and running out costs
// nothing.
#include <algorithm>

#include <fmt/format.h>

#include "../engine/generators.hpp"
#include "../engine/slot_model.hpp"

namespace assay::properties::property_list {
namespace {

constexpr std::uint64_t limit_bytes = std::uint64_t{64} << 20;
constexpr std::uint64_t servable_max = std::uint64_t{1} << 46;  // half of a user's address space
constexpr std::uint16_t small_slots = 12;
constexpr std::uint16_t huge_slot = harness::slot_count - 1;

struct Wanted {
  std::uint64_t size;
  std::uint64_t alignment;
};

rc::Gen<Wanted> large_requests() {
  return rc::gen::map(
      rc::gen::tuple(rc::gen::inRange(16, 23), rc::gen::inRange<std::uint64_t>(0, 4096),
                     rc::gen::inRange(4, 13)),
      [](const std::tuple<int, std::uint64_t, int>& drawn) {
        const auto& [power, more, alignment] = drawn;
        return Wanted{(std::uint64_t{1} << power) + more, std::uint64_t{1} << alignment};
      });
}

rc::Gen<Wanted> small_requests() {
  return rc::gen::map(rc::gen::tuple(sizes(), rc::gen::inRange(0, 7)),
                      [](const std::tuple<std::uint64_t, int>& drawn) {
                        return Wanted{std::get<0>(drawn), std::uint64_t{1} << std::get<1>(drawn)};
                      });
}

rc::Gen<Wanted> huge_requests() {
  return rc::gen::map(rc::gen::tuple(rc::gen::element<std::uint64_t>(
                                         SIZE_MAX - 3, SIZE_MAX - 254, std::uint64_t{1} << 63,
                                         PTRDIFF_MAX, std::uint64_t{1} << 47),
                                     rc::gen::inRange(0, 13)),
                      [](const std::tuple<std::uint64_t, int>& drawn) {
                        return Wanted{std::get<0>(drawn), std::uint64_t{1} << std::get<1>(drawn)};
                      });
}

/// Allocations until the limit, with frees and resizes on the way.
void add_wave(const std::vector<Wanted>& small, const std::vector<Wanted>& large,
              const std::vector<Wanted>& huge, Commands& commands) {
  std::uint16_t slot = 0;
  for (const Wanted& wanted : small) {
    commands.push_back(allocate(slot, wanted.size, wanted.alignment));
    commands.push_back(fill(slot++));
  }
  for (std::size_t i = 0; i < large.size(); ++i) {
    commands.push_back(allocate(slot++, large[i].size, large[i].alignment));
    if (i % 8 != 7) continue;
    const Wanted& wanted = huge[i / 8 % huge.size()];
    commands.push_back(allocate(huge_slot, wanted.size, wanted.alignment));
    commands.push_back(allocate(huge_slot, 64, 16));
    commands.push_back(free_slot(huge_slot));
    // Growth that cannot be served must leave the block as it was.
    commands.push_back(resize(static_cast<std::uint16_t>(i % small_slots), limit_bytes * 2));
  }
  check_all(commands);
}

rc::Gen<Commands> waves() {
  return rc::gen::map(
      rc::gen::tuple(rc::gen::container<std::vector<Wanted>>(small_slots, small_requests()),
                     rc::gen::container<std::vector<Wanted>>(48, large_requests()),
                     rc::gen::container<std::vector<Wanted>>(4, huge_requests())),
      [](const std::tuple<std::vector<Wanted>, std::vector<Wanted>, std::vector<Wanted>>& drawn) {
        const auto& [small, large, huge] = drawn;
        Commands commands;
        for (int again = 0; again < 2; ++again) {
          add_wave(small, large, huge, commands);
          for (std::uint16_t slot = 0; slot < harness::slot_count; ++slot) {
            commands.push_back(free_slot(slot));
          }
        }
        return commands;
      });
}

/// What was served so far, and how much was live at most.
///
/// An allocator may need more room for the same blocks in another order: fragmentation is not
/// judged here. But once everything was freed, half of the load that it carried must fit again.
class Memory {
 public:
  void look(const SlotModel& model) noexcept {
    live_bytes_ = 0;
    for (const LiveBlock& block : model.all()) live_bytes_ += block.size;
    peak_bytes_ = std::max(peak_bytes_, live_bytes_);
    if (live_bytes_ == 0) emptied_after_ = served_.size();
  }
  void serve(const Command& command, std::uint32_t step) { served_.push_back({command, step}); }

  /// The step that served the same before everything was freed, if it must be served again.
  [[nodiscard]] std::optional<std::uint32_t> must_fit(const Command& command) const noexcept {
    if (live_bytes_ + command.size > peak_bytes_ / 2) return std::nullopt;
    for (std::size_t i = 0; i < emptied_after_; ++i) {
      const Command& before = served_[i].command;
      if (before.size == command.size && before.alignment == command.alignment) {
        return served_[i].step;
      }
    }
    return std::nullopt;
  }

 private:
  struct Served {
    Command command;
    std::uint32_t step;
  };
  std::vector<Served> served_;
  std::size_t emptied_after_ = 0;  // so many of `served_` came before nothing was live
  std::uint64_t live_bytes_ = 0;
  std::uint64_t peak_bytes_ = 0;
};

std::optional<Violation> judge_fit(const Case& which, const CaseRun& run) {
  Memory memory;
  return each_step(
      which, run,
      [&](const SlotModel& model, const Command& command, const Outcome& outcome,
          std::uint32_t step) -> std::optional<Violation> {
        memory.look(model);
        if (command.operation != Operation::allocate) return std::nullopt;
        if (outcome.status == Status::done) {
          memory.serve(command, step);
          if (command.size < servable_max) return std::nullopt;
          return Violation{step, fmt::format("{} bytes were served", command.size)};
        }
        if (outcome.status != Status::refused) return std::nullopt;
        const auto before = memory.must_fit(command);
        if (!before) return std::nullopt;
        return Violation{
            step, fmt::format("{} bytes at {} are refused ({}), which step {} got before all was "
                              "freed",
                              command.size, command.alignment,
                              name_of(static_cast<ErrorCode>(outcome.error_code)), *before)};
      });
}

std::optional<Violation> judge(const Case& which, const CaseRun& run) {
  auto changed = first_mismatch(which, run);
  auto unfit = judge_fit(which, run);
  if (changed && (!unfit || changed->step <= unfit->step)) return changed;
  return unfit;
}

}  // namespace

const Property& out_of_memory_is_clean() {
  static constexpr Property property{
      .id = "out_of_memory_is_clean",
      .goal = "a request that cannot be served fails as an error and changes nothing",
      .commands = waves,
      .judge = judge,
      .prepare =
          [](const ChildFacts& facts, std::uint32_t, Case& which) {
            harness::CaseSettings& settings = which.settings;
            if (facts.takes_upstream != 0) {
              settings.upstream_limit = limit_bytes;
            } else if (facts.driver != 0) {
              settings.driver_capacity = limit_bytes;
            } else {
              settings.address_space_limit = limit_bytes;
            }
          },
      .not_applicable = [](const ChildFacts& facts) -> std::string {
        if (facts.takes_upstream != 0) return "";
        // A real driver has no limit to set: what it has must be left to the others on the device.
        if (facts.driver != 0) {
          return facts.limits_driver != 0 ? "" : "a real driver's memory cannot be limited";
        }
        // A sanitizer's shadow and quarantine live in the address space that would be limited.
        return facts.instrumented != 0 ? "no address space limit in a sanitizer build" : "";
      }};
  return property;
}

}  // namespace assay::properties::property_list
