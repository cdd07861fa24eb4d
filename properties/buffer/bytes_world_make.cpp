// BytesWorld: values of every source.
#include <cstring>

#include "bytes_world.hpp"

namespace assay::properties {

void BytesWorld::made(const BytesCommand& command, Result<Bytes> value,
                      std::vector<std::byte> content, ModelRoot root, bool shared,
                      std::uint64_t left_before) {
  if (!value) {
    const bool injected = left_before != 0 && injections_left() == 0;
    expect(injected && value.error().code == ErrorCode::out_of_memory, "making failed");
    return;
  }
  ModelValue model{.content = std::move(content)};
  model.root = model_.add(root);
  if (shared) model.group = model_.new_group();
  put(a_of(command), std::move(value).value(), std::move(model));
}

void BytesWorld::make(const BytesCommand& command) {
  const std::size_t size = command.x;
  const std::uint64_t left = injections_left();
  switch (command.operation) {
    case BytesOperation::make_room:
      made(command, Bytes::with_capacity(size, *home_), {}, {}, false, left);
      break;
    case BytesOperation::make_constant: {
      const auto memory = WorldSources::constant_memory();
      const auto part = memory.first(limited(size, memory.size()));
      ExternalMemory external =
          ExternalMemory::constant(part, WorldSources::release_constant, &sources_);
      external.property = AllocationProperty::other;
      auto value = Bytes::from_external(external, *home_);
      if (value) ++sources_.constants_made;
      made(command, std::move(value), {part.begin(), part.end()},
           {.place = Place::constant, .size = size}, true, left);
      break;
    }
    case BytesOperation::make_vector: {
      std::vector<std::uint16_t> elements(size);
      for (std::size_t i = 0; i < size; ++i) {
        elements[i] = static_cast<std::uint16_t>(0x0101 * ((i + command.y) % 250 + 1));
      }
      const auto bytes = std::as_bytes(std::span(elements));
      std::vector<std::byte> content(bytes.begin(), bytes.end());
      const auto* const data = elements.data();
      auto value = Bytes::from_vector(std::move(elements), *home_);
      expect(value || elements.data() == data, "a vector that was not taken has changed");
      made(command, std::move(value), std::move(content),
           {.place = Place::vector, .size = 2 * size}, false, left);
      break;
    }
    case BytesOperation::make_lazy: {
      const auto& source = sources_.watched;
      const int origin = model_.add(
          ModelOrigin{.property = AllocationProperty::other, .kept = source->content().size()});
      auto whole = Bytes::from_source(source, source->block(), AllocationProperty::other, *home_);
      if (whole) ++sources_.watched_made;
      const auto all = source->content();
      made(command, std::move(whole), {all.begin(), all.end()},
           {.place = Place::lazy, .resident = false, .size = all.size(), .origin = origin}, true,
           left);
      break;
    }
    default: {
      auto content = test::counting(size, command.y);
      auto value = Bytes::from_span(content, *home_);
      made(command, std::move(value), std::move(content), {}, false, left);
    }
  }
}

void BytesWorld::make_of_file(const BytesCommand& command) {
  const bool mapped = command.operation == BytesOperation::make_mapped;
  WorldFile& file = sources_.file;
  const auto& all = file.content();
  const std::size_t offset = limited(std::size_t{command.x} * 32, all.size());
  const std::size_t size = limited(command.y, all.size() - offset);
  const FileRegion region{.offset = offset, .size = size};
  const std::uint64_t left = injections_left();
  auto value = mapped ? Bytes::map_file(file.path(), region, *home_)
                      : Bytes::from_file(file.path(), region, *home_);
  if (file.number() == 0) {
    const ErrorCode code = value ? ErrorCode::none : value.error().code;
    expect(code == ErrorCode::io || (injections_left() < left && may_fail_with(code)),
           "a file that is not there was opened");
    return;
  }
  const int origin =
      model_.add(ModelOrigin{.property = AllocationProperty::file, .file = file.number()});
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(offset);
  made(command, std::move(value), {first, first + static_cast<std::ptrdiff_t>(size)},
       {.place = mapped ? Place::mapped : Place::lazy,
        .resident = mapped || size == 0,
        .size = size,
        .origin = origin},
       true, left);
}

void BytesWorld::make_device(const BytesCommand& command) {
  if (!sources_.device) return;
  const std::size_t size = std::size_t{command.x} + 1;
  auto content = test::counting(size, command.y);
  const std::uint64_t left = injections_left();
  auto buffer = UnifiedBuffer::create(size, {.backing = sources_.device, .wipe = setup_.wipe});
  if (!buffer) {
    expect(injections_left() < left, "a device buffer cannot be made");
    return;
  }
  expect(buffer.value().write_at(0, content).has_value(), "a device buffer cannot be written");
  auto value = buffer.value().freeze(*home_);
  expect(value ? buffer.value().is_empty() : buffer.value().size() == size,
         "a buffer that was not frozen has changed");
  const int origin = model_.add(ModelOrigin{.property = AllocationProperty::device,
                                            .kept = sources_.device->footprint({.size = size}),
                                            .device = true});
  made(command, std::move(value), std::move(content),
       {.place = Place::lazy, .resident = false, .size = size, .origin = origin}, true, left);
}

}  // namespace assay::properties
