#include "stream_gate.hpp"

namespace assay::cuda::model {

bool agrees(std::uint32_t word, std::uint32_t value, unsigned comparison) noexcept {
  switch (comparison) {
    case wait_value_geq: return static_cast<std::int32_t>(word - value) >= 0;  // cyclic [hdr]
    case wait_value_eq: return word == value;
    case wait_value_and: return (word & value) != 0;
    default: return ~(word | value) != 0;
  }
}

bool read_word(const Operand& word, std::uint32_t& value) noexcept {
  if (find_allocation(word.range.address) != word.allocation) return false;
  if (word.allocation->kind == Kind::registered &&
      !is_mapped(word.range.address, word.range.size)) {
    return false;
  }
  const std::byte* at = alias_of(*word.allocation, word.range.address);
  value = __atomic_load_n(reinterpret_cast<const std::uint32_t*>(at), __ATOMIC_ACQUIRE);
  return true;
}

Operation make_wait_value(const Operand& word, std::uint32_t value, unsigned comparison,
                          Running running) {
  Operation operation;
  operation.name = running.site.function;
  operation.site = running.site;
  operation.reads = {word.range};
  operation.gate = word.range;
  // A word that is gone opens the gate, so that the fault comes out instead of a hang.
  operation.ready = [=] {
    std::uint32_t now = 0;
    return !read_word(word, now) || agrees(now, value, comparison);
  };
  operation.run = [=]() mutable {
    static_cast<void>(use(word, Access::read, running));
    return running.fault;
  };
  return operation;
}

Operation make_write_value(const Operand& word, std::uint32_t value, Running running) {
  Operation operation;
  operation.name = running.site.function;
  operation.site = running.site;
  operation.writes = {word.range};
  operation.run = [=]() mutable {
    std::byte* at = use(word, Access::write, running);
    if (at != nullptr) {
      __atomic_store_n(reinterpret_cast<std::uint32_t*>(at), value, __ATOMIC_RELEASE);
    }
    return running.fault;
  };
  return operation;
}

}  // namespace assay::cuda::model
