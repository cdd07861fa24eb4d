#include "judge.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "graph.hpp"
#include "run.hpp"

namespace assay::ordering {

namespace {

std::string to_text(const Program& program, const Conflict& conflict) {
  return fmt::format("{} {} and {} {}", conflict.earlier,
                     ordering::to_text(program.commands[conflict.earlier]), conflict.later,
                     ordering::to_text(program.commands[conflict.later]));
}

bool is_call(const NamedCall& named, const Program& program, const Outcome& outcome,
             std::size_t command) {
  if (command >= outcome.calls.size()) return false;
  const auto [first, end] = outcome.calls[command];
  return named.number >= first && named.number < end &&
         named.function == function_of(program.commands[command].action);
}

bool names(const Diagnosis& diagnosis, const Program& program, const Outcome& outcome,
           const Conflict& conflict) {
  return diagnosis.calls.size() >= 2 &&
         is_call(diagnosis.calls.front(), program, outcome, conflict.later) &&
         is_call(diagnosis.calls.back(), program, outcome, conflict.earlier);
}

/// What is found when late work runs, not when it is enqueued.
bool is_late(const Diagnosis& diagnosis) {
  return diagnosis.rule == "access_after_free";
}

std::string find_disagreement(const Program& program, const Outcome& outcome,
                              const std::vector<Conflict>& possible,
                              const std::vector<Conflict>& certain) {
  for (const Diagnosis& diagnosis : outcome.diagnoses) {
    const bool right = std::any_of(possible.begin(), possible.end(), [&](const Conflict& each) {
      return is_late(diagnosis) || names(diagnosis, program, outcome, each);
    });
    if (!right) return "the model blamed, and no conflict is there: " + diagnosis.text;
  }
  for (const Conflict& conflict : certain) {
    if (conflict.later > outcome.answered) continue;  // the device had failed by then
    const bool told =
        std::any_of(outcome.diagnoses.begin(), outcome.diagnoses.end(), [&](const Diagnosis& each) {
          return !each.calls.empty() &&
                 is_call(each.calls.front(), program, outcome, conflict.later);
        });
    if (!told) return "the model missed the conflict of " + to_text(program, conflict);
  }
  if (possible.empty() && !outcome.failure.empty()) return outcome.failure;
  return outcome.left_alive;
}

}  // namespace

std::string judge_correct(const Ref<cuda::Driver>& driver, const Program& program,
                          Through through) {
  const Outcome outcome = run(driver, program, through);
  std::string fault = find_disagreement(program, outcome, {}, {});
  return fault.empty() ? outcome.wrong_content : fault;
}

Verdict judge(const Ref<cuda::Driver>& driver, const Program& program, Through through) {
  const Graph graph(program);
  const std::vector<Conflict> possible = conflicts_of(program, graph, Reading::sure);
  const std::vector<Conflict> certain = conflicts_of(program, graph, Reading::generous);
  const Outcome outcome = run(driver, program, through);
  Verdict verdict;
  verdict.needed = !certain.empty();
  verdict.found = verdict.needed && !outcome.diagnoses.empty();
  verdict.open = certain.empty() && !possible.empty();
  verdict.disagreement = find_disagreement(program, outcome, possible, certain);
  return verdict;
}

}  // namespace assay::ordering
