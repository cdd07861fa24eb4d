// The oracle by itself: small programs whose order is plain.
#include "graph.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace assay::ordering {
namespace {

using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

Program program_of(std::vector<Command> commands, std::array<bool, 4> blocking = {true}) {
  Program program;
  program.blocking = blocking;
  program.commands = std::move(commands);
  return program;
}

Pairs conflicts(const Program& program, Reading reading = Reading::sure) {
  Pairs pairs;
  for (const Conflict& each : conflicts_of(program, Graph(program), reading)) {
    pairs.emplace_back(each.earlier, each.later);
  }
  return pairs;
}

Command on(std::uint8_t stream, Action action, std::uint8_t event = 0) {
  return {.action = action, .stream = stream, .event = event};
}
constexpr std::array<bool, 4> first_blocks{true, true, false, false};

TEST(OrderingGraph, OneStreamIsInOrder) {
  EXPECT_EQ(
      conflicts(program_of({on(1, Action::allocate), on(1, Action::set), on(1, Action::free)})),
      Pairs{});
}

TEST(OrderingGraph, AnotherStreamIsNot) {
  EXPECT_EQ(
      conflicts(program_of({on(1, Action::allocate), on(2, Action::set), on(1, Action::free)})),
      (Pairs{{0, 1}, {1, 2}}));
}

TEST(OrderingGraph, AUseAfterTheFreeIsOneThough) {
  EXPECT_EQ(
      conflicts(program_of({on(1, Action::allocate), on(1, Action::free), on(1, Action::set)})),
      (Pairs{{1, 2}}));
}

TEST(OrderingGraph, AnEventOrdersWhatItsRecordIsAfter) {
  const std::vector<Command> commands{on(1, Action::allocate), on(1, Action::record),
                                      on(1, Action::set),      on(2, Action::wait_event),
                                      on(2, Action::set),      on(2, Action::free)};
  EXPECT_EQ(conflicts(program_of(commands)), (Pairs{{2, 5}}));
}

TEST(OrderingGraph, AWaitIsForTheRecordAtItsTime) {
  EXPECT_EQ(conflicts(program_of({on(1, Action::allocate), on(2, Action::wait_event),
                                  on(1, Action::record), on(2, Action::set)})),
            (Pairs{{0, 3}}));
  EXPECT_EQ(
      conflicts(program_of({on(1, Action::allocate), on(1, Action::record), on(3, Action::record),
                            on(2, Action::wait_event), on(2, Action::set)})),
      (Pairs{{0, 4}}));
}

TEST(OrderingGraph, OrderPassesFromStreamToStream) {
  EXPECT_EQ(conflicts(program_of({on(1, Action::allocate), on(1, Action::record, 1),
                                  on(2, Action::wait_event, 1), on(2, Action::record, 2),
                                  on(3, Action::wait_event, 2), on(3, Action::set)})),
            Pairs{});
}

TEST(OrderingGraph, WhatTheHostHasSeenIsBeforeEverything) {
  for (const Command& wait :
       {on(1, Action::sync_stream), on(1, Action::query_stream), on(0, Action::sync_context)}) {
    EXPECT_EQ(conflicts(program_of(
                  {on(1, Action::allocate), wait, on(2, Action::set), on(2, Action::free)})),
              Pairs{});
  }
  EXPECT_EQ(
      conflicts(program_of({on(1, Action::allocate), on(1, Action::record), on(1, Action::set),
                            on(0, Action::sync_event), on(2, Action::free)})),
      (Pairs{{2, 4}}));
}

TEST(OrderingGraph, AFreeByTheHostNeedsAWaitOfTheHost) {
  EXPECT_EQ(conflicts(program_of({on(1, Action::allocate), on(1, Action::free_now)})),
            (Pairs{{0, 1}}));
  EXPECT_EQ(conflicts(program_of(
                {on(1, Action::allocate), on(1, Action::sync_stream), on(1, Action::free_now)})),
            Pairs{});
}

TEST(OrderingGraph, TheDefaultStreamWaitsForBlockingOnes) {
  const std::vector<Command> through{on(1, Action::allocate), on(0, Action::set),
                                     on(1, Action::free)};
  EXPECT_EQ(conflicts(program_of(through, first_blocks)), Pairs{});
  EXPECT_EQ(conflicts(program_of(through)), (Pairs{{0, 1}, {1, 2}}));
  EXPECT_EQ(conflicts(program_of(
                {on(1, Action::allocate), on(1, Action::renew_stream), on(0, Action::set)},
                first_blocks)),
            Pairs{});
}

TEST(OrderingGraph, ARenewedStreamIsAnother) {
  const std::vector<Command> renewed{on(1, Action::allocate), on(1, Action::renew_stream),
                                     on(1, Action::set)};
  EXPECT_EQ(conflicts(program_of(renewed)), (Pairs{{0, 2}}));
  EXPECT_EQ(conflicts(program_of({on(1, Action::allocate), on(1, Action::renew_stream),
                                  on(0, Action::sync_context), on(1, Action::set)})),
            Pairs{});
}

TEST(OrderingGraph, WhatTheDocumentsLeaveOpenIsNoCertainConflict) {
  const Program default_waits = program_of(
      {on(1, Action::allocate), on(0, Action::sync_stream), on(2, Action::set)}, first_blocks);
  EXPECT_EQ(conflicts(default_waits), (Pairs{{0, 2}}));
  EXPECT_EQ(conflicts(default_waits, Reading::generous), Pairs{});

  const Program host_function =
      program_of({on(1, Action::allocate), on(2, Action::host_function), on(2, Action::set)});
  EXPECT_EQ(conflicts(host_function), (Pairs{{0, 2}}));
  EXPECT_EQ(conflicts(host_function, Reading::generous), Pairs{});
  const Program seen = program_of({on(1, Action::allocate), on(2, Action::host_function),
                                   on(2, Action::sync_stream), on(2, Action::set)});
  EXPECT_EQ(conflicts(seen, Reading::generous), (Pairs{{0, 3}}));
}

}  // namespace
}  // namespace assay::ordering
