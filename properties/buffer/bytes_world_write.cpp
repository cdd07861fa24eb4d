// BytesWorld: writing and growth.
#include "bytes_world.hpp"

namespace assay::properties {

void BytesWorld::write(const BytesCommand& command) {
  ModelValue& model = model_.slots[a_of(command)];
  Bytes& value = values_[a_of(command)];
  const bool no_copy = command.operation == BytesOperation::write_no_copy;
  const bool forked = model_.forks(model);
  Prediction predicted;
  if (forked) predicted = no_copy ? fails(ErrorCode::would_copy) : brings(model, model.len());
  judge(
      predicted, [&] { return no_copy ? ops_.write_no_copy(value) : ops_.write(value); },
      [&](auto& made) {
        const std::span<std::byte> bytes = made.value();
        expect(bytes.size() == model.len(), "write gives another range");
        for (std::size_t i = limited(command.x, bytes.size()); i < bytes.size(); ++i) {
          bytes[i] = model.content[i] = static_cast<std::byte>(command.y % 255 + 1);
        }
        if (forked) model_.move_out(model, false);
        model_.steal(model);
        normalise(value, model);
      });
}

void BytesWorld::grow(const BytesCommand& command) {
  ModelValue& model = model_.slots[a_of(command)];
  Bytes& value = values_[a_of(command)];
  const bool self = command.operation == BytesOperation::extend_self;
  const bool extends = self || command.operation == BytesOperation::extend;
  const bool resizes = command.operation == BytesOperation::resize;
  const std::size_t len = model.len();
  const std::vector<std::byte> added = self      ? model.content
                                       : extends ? test::counting(command.x, command.y)
                                                 : std::vector<std::byte>();
  const std::size_t x = command.x;
  const std::size_t more = extends ? added.size() : resizes ? x - std::min(x, len) : x;
  if (len + more > 20'000 || (resizes && x < len)) return;  // truncate has its own command

  const bool in_room = value.is_exclusive() && len + more <= value.capacity();
  // Where an empty value without siblings starts again, and where its pages go, cannot be told.
  if (!in_room && len == 0 && model.start != 0 && backing().can(Capabilities::moves_pages)) return;
  const bool forked = more != 0 && model_.forks(model);
  const ModelRoot& root = model_.root(model);
  const bool pages_move = model.root != 0 && model_.users(model.root) == 1 && !forked &&
                          (root.place == Place::home || root.place == Place::lazy) &&
                          backing().can(Capabilities::moves_pages) &&
                          injection_.what != Injection::What::resize;
  Prediction predicted;
  if (forked) {
    predicted = brings(model, len);
  } else if (more != 0 && !in_room && !pages_move) {
    predicted.copies_max = len;
  }
  predicted.copies_min += added.size();
  predicted.copies_max += added.size();

  const std::uint64_t before = payload_bytes_copied();
  judge(
      predicted,
      [&]() -> Result<void> {
        if (resizes) return ops_.resize(value, x);
        if (!extends) return ops_.reserve(value, x);
        const bool own = self && !model_.unread(model);
        return ops_.extend(value, own ? value.span() : std::span(added), *leaf_);
      },
      [&](auto&) {
        const std::uint64_t copied = payload_bytes_copied() - before - added.size();
        if (more != 0) grown(command, copied, forked, more);
        if (resizes) model.content.resize(len + more);
        model.content.insert(model.content.end(), added.begin(), added.end());
        normalise(value, model);
      });
}

/// Where a value is after growth: where it was, at the front of its block, moved with its pages, or
/// in another block.
void BytesWorld::grown(const BytesCommand& command, std::uint64_t copied, bool forked,
                       std::size_t added) {
  ModelValue& model = model_.slots[a_of(command)];
  const Bytes& value = values_[a_of(command)];
  ModelRoot& root = model_.root(model);
  expect(value.is_exclusive(), "a value that grew is not exclusive");
  expect(value.capacity() >= model.len() + added, "growth made too little room");
  if (!forked && model.root != 0 && value.data() == root.base + model.start) {
    expect(copied == 0, "growth in place copied");
  } else if (!forked && model.root != 0 && model.len() == 0 && value.data() == root.base) {
    model.start = 0;
  } else if (!forked && model.root != 0 && copied == 0 && model.len() != 0) {
    expect(backing().can(Capabilities::moves_pages), "bytes moved without a copy");
    root.base = value.data() - model.start;
  } else {
    expect(copied == (model_.unread(model) ? 0 : model.len()), "growth copied something else");
    model_.move_out(model, false);
  }
  model_.steal(model);
}

void BytesWorld::compact(const BytesCommand& command) {
  ModelValue& model = model_.slots[a_of(command)];
  Bytes& value = values_[a_of(command)];
  const bool mirror = model.shared() && model_.root(model).place == Place::lazy &&
                      !model_.unread(model) && model_.sharers(model) == 1;
  const std::size_t kept = value.retained_bytes() - (mirror ? model_.origin(model).kept : 0);
  const bool moves = model.len() != 0 && kept > backing().footprint({.size = model.len()});
  judge(
      moves ? brings(model, model.len()) : copies(0), [&] { return ops_.compact(value); },
      [&](auto&) {
        if (mirror) model_.take_mirror(model);
        if (moves) model_.move_out(model, model.shared());
        normalise(value, model);
      });
}

}  // namespace assay::properties
