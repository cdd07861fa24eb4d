// BytesWorld: sharing, cutting and joining.
#include "bytes_world.hpp"

namespace assay::properties {

void BytesWorld::share(const BytesCommand& command) {
  ModelValue& model = model_.slots[a_of(command)];
  Bytes& value = values_[a_of(command)];
  judge(
      copies(0), [&] { return ops_.share(value); },
      [&](auto&) {
        if (!model.shared()) model.group = model_.new_group();
        normalise(value, model);
      });
}

void BytesWorld::clone(const BytesCommand& command) {
  const std::size_t slot = a_of(command);
  const std::size_t other = b_of(command);
  if (slot == other) return;
  const ModelValue& model = model_.slots[slot];
  judge(
      copies(model.shared() ? 0 : model.len()), [&] { return ops_.clone(values_[slot]); },
      [&](auto& made) {
        ModelValue copy = model;
        if (!model.shared()) model_.move_out(copy, false);
        put(other, std::move(made).value(), std::move(copy));
      });
}

void BytesWorld::view(const BytesCommand& command) {
  const std::size_t slot = a_of(command);
  const std::size_t other = b_of(command);
  if (slot == other) return;
  const ModelValue& model = model_.slots[slot];
  const std::size_t len = model.len();
  const std::size_t start = limited(command.x, len);
  const std::size_t end = start + limited(command.y, len - start + 1);  // one too far at most
  const bool refused = values_[slot].is_exclusive();
  const ErrorCode code = end > len ? ErrorCode::out_of_range
                         : refused ? ErrorCode::not_supported
                                   : ErrorCode::none;
  judge(
      fails(code), [&] { return ops_.view(values_[slot], start, end); },
      [&](auto& made) {
        ModelValue window = model;
        const auto first = model.content.begin() + static_cast<std::ptrdiff_t>(start);
        window.content = {first, first + static_cast<std::ptrdiff_t>(end - start)};
        if (!model_.unread(model)) {
          window.start += start;
        } else if (end - start < len && end != start) {
          model_.narrow(window, start, end - start, false);
        }
        put(other, std::move(made).value(), std::move(window));
      });
}

void BytesWorld::split(const BytesCommand& command) {
  const std::size_t slot = a_of(command);
  if (slot == b_of(command)) return;
  const ModelValue& model = model_.slots[slot];
  const std::size_t offset = limited(command.x, model.len() + 1);
  const bool forked =
      command.flag && model_.forks(model) && !model_.unread(model) && offset <= model.len();
  const Prediction predicted = offset > model.len() ? fails(ErrorCode::out_of_range)
                               : forked             ? brings(model, model.len())
                                                    : copies(0);
  judge(
      predicted,
      [&] {
        return ops_.split(values_[slot], offset,
                          command.flag ? SplitPolicy::owned : SplitPolicy::shared);
      },
      [&](auto& made) { split_model(command, offset, std::move(made).value(), forked); });
}

void BytesWorld::split_model(const BytesCommand& command, std::size_t offset, Bytes right,
                             bool forked) {
  ModelValue& left = model_.slots[a_of(command)];
  const bool unread = model_.unread(left);
  if (command.flag && !unread) {
    if (forked) model_.move_out(left, false);
    model_.steal(left);
  }
  ModelValue rest = left;
  const auto middle = left.content.begin() + static_cast<std::ptrdiff_t>(offset);
  rest.content = {middle, left.content.end()};
  const bool both = offset != 0 && !rest.content.empty();
  if (!unread) {
    rest.start += offset;
  } else if (both) {
    model_.narrow(rest, offset, rest.len(), false);
    model_.narrow(left, 0, offset, model_.sharers(left) == 1);
  }
  left.content.resize(offset);
  // An empty part of a shared value keeps nothing; nor does one without room.
  if (!right.has_block()) rest.root = 0;
  normalise(values_[a_of(command)], left);
  put(b_of(command), std::move(right), std::move(rest));
}

ErrorCode BytesWorld::outcome_of_join(std::size_t a, std::size_t b) {
  const ModelValue& left = model_.slots[a];
  const ModelValue& right = model_.slots[b];
  if (left.content.empty() || right.content.empty()) return ErrorCode::none;
  if (model_.unread(left) && model_.unread(right)) {
    const ModelRoot& l = model_.root(left);
    const ModelRoot& r = model_.root(right);
    const bool adjacent = l.origin == r.origin && l.origin_start + left.len() == r.origin_start;
    return adjacent ? ErrorCode::none : ErrorCode::not_adjacent;
  }
  if (model_.unread(left) || model_.unread(right) || left.root != right.root ||
      left.start + left.len() != right.start) {
    return ErrorCode::not_adjacent;
  }
  if (left.group == right.group && left.shared()) return ErrorCode::none;
  const bool sole = !model_.forks(left) && !model_.forks(right);
  return sole ? ErrorCode::none : ErrorCode::not_unique;
}

void BytesWorld::join(const BytesCommand& command) {
  const std::size_t a = a_of(command);
  const std::size_t b = b_of(command);
  if (a == b) return;
  judge(
      fails(outcome_of_join(a, b)), [&] { return ops_.join(values_[a], values_[b]); },
      [&](auto&) {
        expect(values_[b].is_empty(), "join left something behind");
        join_model(a, b);
      });
}

void BytesWorld::join_model(std::size_t a, std::size_t b) {
  ModelValue& left = model_.slots[a];
  ModelValue& right = model_.slots[b];
  if (right.content.empty()) {
    // The spare room that follows joins room; room alone goes to a value without a block.
    if (left.root == 0) left = right;
  } else if (left.content.empty()) {
    // The room before it goes, with or without a block.
    left = right;
  } else {
    if (model_.unread(left)) {
      model_.narrow(left, 0, left.len() + right.len(), model_.sharers(left) == 1);
    } else if (left.group != right.group) {
      left.group = 0;
    }
    left.content.insert(left.content.end(), right.content.begin(), right.content.end());
  }
  right = {};
  normalise(values_[a], left);
}

void BytesWorld::truncate(const BytesCommand& command) {
  ModelValue& model = model_.slots[a_of(command)];
  Bytes& value = values_[a_of(command)];
  const std::size_t size = limited(command.x, model.len());
  const std::uint64_t left = injections_left();
  judge(
      copies(0),
      [&] {
        ops_.truncate(value, size);
        return Result<void>();
      },
      [&](auto&) {
        const bool no_node = injections_left() < left;  // then a later read fills the old unit
        if (model_.unread(model) && size != 0 && size != model.len() && !no_node) {
          model_.narrow(model, 0, size, model_.sharers(model) == 1);
        }
        model.content.resize(size);
        normalise(value, model);
      });
}

}  // namespace assay::properties
