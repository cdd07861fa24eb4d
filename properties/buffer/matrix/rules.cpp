#include "rules.hpp"

#include <algorithm>

#include "world.hpp"

namespace assay::matrix {

Value with_block_of_its_own(Value value) {
  value.resident = true;
  value.exclusive = value.alone = true;
  value.immutable = value.watched = value.vector = false;
  value.property = value.home_property;
  value.align = value.fork_align;
  value.address_align = std::max<std::size_t>(value.fork_align, 16);
  value.retained = value.footprint;
  value.device_block = 0;
  return value;
}

namespace {

/// What an operation needs of a value, before any fault is thought of.
struct Need {
  ErrorCode refusal = ErrorCode::none;  ///< for what the value is
  bool block = false;                   ///< memory of the home
  unsigned nodes = 0;
  bool can_do_without = false;  ///< of its nodes
  std::size_t look = 0;         ///< bytes that it must look at: read, if they are not resident
  std::size_t copies = 0;       ///< bytes that it copies, of those that are resident
  std::size_t adds = 0;         ///< bytes that it copies from elsewhere
  Value after{};
};

using Rule = Need (*)(const Value& value, Policy policy);

// --- what becomes of a value

Value resident(Value value) {
  if (value.resident) return value;
  value.resident = true;
  value.property = value.home_property;
  value.retained = value.footprint + value.device_block;
  return value;
}

Value taken_over(Value value) {  // D3, D16: the mirror's source goes
  value.exclusive = true;
  value.retained -= value.device_block;
  value.device_block = 0;
  return value;
}

// --- the rules

/// Facts and printing: no copy, no read, no memory (bytes:W-05).
Need nothing(const Value& value, Policy) {
  return {.after = value};
}

/// read, equals, hash: look at every byte, once; would_copy if that is a copy and forbidden.
Need look(const Value& value, Policy policy) {
  if (!value.resident && policy == Policy::no_copy) return {.refusal = ErrorCode::would_copy};
  return {.block = !value.resident, .look = value.len, .after = resident(value)};
}

/// copy_into: one range, straight from where it is; the value stays as it is.
Need pieces(const Value& value, Policy) {
  const std::size_t size = std::min(value.len, copied_size);
  return {.look = size, .copies = size, .after = value};
}

/// serialise: all of it, in one copy or one read; the value stays as it is.
Need encode(const Value& value, Policy) {
  return {.look = value.len, .copies = value.len, .after = value};
}

/// A block of its own, filled by a copy or straight from the source.
Need fork(const Value& value) {
  const bool any = value.len != 0;
  return {.block = any,
          .nodes = any ? 1U : 0U,
          .look = value.len,
          .copies = value.len,
          .after = with_block_of_its_own(value)};
}

/// write: in place, taken over, or forked (D7).
Need write(const Value& value, Policy policy) {
  if (value.len == 0 || value.exclusive) return {.after = value};
  if (value.can_be_taken_over()) return {.after = taken_over(value)};
  if (policy == Policy::no_copy) return {.refusal = ErrorCode::would_copy};
  return fork(value);
}

/// Growth past every block: moves, and copies what was there (D8: or changes nothing).
Need grow(const Value& value, std::size_t added, std::size_t copied) {
  Need need = fork(value);
  need.block = true;
  need.nodes = 1;
  need.adds = copied;
  need.after.len += added;
  need.after.retained = whatever;
  return need;
}

/// clone: another handle of a shared value, a deep copy of an exclusive one.
Need clone(const Value& value, Policy) {
  Need need = value.exclusive ? fork(value) : Need{};
  need.after = value;
  need.after.alone = value.exclusive;
  return need;
}

/// view: of shared values alone; without a read of any byte (D26).
Need view(const Value& value, Policy) {
  if (value.exclusive) return {.refusal = ErrorCode::not_supported};
  Need need{.nodes = value.resident ? 0U : 2U, .after = value};
  need.after.alone = value.alone && !value.resident;  // a window of its own unit leaves it alone
  return need;
}

Need cut(const Value& value, bool owned) {
  Need need{.after = value};
  if (value.len == 0) return need;
  if (!value.resident) {  // D12: each half reads its own
    need.nodes = value.alone ? 2 : 4;
    need.after.alone = true;
  } else if (owned && !value.can_be_taken_over()) {  // D10: one copy, halved
    need = fork(value);
  } else if (owned && !value.exclusive) {
    need.after = taken_over(value);
  } else {
    need.after.alone = value.exclusive;
  }
  need.after.len = split_at;
  need.after.vector = false;
  return need;
}

Need truncate(const Value& value, Policy) {  // D15: never fails
  Need need{.after = value};
  if (value.len == 0) return need;
  need.after.len = truncated_to;
  if (!value.resident && !value.alone) {
    need.nodes = 2;
    need.can_do_without = true;
    need.after.alone = true;  // in a narrower unit of its own
  }
  return need;
}

/// compact: a block of its own length, unless it keeps no larger one alive.
Need compact(const Value& value, Policy) {
  if (value.len == 0) return {.after = value};
  if (value.resident && value.alone && value.retained - value.device_block <= value.footprint) {
    Need need{.after = value};
    need.after.retained -= value.device_block;
    need.after.device_block = 0;
    return need;
  }
  if (value.retained <= value.footprint) return {.after = value};
  Need need = fork(value);
  need.after.exclusive = value.exclusive;
  return need;
}

Value emptied(Value value) {
  return {.align = value.fork_align,
          .home_property = value.home_property,
          .fork_align = value.fork_align};
}

Need try_into_vec(const Value& value, Policy) {  // D18
  if (value.len == 0) return {.after = value};
  if (!value.resident) return {.refusal = ErrorCode::not_resident};
  if (!value.vector) return {.refusal = ErrorCode::not_supported};
  return {.after = emptied(value)};
}

Need try_into_owned(const Value& value, Policy) {  // D18
  if (value.len == 0) return {.after = value};
  if (!value.resident) return {.refusal = ErrorCode::not_resident};
  if (value.immutable) return {.refusal = ErrorCode::not_supported};
  if (!value.can_be_taken_over()) return {.refusal = ErrorCode::not_unique};
  if (value.address_align < alignof(std::uint32_t)) {
    return {.refusal = ErrorCode::invalid_alignment};
  }
  return {.after = emptied(value)};
}

Need share(const Value& value, Policy) {
  Need need{.after = value};
  need.after.exclusive = false;
  return need;
}

Rule rule_of(Operation operation) {
  switch (operation) {
    case Operation::make:  // expect_made
    case Operation::len:
    case Operation::capacity:
    case Operation::is_empty:
    case Operation::align:
    case Operation::property:
    case Operation::retained_bytes:
    case Operation::print:
    case Operation::extend_0:  // bytes:W-07
    case Operation::join:      // D17: the parts of one value join again for nothing
      return nothing;
    case Operation::read:
    case Operation::equal:
    case Operation::hash: return look;
    case Operation::copy_out: return pieces;
    case Operation::serialise: return encode;
    case Operation::write: return write;
    case Operation::view: return view;
    case Operation::split_shared:
      return [](const Value& value, Policy) { return cut(value, false); };
    case Operation::split_owned: return [](const Value& value, Policy) { return cut(value, true); };
    case Operation::share: return share;
    case Operation::clone: return clone;
    case Operation::extend_fits:  // there is room: only the new bytes are touched
      return [](const Value& value, Policy) {
        Need need{.adds = fitting, .after = value};
        need.after.len += fitting;
        return need;
      };
    case Operation::extend_grows:
      return [](const Value& value, Policy) { return grow(value, growing, growing); };
    case Operation::resize:
      return [](const Value& value, Policy) { return grow(value, growing, 0); };
    case Operation::reserve: return [](const Value& value, Policy) { return grow(value, 0, 0); };
    case Operation::truncate: return truncate;
    case Operation::compact: return compact;
    case Operation::try_into_vec: return try_into_vec;
    case Operation::try_into_owned: return try_into_owned;
  }
  return nothing;
}

bool misses_a_node(Fault fault, unsigned nodes) {
  return (fault == Fault::out_of_nodes && nodes >= 1) ||
         (fault == Fault::out_of_second_node && nodes >= 2);
}

ErrorCode read_error(Subject subject) {
  switch (subject) {
    case Subject::device_lazy: return ErrorCode::driver_error;
    case Subject::watched_source: return ErrorCode::read_failed;
    default: return ErrorCode::source_changed;
  }
}

/// Making: memory of the home for values that have some, nodes for all; nothing is read. Files are
/// opened and checked at once.
Expected expect_made(const Cell& cell, const Value& fresh) {
  const bool copies = !has_failing_source(cell.subject) && !is_file(cell.subject) &&
                      cell.subject != Subject::external_aligned &&
                      cell.subject != Subject::external_odd &&
                      cell.subject != Subject::adopted_vector;
  const bool of_a_parent =
      cell.subject == Subject::shared_odd_window || cell.subject == Subject::nested_shared;
  Expected expected{.copied = !copies       ? 0
                              : of_a_parent ? parent_len
                                            : value_len,
                    .block = copies,
                    .nodes = copies && cell.subject != Subject::nested_shared ? 1U : 2U,
                    .after = fresh};
  if (cell.fault == Fault::missing) expected.error = ErrorCode::io;
  if (cell.fault == Fault::too_short) expected.error = ErrorCode::out_of_range;
  if (misses_a_node(cell.fault, expected.nodes)) expected.error = ErrorCode::out_of_memory;
  if (cell.fault == Fault::out_of_memory && copies) expected.error = ErrorCode::out_of_memory;
  return expected;
}

/// An exclusive block of its own at the world's home.
Value native_value(const World& world) {
  const std::size_t alignment = world.home().alignment();
  const std::size_t footprint =
      world.home().backing().footprint({.size = value_len, .alignment = alignment});
  return {.len = value_len,
          .exclusive = true,
          .alone = true,
          .align = alignment,
          .retained = footprint,
          .fork_align = alignment,
          .footprint = footprint};
}

}  // namespace

Expected expect(const Cell& cell, const Value& before) {
  if (cell.operation == Operation::make) return expect_made(cell, before);
  const Need need = rule_of(cell.operation)(before, cell.policy);
  Expected expected{.copied = (before.resident ? need.copies : 0) + need.adds,
                    .block = need.block,
                    .nodes = need.nodes,
                    .after = need.after};
  const auto fails = [&](ErrorCode code) {
    expected.error = code;
    expected.after = before;
    return expected;
  };
  if (need.refusal != ErrorCode::none) return fails(need.refusal);
  if (misses_a_node(cell.fault, need.nodes)) {
    if (!need.can_do_without) return fails(ErrorCode::out_of_memory);
    expected.after.alone = before.alone;
  }
  if (cell.fault == Fault::out_of_memory && need.block) return fails(ErrorCode::out_of_memory);
  if (need.look == 0) return expected;
  const bool gone = cell.fault == Fault::truncated || cell.fault == Fault::source_error;
  if (!before.resident) {
    expected.reads = {1, gone ? 0 : need.look};
    if (gone) return fails(read_error(cell.subject));
  }
  if (before.watched && gone) return fails(ErrorCode::source_changed);
  return expected;
}

// --- the values to begin with

Value fresh_value(const World& world) {
  const Subject subject = world.subject();
  Value value = native_value(world);
  const std::size_t parent_footprint = world.home().backing().footprint({.size = parent_len});
  const auto shares = [&](std::size_t retained, bool alone) {
    value.exclusive = false;
    value.alone = alone;
    value.retained = retained;
  };
  const auto lives_at = [&](std::size_t align, AllocationProperty property) {
    value.align = value.address_align = align;
    value.property = property;
  };
  switch (subject) {
    case Subject::shared_sole:
    case Subject::shared_whole: shares(value.footprint, subject == Subject::shared_sole); break;
    case Subject::shared_odd_window:
      shares(parent_footprint, false);
      lives_at(1, AllocationProperty::native);
      break;
    case Subject::nested_shared:
      shares(parent_footprint, false);
      lives_at(8, AllocationProperty::native);
      break;
    case Subject::external_aligned:
      shares(value_len, true);
      lives_at(64, AllocationProperty::native);
      value.immutable = true;
      break;
    case Subject::external_odd:
      value.retained = value_len;
      lives_at(1, AllocationProperty::other);
      break;
    case Subject::adopted_vector:
      value.retained = value_len;
      value.vector = true;
      break;
    case Subject::mapped_file:
      shares(value_len, true);
      lives_at(file_offset & (~file_offset + 1), AllocationProperty::file);
      value.immutable = value.watched = true;
      break;
    case Subject::file:
    case Subject::file_view:
    case Subject::watched_source:
      shares(0, subject != Subject::watched_source);
      lives_at(16, AllocationProperty::file);
      value.resident = false;
      break;
    case Subject::device_lazy:
      value.device_block = world.machine().device->footprint({.size = value_len});
      shares(value.device_block, true);
      lives_at(16, AllocationProperty::device);
      value.resident = false;
      break;
    case Subject::pinned:
    case Subject::managed: value.property = value.home_property = AllocationProperty::pinned; break;
    default: break;
  }
  return value;
}

Value value_in(State state, const World& world) {
  const Value fresh = fresh_value(world);
  switch (state) {
    case State::fresh:
    case State::failed_once: return fresh;
    case State::read: return resident(fresh);
    case State::written: return write(fresh, Policy::allow_copy).after;
    case State::moved_from: return {};
  }
  return fresh;
}

}  // namespace assay::matrix
