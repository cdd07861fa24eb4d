#include "assay/harness/child_server.hpp"

#include <csignal>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "../engine/generators.hpp"
#include "assay/harness/process.hpp"

namespace assay::properties {
namespace {

using harness::CaseRun;
using harness::ChildServer;
using std::chrono::milliseconds;

constexpr milliseconds patience{20'000};
constexpr milliseconds stall{3'000};

std::unique_ptr<ChildServer> serve(std::string_view id) {
  return ChildServer::start(*harness::find_subject(id), patience).value();
}

Commands allocations(std::uint16_t count) {
  Commands commands;
  for (std::uint16_t slot = 0; slot < count; ++slot) commands.push_back(allocate(slot, 100, 16));
  return commands;
}

TEST(ChildServer, RunsCommandsAndSkipsWhatDoesNotFit) {
  const auto server = serve("heap");
  ASSERT_TRUE(server->ready());
  const Case which{{},
                   {free_slot(3), allocate(3, 100, 64), allocate(3, 5, 1), check(3), fill(3),
                    check(3), resize(3, 5000), check(3), free_slot(3), resize(3, 1)}};
  const CaseRun run = server->run(which, stall);
  EXPECT_EQ(run.end, CaseRun::End::finished);
  using enum Status;
  const std::vector<Status> expected = {skipped, done, skipped, skipped, done,
                                        done,    done, done,    done,    skipped};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(run.outcomes[i].status, expected[i]) << i;
  }
  EXPECT_EQ(run.outcomes[1].address % 64, 0u);
  EXPECT_GE(run.outcomes[6].capacity, 5000u);
}

TEST(ChildServer, StartsEveryCaseFromTheSameHeap) {
  for (const char* id : {"heap", "malloc"}) {
    const auto server = serve(id);
    const Case which{{}, allocations(40)};
    const CaseRun first = server->run(which, stall);
    const CaseRun second = server->run(which, stall);
    for (std::size_t i = 0; i < which.commands.size(); ++i) {
      EXPECT_EQ(first.outcomes[i].address, second.outcomes[i].address) << id << " " << i;
    }
  }
}

TEST(ChildServer, CrashNamesItsCommandAndTheNextCaseRuns) {
  const auto server = serve("demo_crash");
  const CaseRun crashed = server->run({{}, allocations(30)}, stall);
  EXPECT_EQ(crashed.end, CaseRun::End::crashed);
  EXPECT_EQ(crashed.step, 19u);  // it breaks at its twentieth allocation
  EXPECT_EQ(crashed.outcomes[18].status, Status::done);
  EXPECT_EQ(crashed.outcomes[19].status, Status::not_run);
  EXPECT_EQ(server->run({{}, allocations(10)}, stall).end, CaseRun::End::finished);
}

TEST(ChildServer, HangNamesItsCommandAndTheNextCaseRuns) {
  const auto server = serve("demo_hang");
  Case which{{}, allocations(30)};
  for (std::uint16_t slot = 0; slot < 30; ++slot) which.commands.push_back(free_slot(slot));
  const CaseRun hung = server->run(which, milliseconds(300));
  EXPECT_EQ(hung.end, CaseRun::End::hung);
  EXPECT_EQ(hung.step, 39u);  // it waits in its tenth free
  EXPECT_EQ(server->run({{}, allocations(5)}, stall).end, CaseRun::End::finished);
}

/// The first child of a process, or 0.
pid_t child_of(pid_t process) {
  std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", process));
  pid_t child = 0;
  return children >> child ? child : 0;
}

TEST(ChildServer, AKilledParentTakesTheServerAndAHungCaseAlong) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);  // every descendant inherits it: its end says that all are gone
  const pid_t parent = ::fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    ::close(ends[0]);
    // 3 and 4 of the server are its channels.
    if (::fcntl(ends[1], F_DUPFD, 10) < 10) ::_exit(1);
    Case which{{}, allocations(30)};
    for (std::uint16_t slot = 0; slot < 30; ++slot) which.commands.push_back(free_slot(slot));
    (void)serve("demo_hang")->run(which, std::chrono::hours(1));
    ::_exit(0);
  }
  ::close(ends[1]);
  pid_t server = 0;
  pid_t hung = 0;
  while (hung == 0 && ::waitpid(parent, nullptr, WNOHANG) == 0) {
    server = child_of(parent);
    if (server != 0) hung = child_of(server);
    std::this_thread::yield();
  }
  EXPECT_GT(hung, 0);
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  pollfd gone{ends[0], POLLIN, 0};
  EXPECT_EQ(::poll(&gone, 1, static_cast<int>(patience.count())), 1) << "something stayed behind";
  ::close(ends[0]);
}

TEST(ChildServer, ProcessSubjectProvesItsLibrary) {
  const auto server = serve("malloc");
  ASSERT_TRUE(server->ready());
  EXPECT_EQ(server->facts().proven, 1u);
  EXPECT_NE(std::string_view(server->facts().provider).find("libc"), std::string_view::npos);
}

TEST(ChildServer, PreloadThatDoesNotTakeIsSeen) {
  // The loader only warns, and the program runs with the C library's malloc.
  const harness::Subject absent{.id = "absent",
                                .origin = harness::Origin::foreign,
                                .summary = "",
                                .make = nullptr,
                                .preload = "libno-such-malloc.so.1",
                                .package = "no-such-malloc"};
  const auto server = ChildServer::start(absent, patience).value();
  ASSERT_TRUE(server->ready());
  EXPECT_EQ(server->facts().proven, 0u);
}

TEST(ChildServer, PreloadChildHasNoCxxRuntime) {
  harness::ChildSpec spec;
  spec.arguments = {"/usr/bin/ldd", harness::sibling_program("assay-preload-child")};
  const auto listed = harness::run_child(spec);
  ASSERT_TRUE(listed.has_value());
  ASSERT_TRUE(listed.value().succeeded()) << listed.value().standard_error;
  EXPECT_NE(listed.value().standard_output.find("libc.so"), std::string::npos);
  EXPECT_EQ(listed.value().standard_output.find("stdc++"), std::string::npos);
}

TEST(ChildServer, MemoryLimitRefusesAndTheSameSizeFitsAfterAFree) {
  const auto server = serve("malloc");
  Case which;
  which.settings.address_space_limit = std::uint64_t{32} << 20;
  which.commands = {allocate(0, 100, 16),      fill(0),  allocate(1, 24 << 20, 16),
                    allocate(2, 24 << 20, 16), check(0), free_slot(1),
                    allocate(2, 24 << 20, 16)};
  const CaseRun run = server->run(which, stall);
  EXPECT_EQ(run.end, CaseRun::End::finished);
  EXPECT_EQ(run.outcomes[2].status, Status::done);
  EXPECT_EQ(run.outcomes[3].status, Status::refused);
  EXPECT_EQ(run.outcomes[4].status, Status::done);
  EXPECT_EQ(run.outcomes[6].status, Status::done);
}

}  // namespace
}  // namespace assay::properties
