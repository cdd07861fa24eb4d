// BytesWorld: everything that may bring the bytes of a lazy value, and what must not.
#include "bytes_world.hpp"

namespace assay::properties {

void BytesWorld::read(const BytesCommand& command) {
  const ModelValue& model = model_.slots[a_of(command)];
  Bytes& value = values_[a_of(command)];
  const bool no_copy = command.operation == BytesOperation::read_no_copy;
  const Prediction predicted =
      no_copy && model_.unread(model) ? fails(ErrorCode::would_copy) : reads(model);
  judge(
      predicted, [&] { return no_copy ? ops_.read_no_copy(value) : ops_.read(value, *leaf_); },
      [&](auto& bytes) {
        model_.root(model).resident = true;
        expect(std::equal(bytes.value().begin(), bytes.value().end(), model.content.begin(),
                          model.content.end()),
               "read gives other bytes");
      });
}

void BytesWorld::copy_into(const BytesCommand& command) {
  const ModelValue& model = model_.slots[a_of(command)];
  const std::size_t offset = limited(command.x, model.len() + 1);
  const std::size_t room = model.len() - std::min(offset, model.len());
  const std::size_t size = limited(command.y, room + 1);
  std::vector<std::byte> to(size);
  const bool outside = offset > model.len() || size > room;
  judge(
      outside ? fails(ErrorCode::out_of_range) : brings(model, size),
      [&] { return ops_.copy_into(values_[a_of(command)], to, offset); },
      [&](auto&) {
        expect(std::equal(to.begin(), to.end(),
                          model.content.begin() + static_cast<std::ptrdiff_t>(offset)),
               "copy_into gives other bytes");
      });
}

void BytesWorld::read_chunks(const BytesCommand& command) {
  const ModelValue& model = model_.slots[a_of(command)];
  const std::size_t size = command.x;
  Prediction predicted;
  if (size == 0) {
    predicted = fails(ErrorCode::invalid_argument);
  } else if (model.len() != 0) {
    predicted = reads(model);  // source_changed, or nothing
    if (model_.unread(model)) predicted.reads = {(model.len() + size - 1) / size, model.len()};
  }
  judge(
      predicted, [&] { return ops_.read_chunks(values_[a_of(command)], size); },
      [&](auto& all) { expect(all.value() == model.content, "read_chunks gives other bytes"); });
}

void BytesWorld::equals(const BytesCommand& command) {
  const ModelValue& a = model_.slots[a_of(command)];
  const ModelValue& b = model_.slots[b_of(command)];
  const bool same_range = a.root == b.root && a.start == b.start;
  const bool looks = a.len() == b.len() && !a.content.empty() && !same_range;
  Prediction predicted;
  if (looks) {
    predicted = reads(a);
    const Prediction second = reads(b);
    if (predicted.code == ErrorCode::none && second.code != ErrorCode::none) {
      predicted.code = second.code;
    }
    if (a.root != b.root) {
      predicted.reads.calls += second.reads.calls;
      predicted.reads.bytes += second.reads.bytes;
    }
    predicted.failure_may_settle = true;
  }
  const std::array<bool, slot_count> before = [&] {
    std::array<bool, slot_count> resident{};
    for (std::size_t i = 0; i < slot_count; ++i) resident[i] = values_[i].is_resident();
    return resident;
  }();
  bool failed = true;
  judge(
      predicted, [&] { return ops_.equals(values_[a_of(command)], values_[b_of(command)]); },
      [&](auto& equal) {
        failed = false;
        expect(equal.value() == (a.content == b.content), "equals is wrong");
        if (!looks) return;
        model_.root(a).resident = true;
        model_.root(b).resident = true;
      });
  if (!failed || !looks) return;
  // The first of the two may have been read before the second failed.
  if (!model_.lost(a) && values_[a_of(command)].is_resident()) model_.root(a).resident = true;
  for (std::size_t i = 0; i < slot_count; ++i) {
    expect(values_[i].is_resident() == before[i] || model_.slots[i].root == a.root,
           "a failed comparison read another value");
  }
}

void BytesWorld::hash(const BytesCommand& command) {
  const ModelValue& model = model_.slots[a_of(command)];
  judge(
      reads(model), [&] { return ops_.hash(values_[a_of(command)]); },
      [&](auto& hash) {
        model_.root(model).resident = true;
        const std::string_view text(reinterpret_cast<const char*>(model.content.data()),
                                    model.len());
        expect(hash.value() == std::hash<std::string_view>()(text), "hash is not of the bytes");
      });
}

void BytesWorld::format(const BytesCommand& command) {
  const ModelValue& model = model_.slots[a_of(command)];
  judge(
      copies(0), [&] { return Result<std::string>(ops_.format(values_[a_of(command)])); },
      [&](auto& text) {
        if (model_.lost(model) && !model_.unread(model)) return;  // torn bytes
        std::string shown;
        for (std::size_t i = 0; i < std::min<std::size_t>(model.len(), 3); ++i) {
          shown += fmt::format("{}{}", i == 0 ? "" : ", ", std::to_integer<int>(model.content[i]));
        }
        if (model.len() > 3) shown += ", \"...\"";
        const std::string data = model_.unread(model) ? "<not read>" : "[" + shown + "]";
        expect(text.value() == fmt::format("Bytes {{ data: {}, len: {} }}", data, model.len()),
               "printed otherwise");
      });
}

}  // namespace assay::properties
