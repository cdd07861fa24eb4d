#include "generators.hpp"

#include <algorithm>

namespace assay::properties {
namespace {

using rc::gen::element;
using rc::gen::inRange;
using rc::gen::map;
using rc::gen::tuple;

struct Shape {
  std::uint64_t size;
  std::uint64_t alignment;
};

rc::Gen<std::uint64_t> beside_power_of_two(int from, int to) {
  return map(tuple(inRange(from, to), inRange(-1, 2)), [](const std::tuple<int, int>& drawn) {
    const std::uint64_t power = std::uint64_t{1} << std::get<0>(drawn);
    return std::max<std::uint64_t>(1, power + static_cast<std::uint64_t>(std::get<1>(drawn)));
  });
}

rc::Gen<std::uint64_t> between(std::uint64_t from, std::uint64_t past) {
  return inRange<std::uint64_t>(from, past);
}

rc::Gen<Shape> shapes() {
  return map(tuple(sizes(), alignments()), [](const std::tuple<std::uint64_t, std::uint64_t>& d) {
    return Shape{std::get<0>(d), std::get<1>(d)};
  });
}

rc::Gen<std::uint16_t> slots() {
  return map(inRange<std::uint32_t>(0, harness::slot_count),
             [](std::uint32_t slot) { return static_cast<std::uint16_t>(slot); });
}

rc::Gen<Commands> allocation(const std::vector<Shape>& palette, bool filled, bool zero) {
  auto shape = rc::gen::weightedOneOf<Shape>({{7, rc::gen::elementOf(palette)}, {3, shapes()}});
  return map(tuple(slots(), std::move(shape), inRange(0, 8)),
             [filled, zero](const std::tuple<std::uint16_t, Shape, int>& drawn) {
               const auto& [slot, wanted, lot] = drawn;
               Commands phrase = {allocate(slot, wanted.size, wanted.alignment)};
               if (zero && lot == 0) phrase.back().zero = 1;
               if (filled) phrase.push_back(fill(slot));
               return phrase;
             });
}

rc::Gen<Commands> resizing(const std::vector<Shape>& palette, bool zero) {
  auto size = rc::gen::weightedOneOf<std::uint64_t>(
      {{1, map(rc::gen::elementOf(palette), [](const Shape& shape) { return shape.size; })},
       {1, sizes()}});
  return map(tuple(slots(), std::move(size), inRange(0, 8)),
             [zero](const std::tuple<std::uint16_t, std::uint64_t, int>& drawn) {
               const auto& [slot, wanted, lot] = drawn;
               Commands phrase = {resize(slot, wanted)};
               if (zero && lot == 0) phrase.back().zero = 1;
               return phrase;
             });
}

rc::Gen<Commands> on_slot(Commands (*phrase)(std::uint16_t)) {
  return map(slots(), phrase);
}

rc::Gen<Commands> large_allocation() {
  return map(tuple(slots(), beside_power_of_two(16, 24)),
             [](const std::tuple<std::uint16_t, std::uint64_t>& drawn) {
               return Commands{allocate(std::get<0>(drawn), std::get<1>(drawn), 16)};
             });
}

rc::Gen<Commands> phrases(const Mix& mix, const std::vector<Shape>& palette) {
  return rc::gen::weightedOneOf<Commands>({
      {mix.allocate, allocation(palette, false, mix.zero)},
      {mix.allocate_and_fill, allocation(palette, true, mix.zero)},
      {mix.free, on_slot([](std::uint16_t slot) { return Commands{free_slot(slot)}; })},
      {mix.check_and_free,
       on_slot([](std::uint16_t slot) { return Commands{check(slot), free_slot(slot)}; })},
      {mix.check, on_slot([](std::uint16_t slot) { return Commands{check(slot)}; })},
      {mix.fill, on_slot([](std::uint16_t slot) { return Commands{fill(slot)}; })},
      {mix.resize, resizing(palette, mix.zero)},
      {mix.large, large_allocation()},
  });
}

}  // namespace

rc::Gen<std::uint64_t> sizes() {
  return rc::gen::weightedOneOf<std::uint64_t>(
      {{5, between(1, 257)},
       {4, beside_power_of_two(0, 16)},
       {2, element<std::uint64_t>(4095, 4096, 4097, 8191, 8192, 8193)},
       {3, between(257, 4096)},
       {1, between(4096, 32769)}});
}

rc::Gen<std::uint64_t> alignments() {
  auto exponent = rc::gen::weightedOneOf<int>(
      {{10, inRange(0, 5)}, {5, inRange(4, 9)}, {3, inRange(8, 13)}, {1, inRange(12, 21)}});
  return map(std::move(exponent), [](int power) { return std::uint64_t{1} << power; });
}

rc::Gen<Commands> command_lists(const Mix& mix) {
  auto palettes = rc::gen::container<std::vector<Shape>>(6, shapes());
  return rc::gen::mapcat(std::move(palettes), [mix](const std::vector<Shape>& palette) {
    return map(rc::gen::container<std::vector<Commands>>(mix.length, phrases(mix, palette)),
               [](const std::vector<Commands>& list) {
                 Commands flat;
                 for (const Commands& phrase : list) {
                   flat.insert(flat.end(), phrase.begin(), phrase.end());
                 }
                 return flat;
               });
  });
}

Command allocate(std::uint16_t slot, std::uint64_t size, std::uint64_t alignment) {
  return {.operation = Operation::allocate, .slot = slot, .size = size, .alignment = alignment};
}

Command free_slot(std::uint16_t slot) {
  return {.operation = Operation::free, .slot = slot};
}

Command resize(std::uint16_t slot, std::uint64_t size) {
  return {.operation = Operation::resize, .slot = slot, .size = size};
}

Command fill(std::uint16_t slot) {
  return {.operation = Operation::fill, .slot = slot};
}

Command check(std::uint16_t slot) {
  return {.operation = Operation::check, .slot = slot};
}

void check_all(Commands& commands) {
  for (std::uint16_t slot = 0; slot < harness::slot_count; ++slot) commands.push_back(check(slot));
}

Commands generate(const Property& property, std::uint64_t seed) {
  return property.commands()(rc::Random(seed)).value();
}

}  // namespace assay::properties
