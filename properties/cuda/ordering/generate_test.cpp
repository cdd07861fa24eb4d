// The generator by itself: its programs are correct, and most of their waits are needed.
#include "generate.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "graph.hpp"
#include "mutate.hpp"

namespace assay::ordering {
namespace {

std::vector<Intent> intents_of(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto any = [&] { return static_cast<std::uint8_t>(random()); };
  std::vector<Intent> intents(20 + seed % 40);
  for (Intent& intent : intents) intent = {any(), any(), any(), any(), any()};
  return intents;
}

Shape shape_of(std::uint32_t seed) {
  return {.streams = static_cast<std::uint8_t>(2 + seed % 2),
          .default_stream = seed % 4 < 2,
          .host_functions = seed % 8 < 4,
          .renewals = seed % 16 < 8,
          .writes_ordered = seed % 32 < 16};
}

TEST(OrderingGenerator, ProgramsAreCorrectAndFreeEverything) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    const Program program = make_program(shape_of(seed), intents_of(seed));
    EXPECT_TRUE(conflicts_of(program, Graph(program), Reading::sure).empty()) << to_text(program);
    std::map<std::uint16_t, int> balance;
    for (const Command& command : program.commands) {
      if (command.action == Action::allocate) ++balance[command.block];
      if (is_free(command.action)) --balance[command.block];
    }
    for (const auto& [block, count] : balance) EXPECT_EQ(count, 0) << to_text(program);
  }
}

TEST(OrderingGenerator, EveryActionOccurs) {
  std::map<Action, int> seen;
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    for (const Command& each : make_program(shape_of(seed), intents_of(seed)).commands) {
      ++seen[each.action];
    }
  }
  for (int i = 1; i <= static_cast<int>(Action::renew_stream); ++i) {
    EXPECT_GT(seen[static_cast<Action>(i)], 20) << function_of(static_cast<Action>(i));
  }
}

TEST(OrderingGenerator, AThirdOfTheWaitsIsNeeded) {
  std::size_t left_out = 0;
  std::size_t needed = 0;
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    for (const Mutant& each : mutants_of(make_program(shape_of(seed), intents_of(seed)))) {
      if (each.fault != Fault::wait_left_out) continue;
      ++left_out;
      if (!conflicts_of(each.program, Graph(each.program), Reading::generous).empty()) ++needed;
    }
  }
  EXPECT_GT(needed, left_out / 3);
  EXPECT_LT(needed, left_out - left_out / 10);
}

}  // namespace
}  // namespace assay::ordering
