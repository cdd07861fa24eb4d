// BytesWorld: values given away, as vectors, arrays and buffers, and taken back.
#include <memory>

#include "bytes_world.hpp"

namespace assay::properties {
namespace {

bool same(std::span<const std::byte> bytes, const std::vector<std::byte>& content) {
  return std::equal(bytes.begin(), bytes.end(), content.begin(), content.end());
}

}  // namespace

void BytesWorld::into_vec(const BytesCommand& command) {
  const std::size_t slot = a_of(command);
  ModelValue& model = model_.slots[slot];
  Bytes& value = values_[slot];
  const ModelRoot root = model_.root(model);
  const bool other_type = command.flag;
  ErrorCode code = ErrorCode::none;
  if (model.root == 0) {
    code = ErrorCode::none;
  } else if (!root.resident) {
    code = ErrorCode::not_resident;
  } else if (root.place != Place::vector || other_type || home_->wipes()) {
    code = ErrorCode::not_supported;
  } else if (model_.users(model.root) != 1) {
    code = ErrorCode::not_unique;
  } else if (model.start != 0 || model.len() % 2 != 0) {
    code = ErrorCode::out_of_range;
  }
  if (other_type) {
    judge(fails(code), [&] { return value.try_into_vec<float>(); }, [](auto&) {});
    return;
  }
  std::vector<std::uint16_t> taken;
  bool given = false;
  judge(
      fails(code), [&] { return value.try_into_vec<std::uint16_t>(); },
      [&](auto& vector) {
        taken = std::move(vector).value();
        given = true;
        expect(same(std::as_bytes(std::span(taken)), model.content), "another vector came out");
        expect(value.is_empty() && !value.has_block(), "into_vec left something behind");
        expect(taken.empty() || reinterpret_cast<const std::byte*>(taken.data()) == root.base,
               "a vector was copied");
      });
  if (!given) return;
  auto content = std::exchange(model, {}).content;
  const std::uint64_t left = injections_left();
  const std::size_t size = content.size();
  made(command, Bytes::from_vector(std::move(taken), *home_), std::move(content),
       {.place = Place::vector, .size = size}, false, left);
}

template <class E>
void BytesWorld::into_owned(const BytesCommand& command) {
  const std::size_t slot = a_of(command);
  ModelValue& model = model_.slots[slot];
  Bytes& value = values_[slot];
  const ModelRoot& root = model_.root(model);
  ErrorCode code = ErrorCode::none;
  if (model.root == 0) {
    code = ErrorCode::none;
  } else if (!root.resident) {
    code = ErrorCode::not_resident;
  } else if (root.immutable()) {
    code = ErrorCode::not_supported;
  } else if (model_.forks(model)) {
    code = ErrorCode::not_unique;
  } else if (model.len() % sizeof(E) != 0) {
    code = ErrorCode::out_of_range;
  } else if (!is_aligned(reinterpret_cast<std::uintptr_t>(root.base + model.start), alignof(E))) {
    code = ErrorCode::invalid_alignment;
  }
  OwnedArray<E> array;
  judge(
      fails(code), [&] { return value.try_into_owned<E>(); },
      [&](auto& given) {
        array = std::move(given).value();
        const std::span<const E> elements(array.get(), array.get_deleter().size());
        expect(same(std::as_bytes(elements), model.content), "another array came out");
        expect(value.is_empty() && !value.has_block(), "into_owned left something behind");
        if (root.base != nullptr) {
          expect(reinterpret_cast<const std::byte*>(array.get()) == root.base + model.start,
                 "an array was copied");
        }
        model = {.content = std::move(model.content)};
      });
  if (!array) {
    normalise(value, model);
    return;
  }
  auto content = std::exchange(model, {}).content;
  auto* const kept = new OwnedArray<E>(std::move(array));
  const ExternalMemory external{
      .memory = std::as_writable_bytes(std::span(kept->get(), kept->get_deleter().size())),
      .access = ExternalAccess::writable,
      .release = [](void* context,
                    std::span<std::byte>) noexcept { delete static_cast<OwnedArray<E>*>(context); },
      .context = kept};
  const std::uint64_t left = injections_left();
  auto back = Bytes::from_external(external, *home_);
  if (!back) delete kept;  // still ours
  const std::size_t size = content.size();
  made(command, std::move(back), std::move(content), {.place = Place::owned, .size = size}, false,
       left);
}
template void BytesWorld::into_owned<std::byte>(const BytesCommand&);
template void BytesWorld::into_owned<std::uint32_t>(const BytesCommand&);

void BytesWorld::detach(const BytesCommand& command) {
  const std::size_t slot = a_of(command);
  ModelValue& model = model_.slots[slot];
  Bytes& value = values_[slot];
  const ModelRoot root = model_.root(model);
  const bool lazy = root.place == Place::lazy;
  ErrorCode code = ErrorCode::none;
  if (model.root == 0) {
    code = ErrorCode::zero_size;
  } else if (lazy ? !model_.origin(model).device : root.place != Place::home) {
    code = ErrorCode::not_supported;
  } else if (model_.users(model.root) != 1 || (lazy && model_.units(root.origin) != 1)) {
    code = ErrorCode::not_unique;
  } else if (model.start != 0 || (lazy && root.origin_start != 0)) {
    code = ErrorCode::out_of_range;
  }
  UnifiedBuffer buffer;
  bool given = false;
  judge(
      fails(code), [&] { return ops_.detach(value); },
      [&](auto& made) {
        given = true;
        buffer = std::move(made).value();
        expect(value.is_empty() && !value.has_block(), "detach left something behind");
        expect(buffer.size() == model.len(), "detach gives another size");
        std::vector<std::byte> bytes(model.len());
        expect(buffer.read_at(0, bytes).has_value() && bytes == model.content,
               "detach gives other bytes");
      });
  if (!given) return;
  ModelValue before = std::exchange(model, {});
  const std::uint64_t left = injections_left();
  auto frozen = buffer.freeze(*home_);
  if (!frozen) {
    expect(lazy && injections_left() < left, "a buffer cannot be frozen");
    return;
  }
  before.group = lazy ? model_.new_group() : 0;
  if (lazy) {
    ModelRoot unit = root;
    unit.resident = false;
    unit.size = before.len();
    unit.base = nullptr;
    before.root = model_.add(unit);
  }
  put(slot, std::move(frozen).value(), std::move(before));
}

}  // namespace assay::properties
