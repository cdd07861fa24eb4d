#include "assay/harness/verify_result.hpp"

#include <array>

namespace assay::harness {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 6> outcome_names = {"pass",    "fail",    "n/a",
                                                           "skipped", "crashed", "timed_out"};

Json subject_json(const VerifySubject& subject) {
  return {{"id", subject.id},
          {"origin", name_of(subject.origin)},
          {"kind", subject.process ? "process" : "in_process"},
          {"status", subject.ran ? "ran" : "skipped"},
          {"reason", subject.reason},
          {"provider", subject.provider},
          {"package", subject.package}};
}

Json cell_json(const VerifyCell& cell) {
  return {{"subject", cell.subject},
          {"property", cell.property},
          {"outcome", name_of(cell.outcome)},
          {"detail", cell.detail},
          {"cases", cell.cases},
          {"seed", cell.seed},
          {"commands", cell.commands},
          {"trace", cell.trace ? Json(*cell.trace) : Json()},
          {"reproduced", cell.reproduced ? Json(*cell.reproduced) : Json()},
          {"explanation", cell.explanation},
          {"elapsed_ms", cell.elapsed_ms}};
}

}  // namespace

std::string_view name_of(CellOutcome outcome) noexcept {
  return outcome_names[static_cast<std::size_t>(outcome)];
}

std::optional<CellOutcome> cell_outcome_of(std::string_view name) noexcept {
  for (std::size_t i = 0; i < outcome_names.size(); ++i) {
    if (outcome_names[i] == name) return static_cast<CellOutcome>(i);
  }
  return std::nullopt;
}

Json to_json(const VerifyResult& result) {
  Json json = {{"schema", "assay.verify/1"}, {"context", result.context},
               {"seed", result.seed},        {"elapsed_s", result.elapsed_s},
               {"subjects", Json::array()},  {"properties", Json::array()},
               {"cells", Json::array()},     {"mutants", Json::array()}};
  for (const auto& subject : result.subjects) json["subjects"].push_back(subject_json(subject));
  for (const auto& property : result.properties) {
    json["properties"].push_back({{"id", property.id}, {"goal", property.goal}});
  }
  for (const auto& cell : result.cells) json["cells"].push_back(cell_json(cell));
  for (const auto& mutant : result.mutants) {
    json["mutants"].push_back({{"id", mutant.id},
                               {"property", mutant.property},
                               {"killed", mutant.killed},
                               {"detail", mutant.detail}});
  }
  return json;
}

}  // namespace assay::harness
