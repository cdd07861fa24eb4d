#include "sequences/sequences.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>

#include <fmt/format.h>
#include <unistd.h>

#include "program/campaign.hpp"
#include "sequences/world.hpp"

namespace assay::conformance {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int steps_of_a_sequence = 60;
constexpr int grace_s = 20;

/// Unbuffered, so that the parent knows the seed after a crash.
void write_line(const std::string& line) {
  [[maybe_unused]] const auto written = ::write(STDOUT_FILENO, line.data(), line.size());
}

std::string again(std::uint64_t seed) {
  return fmt::format("assay-conformance --sequences 1 --seed {}", seed);
}

/// Why the sequence failed, with its steps; empty if it held.
std::string run_one_sequence(const Session& session, std::uint64_t seed, bool say_steps) {
  std::mt19937_64 random(seed);
  World world(session, say_steps);
  try {
    for (int i = 0; i < steps_of_a_sequence; ++i) world.step(random);
    world.finish(random);
    return "";
  } catch (const SequenceFailed& failed) {
    std::string text = fmt::format("FAIL seed {}: {}\n", seed, failed.message);
    for (const std::string& step : world.trace()) text += "  " + step + "\n";
    return text + "again: " + again(seed) + "\n";
  }
}

/// Without what sequences that hold make the model say.
std::string surprising(const std::string& said) {
  const std::string expected = "assay model: " + std::string(refused_on_purpose);
  std::string kept;
  for (std::size_t at = 0; at < said.size();) {
    const std::size_t end = std::min(said.find('\n', at), said.size() - 1) + 1;
    if (said.compare(at, expected.size(), expected) != 0) kept += said.substr(at, end - at);
    at = end;
  }
  return kept;
}

/// The last "seed N" line of a child.
std::string last_seed(const std::string& text) {
  const auto at = text.rfind("seed ");
  return at == std::string::npos ? "" : text.substr(at + 5, text.find('\n', at) - at - 5);
}

std::vector<std::string> child_arguments(const SequencePlan& plan) {
  return {"--sequence-child",           "--sequences",   fmt::format("{}", plan.count),   "--seed",
          fmt::format("{}", plan.seed), "--time-budget", fmt::format("{}", plan.budget_s)};
}

}  // namespace

int run_sequences(const SequencePlan& plan, const std::string& driver_path) {
  const auto session = open_session(driver_path, Start::current);
  if (!session) {
    fmt::print(stderr, "assay-conformance: {}\n", session.error().why);
    return session.error().nothing_to_run ? 77 : 1;
  }
  const auto end = Clock::now() + std::chrono::duration<double>(plan.budget_s);
  std::uint64_t ran = 0;
  while (ran < plan.count && Clock::now() < end) {
    const std::uint64_t seed = plan.seed + ran;
    write_line(fmt::format("seed {}\n", seed));
    const std::string failure = run_one_sequence(*session, seed, plan.count == 1);
    if (!failure.empty()) {
      write_line(failure);
      return 1;
    }
    ran += 1;
  }
  write_line(fmt::format("{} sequences of {} steps held, seeds {} to {}{}\n", ran,
                         steps_of_a_sequence, plan.seed, plan.seed + ran - 1,
                         ran < plan.count ? " (the time was up)" : ""));
  return 0;
}

int start_sequences(const SequencePlan& plan, const DriverChoice& driver) {
  const int limit_s = static_cast<int>(plan.budget_s) + grace_s;
  const auto started = harness::run_child(child_of(driver, child_arguments(plan), limit_s));
  if (!started) {
    fmt::print(stderr, "assay-conformance: {}\n", describe(started.error()));
    return 1;
  }
  const harness::ChildResult& child = started.value();
  const std::string& said = child.standard_output;
  const bool ended = child.end == harness::ChildResult::End::exited &&
                     (child.code == 0 || child.code == 1 || child.code == 77);
  if (ended) {
    const auto told = child.code == 1 ? said.find("FAIL") : said.rfind('\n', said.size() - 2);
    fmt::print("{}", told == std::string::npos ? said : said.substr(told + (child.code == 0)));
    fmt::print(stderr, "{}", surprising(child.standard_error));
    return child.code;
  }
  const std::string seed = last_seed(said);
  fmt::print("FAIL seed {}: {}\n{}", seed, child.describe(), child.standard_error);
  if (plan.count == 1 || seed.empty()) {
    fmt::print("{}", said);
  } else {  // once more alone, so that its steps are told as they are taken
    SequencePlan alone = plan;
    alone.count = 1;
    alone.seed = std::strtoull(seed.c_str(), nullptr, 10);
    const auto replay = harness::run_child(child_of(driver, child_arguments(alone), limit_s));
    if (replay)
      fmt::print("alone: {}\n{}", replay.value().describe(), replay.value().standard_output);
  }
  fmt::print("again: assay-conformance --sequences 1 --seed {}\n", seed);
  return 1;
}

}  // namespace assay::conformance
