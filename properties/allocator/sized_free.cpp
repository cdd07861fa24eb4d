// Goal: every free carries the size and alignment of its allocation: a subject passes them on to
// its upstream, and frees right when it is told them itself.
// Method: a checking backing below an adaptor compares each free and resize with its record:
// pooled, oversize and aligned blocks, and what a pool gives back at its end (fault:B-23). A
// subject without upstream is freed by size over all sizes and alignments; its survivors must stay
// whole.
#include <fmt/format.h>

#include "../engine/generators.hpp"
#include "../engine/slot_model.hpp"

namespace assay::properties::property_list {
namespace {

using harness::Finding;
using harness::FindingKind;

std::string describe_finding(const Finding& finding) {
  switch (finding.kind) {
    case FindingKind::unknown_block:
      return fmt::format("the upstream got back a block of {} bytes that is not live",
                         finding.found);
    case FindingKind::wrong_size:
      return fmt::format("the upstream got back {} bytes where {} were allocated", finding.found,
                         finding.expected);
    case FindingKind::wrong_alignment:
      return fmt::format("the upstream got back alignment {} where {} was allocated", finding.found,
                         finding.expected);
    case FindingKind::wrong_capacity:
      return fmt::format("the upstream got back a capacity of {} where it gave {}", finding.found,
                         finding.expected);
  }
  return "";
}

std::optional<Violation> judge(const Case& which, const CaseRun& run) {
  auto mismatch = first_mismatch(which, run);
  if (run.findings.empty()) return mismatch;
  const auto last = static_cast<std::uint32_t>(which.commands.size());
  const Finding& finding = run.findings.front();
  const std::uint32_t step = std::min(finding.step, last);
  if (mismatch && mismatch->step <= step) return mismatch;
  return Violation{step, describe_finding(finding)};
}

}  // namespace

const Property& sized_free() {
  static constexpr Property property{
      .id = "sized_free",
      .goal = "every free carries the size and alignment of its allocation",
      .commands =
          [] {
            auto lists = command_lists({.length = 130,
                                        .allocate = 2,
                                        .allocate_and_fill = 4,
                                        .free = 2,
                                        .check_and_free = 4,
                                        .resize = 1,
                                        .large = 1});
            return rc::gen::map(std::move(lists), [](Commands commands) {
              check_all(commands);
              return commands;
            });
          },
      .judge = judge,
      .prepare = [](const ChildFacts&, std::uint32_t,
                    Case& which) { which.settings.sized_free = 1; },
      .not_applicable =
          [](const ChildFacts& facts) {
            return std::string(facts.sized_free != 0 ? "" : facts.sized_by);
          }};
  return property;
}

}  // namespace assay::properties::property_list
