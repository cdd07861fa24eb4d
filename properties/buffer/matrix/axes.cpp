#include "axes.hpp"

namespace assay::matrix {
namespace {

template <class Names, class Value>
const char* in(const Names& names, Value value) noexcept {
  return names[static_cast<std::size_t>(value)];
}

bool is_fault_of_a_file(Fault fault) noexcept {
  return fault == Fault::missing || fault == Fault::too_short || fault == Fault::replaced ||
         fault == Fault::truncated;
}

}  // namespace

std::string name_of(const Cell& cell) {
  std::string name = in(subject_names, cell.subject);
  for (const char* const part : {in(state_names, cell.state), in(operation_names, cell.operation),
                                 in(policy_names, cell.policy), in(fault_names, cell.fault)}) {
    name += '/';
    name += part;
  }
  return name;
}

const char* not_applicable(const Cell& cell) noexcept {
  const bool takes_policy = cell.operation == Operation::read || cell.operation == Operation::write;
  if (cell.policy == Policy::no_copy && !takes_policy) return "the operation takes no policy";
  if (cell.operation == Operation::make && cell.state != State::fresh) {
    return "a value is made once, and fresh";
  }
  if (is_fault_of_a_file(cell.fault) && !is_file(cell.subject)) return "no file behind the value";
  if (cell.fault == Fault::source_error && !has_failing_source(cell.subject)) {
    return is_file(cell.subject) ? "a sound disk reads without error"
                                 : "no source that could fail to read";
  }
  if (cell.fault == Fault::too_short && cell.operation != Operation::make) {
    return "a region is checked when it is opened; shorter later is truncated";
  }
  if (cell.fault == Fault::truncated && cell.operation == Operation::make) {
    return "truncated before it is opened is too short";
  }
  if (cell.state == State::moved_from) {
    if (cell.fault == Fault::source_error || is_fault_of_a_file(cell.fault)) {
      return "a moved-from value has no source";
    }
    if (cell.fault == Fault::out_of_memory) {
      return "a moved-from value is at home on the host, which always has memory here";
    }
  }
  return nullptr;
}

}  // namespace assay::matrix
