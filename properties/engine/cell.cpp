#include "cell.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "assay/harness/driver_facts.hpp"
#include "assay/harness/shrink.hpp"
#include "generators.hpp"

namespace assay::properties {
namespace {

using harness::CellOutcome;
using harness::ChildServer;
using harness::Subject;
using harness::VerifyCell;
using std::chrono::milliseconds;

constexpr milliseconds shrinking_stall{150};
constexpr milliseconds shrinking_stall_with_driver{4000};  // a case makes a context first
constexpr milliseconds shrinking_time_max{5000};
constexpr milliseconds shrinking_time_max_of_hang{2000};  // each candidate that hangs costs a stall
constexpr auto shrinking_time_min = milliseconds(500);    // even when the cell's time is up
constexpr std::size_t shrinking_runs_max = 1500;

/// SplitMix64: neighbouring inputs give unrelated outputs.
std::uint64_t mixed(std::uint64_t value) noexcept {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

std::uint64_t hash_of(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char letter : text) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  }
  return hash;
}

/// A failing case on its way to be reported.
struct Found {
  Case which;
  CaseRun run;
  Judgement judgement;
  std::uint64_t seed = 0;
};

/// Shrinks the commands; the result failed in the same way, in a run of its own.
void shrink_case(const Property& property, ChildServer& server, Found& found,
                 const CellPlan& plan) {
  const milliseconds short_stall =
      server.facts().driver != 0 ? shrinking_stall_with_driver : shrinking_stall;
  const CellOutcome wanted = found.judgement.outcome;
  // What fails in a command must go on failing in one, not in the drain behind it: the last line of
  // the list then names the culprit.
  const bool in_command = found.judgement.step < found.which.commands.size();
  const auto now = Clock::now();
  const auto longest =
      wanted == CellOutcome::timed_out ? shrinking_time_max_of_hang : shrinking_time_max;
  const auto give_up = std::clamp(plan.deadline, now + shrinking_time_min, now + longest);
  const auto try_case = [&](const Commands& commands, milliseconds stall) {
    const Case candidate{found.which.settings, commands};
    CaseRun run = server.run(candidate, stall);
    Judgement judgement = judge(property, candidate, run);
    return std::pair(std::move(run), std::move(judgement));
  };
  const harness::StillFails still_fails =
      [&](const Commands& commands) -> std::optional<std::uint32_t> {
    const auto [run, judgement] = try_case(commands, short_stall);
    if (judgement.outcome != wanted) return std::nullopt;
    if (in_command && judgement.step >= commands.size()) return std::nullopt;
    return judgement.step;
  };
  const auto shrunk = harness::shrink(
      found.which.commands, found.judgement.step, still_fails,
      {.runs_max = shrinking_runs_max, .out_of_time = [&] { return Clock::now() > give_up; }});
  // Confirmed once with the full patience: a short stall may have been a busy machine.
  auto [run, judgement] = try_case(shrunk.commands, plan.stall);
  if (judgement.outcome != wanted) return;
  found.which.commands = shrunk.commands;
  found.run = std::move(run);
  found.judgement = std::move(judgement);
}

std::string write_trace(const Counterexample& counterexample, const std::string& folder,
                        std::string& problem) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string path = fmt::format("{}/{}-{}-{:016x}.trace", folder, counterexample.subject,
                                       counterexample.property, counterexample.seed);
  const auto written = harness::write_atomically(path, harness::to_text(to_trace(counterexample)));
  if (!written) problem = written.error().describe();
  return written ? path : std::string();
}

void report(const Subject& subject, const Property& property, const Found& found,
            const CellPlan& plan, VerifyCell& cell) {
  cell.outcome = found.judgement.outcome;
  cell.detail = found.judgement.detail;
  cell.seed = found.seed;
  cell.commands = command_lines(found.which, found.run.outcomes);
  const auto again = rerun(subject, property, found.which, plan.stall);
  cell.reproduced = again && again.value().first.outcome == found.judgement.outcome;
  if (!*cell.reproduced) cell.detail = "flaky: " + cell.detail;
  if (!plan.trace_folder.empty()) {
    std::string problem;
    const std::string path = write_trace(
        {std::string(subject.id), std::string(property.id), found.seed, found.judgement.outcome,
         found.judgement.detail, found.which, found.run.outcomes},
        plan.trace_folder, problem);
    if (!path.empty()) cell.trace = path;
    if (!problem.empty()) cell.detail += "; its trace could not be written: " + problem;
  }
}

Case make_case(const Property& property, const ChildFacts& facts, std::uint32_t index,
               Commands commands) {
  Case which{{}, std::move(commands)};
  if (property.prepare != nullptr) property.prepare(facts, index, which);
  return which;
}

