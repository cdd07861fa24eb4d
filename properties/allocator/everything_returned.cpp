// Goal: when every block was freed, nothing is held: not in the subject's own count, not in the
// upstream or the driver once the subject is gone, and not a little more with every round.
// Method: random lists, drained; the checking backing below, or the model of a driver, must then be
// empty. Two lists run for
// 1,000 rounds in one process, each drained: what is held must not grow from round 100 to 1,000.
#include <fmt/format.h>

#include "../engine/generators.hpp"
#include "../engine/slot_model.hpp"

namespace assay::properties::property_list {
namespace {

constexpr std::uint32_t long_cases = 2;
constexpr std::uint32_t long_cycles = 1000;
constexpr std::size_t long_commands_max = 60;
// Of blocks that are megabytes at least, a thousand rounds of sixty would take minutes.
constexpr std::size_t long_commands_max_coarse = 6;
constexpr std::uint64_t coarse_bytes = std::uint64_t{1} << 20;
constexpr std::uint64_t noise_bytes = 64 * 1024;  // over 900 rounds: 73 bytes a round

/// Growth in every quarter, not one step: an allocator may settle late, a leak never settles.
bool grows_steadily(const harness::Figures& figures) noexcept {
  if (figures.sample_count < harness::sample_limit) return false;
  for (std::size_t i = 1; i < harness::sample_limit; ++i) {
    if (figures.samples[i] <= figures.samples[i - 1]) return false;
  }
  return figures.samples[harness::sample_limit - 1] - figures.samples[0] > noise_bytes;
}

std::optional<Violation> judge(const Case& which, const CaseRun& run) {
  if (run.end != CaseRun::End::finished) return std::nullopt;
  const auto end = static_cast<std::uint32_t>(which.commands.size());
  const harness::Figures& figures = run.figures;
  if (figures.has_own != 0 && (figures.own_live_blocks != 0 || figures.own_live_bytes != 0)) {
    return Violation{end, fmt::format("after every free the subject counts {} live blocks of {} "
                                      "bytes",
                                      figures.own_live_blocks, figures.own_live_bytes)};
  }
  if (figures.has_upstream != 0 &&
      (figures.upstream_live_blocks != 0 || figures.upstream_live_bytes != 0)) {
    return Violation{end, fmt::format("after its end the upstream still holds {} blocks of {} "
                                      "bytes",
                                      figures.upstream_live_blocks, figures.upstream_live_bytes)};
  }
  constexpr std::uint32_t of_the_subject_alone = 2;
  if (figures.has_driver == of_the_subject_alone && figures.driver_bytes != 0) {
    return Violation{
        end, fmt::format("after its end the driver still holds {} bytes", figures.driver_bytes)};
  }
  if (grows_steadily(figures)) {
    const std::uint64_t grown = figures.samples[harness::sample_limit - 1] - figures.samples[0];
    return Violation{end, fmt::format("what is held grows with every round: by about {} KiB from "
                                      "round 100 to round {}",
                                      grown >> 10, which.settings.cycles)};
  }
  return std::nullopt;
}

void prepare(const ChildFacts& facts, std::uint32_t index, Case& which) {
  if (index >= long_cases) return;
  which.settings.cycles = long_cycles;
  const std::size_t longest =
      facts.granularity < coarse_bytes ? long_commands_max : long_commands_max_coarse;
  if (which.commands.size() > longest) which.commands.resize(longest);
}

}  // namespace

const Property& everything_returned() {
  static constexpr Property property{
      .id = "everything_returned",
      .goal = "once every block was freed nothing is held, and no round leaves a little more",
      .commands =
          [] {
            return command_lists({.length = 120,
                                  .allocate = 5,
                                  .allocate_and_fill = 1,
                                  .free = 4,
                                  .fill = 0,
                                  .resize = 1,
                                  .large = 1});
          },
      .judge = judge,
      .prepare = prepare};
  return property;
}

}  // namespace assay::properties::property_list
