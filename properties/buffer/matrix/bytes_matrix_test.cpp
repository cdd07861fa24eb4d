// The conformance matrix of Bytes: every operation on every backing in every state, under both
// policies and every fault. The rules are in rules.cpp; what is counted here is printed, so that
// what the matrix covers can be read and cannot shrink unseen.
#include <fmt/format.h>

#include <map>

#include "operate.hpp"

namespace assay::matrix {
namespace {

struct Coverage {
  std::size_t run = 0;
  std::map<std::string, std::size_t> not_applicable;
  std::array<std::size_t, subject_names.size()> subjects{};
  std::array<std::size_t, state_names.size()> states{};
  std::array<std::size_t, operation_names.size()> operations{};
  std::array<std::size_t, policy_names.size()> policies{};
  std::array<std::size_t, fault_names.size()> faults{};

  void count(const Cell& cell) {
    ++run;
    ++subjects[static_cast<std::size_t>(cell.subject)];
    ++states[static_cast<std::size_t>(cell.state)];
    ++operations[static_cast<std::size_t>(cell.operation)];
    ++policies[static_cast<std::size_t>(cell.policy)];
    ++faults[static_cast<std::size_t>(cell.fault)];
  }
};

template <class Visit>
void for_every_cell(Visit visit) {
  for (std::size_t subject = 0; subject < subject_names.size(); ++subject) {
    for (std::size_t state = 0; state < state_names.size(); ++state) {
      for (std::size_t operation = 0; operation < operation_names.size(); ++operation) {
        for (std::size_t policy = 0; policy < policy_names.size(); ++policy) {
          for (std::size_t fault = 0; fault < fault_names.size(); ++fault) {
            visit(Cell{static_cast<Subject>(subject), static_cast<State>(state),
                       static_cast<Operation>(operation), static_cast<Policy>(policy),
                       static_cast<Fault>(fault)});
          }
        }
      }
    }
  }
}

/// Prints one axis; every value of it must have been run.
template <class Names, class Counts>
void tell(const char* axis, const Names& names, const Counts& counts) {
  fmt::print("{}:", axis);
  for (std::size_t i = 0; i < names.size(); ++i) {
    fmt::print(" {} {}{}", names[i], counts[i], i + 1 == names.size() ? "\n" : ",");
    EXPECT_GT(counts[i], 0u) << axis << ' ' << names[i] << " was never run";
  }
}

void tell(const Coverage& coverage) {
  std::size_t left_out = 0;
  for (const auto& [reason, count] : coverage.not_applicable) left_out += count;
  fmt::print("{} cells run, {} not applicable\n", coverage.run, left_out);
  for (const auto& [reason, count] : coverage.not_applicable) {
    fmt::print("  {:6} {}\n", count, reason);
  }
  tell("backing", subject_names, coverage.subjects);
  tell("state", state_names, coverage.states);
  tell("operation", operation_names, coverage.operations);
  tell("policy", policy_names, coverage.policies);
  tell("fault", fault_names, coverage.faults);
}

class BytesMatrix : public cuda::DriverBackings {
 protected:
  void SetUp() override {
    cuda::DriverBackings::SetUp();
    machine_ = {.model = &model(),
                .device = Device::make(context_).value(),
                .pinned = Pinned::make(context_).value(),
                .managed = Managed::make(context_).value()};
  }
  void TearDown() override {
    machine_ = {};
    cuda::DriverBackings::TearDown();
  }
  Machine machine_;
};

TEST_F(BytesMatrix, EveryCellIsAsTheRulesSay) {
  constexpr std::size_t shown_max = 60;
  Coverage coverage;
  std::size_t wrong = 0;
  for (std::size_t subject = 0; subject < subject_names.size(); ++subject) {
    // What the driver opens once for good is not to be counted.
    const Cell first{.subject = static_cast<Subject>(subject)};
    EXPECT_EQ(run(machine_, first), "") << name_of(first);
  }
  const std::size_t descriptors = test::open_descriptors();
  for_every_cell([&](const Cell& cell) {
    if (const char* const reason = not_applicable(cell); reason != nullptr) {
      ++coverage.not_applicable[reason];
      return;
    }
    coverage.count(cell);
    const std::string findings = run(machine_, cell);
    if (!findings.empty() && ++wrong <= shown_max)
      ADD_FAILURE() << name_of(cell) << ": " << findings;
  });
  EXPECT_EQ(wrong, 0u) << "of " << coverage.run << " cells";
  EXPECT_EQ(test::open_descriptors(), descriptors);
  tell(coverage);
  // What it was when it was last looked at, so that it cannot shrink by an oversight.
  EXPECT_GE(coverage.run, 12'800u);
  for (const std::size_t count : coverage.subjects) EXPECT_GE(count, 540u);
}

}  // namespace
}  // namespace assay::matrix