/// Runs cases until one is bad; counts them in the cell.
std::optional<Found> first_bad_case(const Property& property, ChildServer& server,
                                    CaseSource& source, const CellPlan& plan, VerifyCell& cell) {
  for (std::uint32_t index = 0; index < plan.cases; ++index) {
    if (index > 0 && Clock::now() >= plan.deadline) {
      cell.cut_short = true;
      break;
    }
    Found found;
    found.which = make_case(property, server.facts(), index, source.commands(index));
    found.run = server.run(found.which, plan.stall);
    found.judgement = judge(property, found.which, found.run);
    found.seed = source.seed_of(index);
    ++cell.cases;
    if (harness::is_bad(found.judgement.outcome)) return found;
  }
  return std::nullopt;
}

}  // namespace

CaseSource::CaseSource(const Property& property, std::uint64_t seed)
    : property_(property), seed_(seed) {
  if (property.examples != nullptr) examples_ = property.examples();
}

std::uint64_t CaseSource::seed_of(std::uint32_t index) const noexcept {
  return mixed(mixed(seed_ ^ hash_of(property_.id)) + index);
}

Commands CaseSource::commands(std::uint32_t index) {
  if (index < examples_.size()) return examples_[index];
  const std::lock_guard lock(mutex_);
  const std::size_t at = index - examples_.size();
  while (made_.size() <= at) {
    const auto next = static_cast<std::uint32_t>(examples_.size() + made_.size());
    made_.push_back(generate(property_, seed_of(next)));
  }
  return made_[at];
}

Judgement judge(const Property& property, const Case& which, const CaseRun& run) {
  // A violation says more than the crash that it led to.
  if (const auto violation = property.judge(which, run)) {
    return {CellOutcome::fail, violation->what, violation->step};
  }
  const auto past_last = static_cast<std::uint32_t>(which.commands.size());
  const std::uint32_t step = std::min(run.step, past_last);
  switch (run.end) {
    case CaseRun::End::finished: return {};
    case CaseRun::End::hung: return {CellOutcome::timed_out, describe_end(run), step};
    case CaseRun::End::unmade: return {CellOutcome::skipped, describe_end(run), step};
    case CaseRun::End::crashed:
    case CaseRun::End::server_lost: break;
  }
  return {CellOutcome::crashed, describe_end(run), step};
}

std::string why_not_here(const Subject& subject, const ChildFacts& facts) {
  if (subject.origin == harness::Origin::foreign && harness::built_with_sanitizers()) {
    return "foreign libraries run in uninstrumented builds only";
  }
  const auto failure = static_cast<ErrorCode>(facts.make_error);
  if (subject.needs_driver && failure != ErrorCode::none) {
    if (std::string why = harness::why_no_driver(failure); !why.empty()) return why;
  }
  if (facts.why_unmade[0] != '\0') {
    return fmt::format("it cannot be made here: {}", facts.why_unmade);
  }
  if (facts.make_error != 0) {
    return fmt::format("it cannot be made here: {}",
                       name_of(static_cast<ErrorCode>(facts.make_error)));
  }
  if (facts.proven == 0) return fmt::format("install {}", subject.package);
  return "";
}

Result<std::pair<Judgement, CaseRun>> rerun(const Subject& subject, const Property& property,
                                            const Case& which, milliseconds stall) {
  ASSAY_TRY(const auto server, ChildServer::start(subject, stall * 5));
  if (!server->ready()) return Error::make(ErrorCode::io, "serve", "child server");
  if (!why_not_here(subject, server->facts()).empty()) {
    return Error::make(ErrorCode::not_supported, "run this subject here", "child server");
  }
  CaseRun run = server->run(which, stall);
  Judgement judgement = judge(property, which, run);
  return std::pair(std::move(judgement), std::move(run));
}

VerifyCell run_cell(const Subject& subject, const Property& property, ChildServer& server,
                    CaseSource& source, const CellPlan& plan) {
  const auto started = Clock::now();
  VerifyCell cell;
  cell.subject = subject.id;
  cell.property = property.id;
  cell.seed = plan.seed;
  const ChildFacts& facts = server.facts();
  const Capabilities has(facts.capabilities);
  std::string unfit = property.not_applicable == nullptr ? "" : property.not_applicable(facts);
  for (std::uint32_t i = 0; i < Capabilities::count && unfit.empty(); ++i) {
    const std::uint32_t bit = std::uint32_t{1} << i;
    if ((property.needs & bit) != 0 && !has.has(bit)) {
      unfit = fmt::format("it has no {}", capability_name(i));
    }
  }
  if (!unfit.empty()) {
    cell.outcome = CellOutcome::not_applicable;
    cell.detail = unfit;
    return cell;
  }
  cell.outcome = CellOutcome::pass;
  if (auto found = first_bad_case(property, server, source, plan, cell)) {
    shrink_case(property, server, *found, plan);
    report(subject, property, *found, plan, cell);
    cell.explanation = known_finding(subject.id, property.id);
  }
  cell.elapsed_ms = std::chrono::duration<double, std::milli>(Clock::now() - started).count();
  return cell;
}

}  // namespace assay::properties
