#include "scorecard.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace assay::properties {
namespace {

using harness::CellOutcome;
using harness::VerifyCell;
using harness::VerifyResult;

constexpr std::size_t commands_shown_max = 40;

std::string_view word_of(CellOutcome outcome) {
  switch (outcome) {
    case CellOutcome::fail: return "FAIL";
    case CellOutcome::timed_out: return "timed out";
    default: return harness::name_of(outcome);
  }
}

std::string table(const VerifyResult& result) {
  std::size_t first = 7;
  for (const auto& subject : result.subjects) first = std::max(first, subject.id.size());
  std::string text = fmt::format("{:<{}}", "subject", first);
  for (const auto& property : result.properties) text += "  " + property.id;
  text += "\n";
  std::size_t at = 0;
  for (const auto& subject : result.subjects) {
    text += fmt::format("{:<{}}", subject.id, first);
    for (const auto& property : result.properties) {
      const std::string_view word =
          at < result.cells.size() ? word_of(result.cells[at].outcome) : std::string_view();
      text += fmt::format("  {:<{}}", word, property.id.size());
      ++at;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  return text;
}

std::string failure(const VerifyCell& cell) {
  std::string text = fmt::format("\n{} {} {}: {}\n", word_of(cell.outcome), cell.subject,
                                 cell.property, cell.detail);
  text += fmt::format("  seed {}, case {}\n", cell.seed, cell.cases);
  for (std::size_t i = 0; i < cell.commands.size() && i < commands_shown_max; ++i) {
    text += "  " + cell.commands[i] + "\n";
  }
  if (cell.commands.size() > commands_shown_max) {
    text +=
        fmt::format("  ... and {} more in the trace\n", cell.commands.size() - commands_shown_max);
  }
  if (cell.reproduced) {
    text += *cell.reproduced ? "  failed again in a fresh process\n"
                             : "  did not fail again in a fresh process: flaky\n";
  }
  if (cell.trace) text += fmt::format("  again: assay-verify --reproduce {}\n", *cell.trace);
  if (!cell.explanation.empty()) text += fmt::format("  known: {}\n", cell.explanation);
  return text;
}

/// Why cells did not run, each reason once for each subject.
std::string reasons(const VerifyResult& result) {
  std::string text;
  std::string_view last_subject;
  std::string_view last_reason;
  for (const VerifyCell& cell : result.cells) {
    const bool quiet = cell.outcome == CellOutcome::pass || harness::is_bad(cell.outcome);
    if (quiet || (cell.subject == last_subject && cell.detail == last_reason)) continue;
    last_subject = cell.subject;
    last_reason = cell.detail;
    // A skipped subject has one reason for all its properties.
    const std::string what =
        cell.outcome == CellOutcome::skipped ? std::string() : " " + cell.property;
    text += fmt::format("{} {}{}: {}\n", word_of(cell.outcome), cell.subject, what, cell.detail);
  }
  return text.empty() ? text : "\n" + text;
}

std::string mutants(const VerifyResult& result) {
  if (result.mutants.empty()) return "";
  std::size_t width = 0;
  for (const auto& mutant : result.mutants) width = std::max(width, mutant.id.size());
  std::string text;
  std::size_t killed = 0;
  for (const auto& mutant : result.mutants) {
    killed += mutant.killed ? 1 : 0;
    text += fmt::format("{:<9} {:<{}}  {}: {}\n", mutant.killed ? "killed" : "SURVIVED", mutant.id,
                        width, mutant.property, mutant.detail);
  }
  return text + fmt::format("{} of {} mutants killed\n", killed, result.mutants.size());
}

std::string totals(const VerifyResult& result) {
  std::map<CellOutcome, std::size_t> counts;
  for (const VerifyCell& cell : result.cells) ++counts[cell.outcome];
  std::string text;
  for (const auto& [outcome, count] : counts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, word_of(outcome));
  }
  text = fmt::format("\n{} cells: {}; seed {}, {:.1f} s\n", result.cells.size(), text, result.seed,
                     result.elapsed_s);
  const auto cut = std::ranges::count_if(result.cells, &VerifyCell::cut_short);
  if (cut != 0) {
    text += fmt::format("{} cells ran fewer than the asked cases: time budget\n", cut);
  }
  return text;
}

}  // namespace

std::string scorecard(const VerifyResult& result) {
  std::string text;
  if (!result.subjects.empty()) text += table(result);
  for (const VerifyCell& cell : result.cells) {
    if (harness::is_bad(cell.outcome)) text += failure(cell);
  }
  text += reasons(result);
  if (!result.cells.empty()) text += totals(result);
  return text + mutants(result);
}

std::string progress_line(const VerifyCell& cell) {
  return fmt::format("{} {}: {} ({} cases, {:.0f} ms){}{}", cell.subject, cell.property,
                     word_of(cell.outcome), cell.cases, cell.elapsed_ms,
                     cell.detail.empty() ? "" : ": ", cell.detail);
}

}  // namespace assay::properties
