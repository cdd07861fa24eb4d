#include <gtest/gtest.h>

#include "assay/harness/shrink.hpp"

namespace assay::harness {
namespace {

Command allocate(std::uint16_t slot, std::uint64_t size, std::uint64_t alignment) {
  return {.operation = Operation::allocate, .slot = slot, .size = size, .alignment = alignment};
}

Command free_slot(std::uint16_t slot) {
  return {.operation = Operation::free, .slot = slot};
}

/// 200 commands among which three, far apart, make the failure.
std::vector<Command> haystack() {
  std::vector<Command> commands;
  for (std::uint16_t i = 0; i < 200; ++i) {
    const auto slot = static_cast<std::uint16_t>(i % 60);
    commands.push_back(i % 2 == 0 ? allocate(slot, 100u + i, 64) : free_slot(slot));
  }
  commands[20] = allocate(61, 5000, 4096);
  commands[90] = free_slot(61);
  commands[150] = allocate(62, 7000, 32);
  return commands;
}

/// Fails at the second allocation of 4000 bytes or more that follows a free of slot 61.
std::optional<std::uint32_t> fails(const std::vector<Command>& commands) {
  int stage = 0;
  for (std::uint32_t i = 0; i < commands.size(); ++i) {
    const Command& command = commands[i];
    const bool large = command.operation == Operation::allocate && command.size >= 4000;
    if (stage == 0 && large && command.slot == 61) stage = 1;
    if (stage == 1 && command.operation == Operation::free && command.slot == 61) stage = 2;
    if (stage == 2 && large && command.slot == 62) return i;
  }
  return std::nullopt;
}

TEST(Shrink, FindsTheThreeCommandsThatMatterInFewRuns) {
  std::size_t runs = 0;
  const StillFails still_fails = [&](const std::vector<Command>& commands) {
    ++runs;
    return fails(commands);
  };
  const Shrunk shrunk = shrink(haystack(), 150, still_fails, {.runs_max = 500});
  ASSERT_EQ(shrunk.commands.size(), 3u);
  EXPECT_TRUE(fails(shrunk.commands));
  EXPECT_EQ(shrunk.commands[0].alignment, 1u);
  EXPECT_EQ(shrunk.commands[0].size, 4096u);
  EXPECT_EQ(shrunk.commands[2].size, 4096u);
  EXPECT_TRUE(shrunk.complete);
  EXPECT_EQ(shrunk.runs, runs);
  EXPECT_LE(runs, 250u);
}

TEST(Shrink, StopsAtItsLimitsWithAListThatFails) {
  const Shrunk few = shrink(haystack(), 150, fails, {.runs_max = 10});
  EXPECT_LE(few.runs, 10u);
  EXPECT_FALSE(few.complete);
  EXPECT_TRUE(fails(few.commands));
  const Shrunk none = shrink(haystack(), 150, fails, {.out_of_time = [] { return true; }});
  EXPECT_EQ(none.runs, 0u);
  EXPECT_EQ(none.commands.size(), 200u);
}

TEST(Shrink, KeepsAListWhoseFailureDoesNotComeBack) {
  // fault:B-51: what failed once may not fail again; the first evidence must not be lost.
  const StillFails never = [](const std::vector<Command>&) -> std::optional<std::uint32_t> {
    return std::nullopt;
  };
  EXPECT_EQ(shrink(haystack(), 199, never, {.runs_max = 2000}).commands, haystack());
}

}  // namespace
}  // namespace assay::harness
