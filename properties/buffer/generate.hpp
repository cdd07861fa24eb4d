// Generators of buffer commands. Sizes lean to the edges.
#pragma once

#include <rapidcheck.h>

#include "buffer_commands.hpp"
#include "bytes_commands.hpp"

namespace assay::properties {

inline rc::Gen<std::uint16_t> small_size() {
  return rc::gen::oneOf(rc::gen::inRange<std::uint16_t>(0, 20),
                        rc::gen::element<std::uint16_t>(0, 1, 15, 16, 17, 63, 64, 65),
                        rc::gen::inRange<std::uint16_t>(0, 300));
}

}  // namespace assay::properties

namespace rc {

template <>
struct Arbitrary<assay::properties::BytesCommand> {
  static Gen<assay::properties::BytesCommand> arbitrary() {
    using assay::properties::BytesCommand;
    using assay::properties::BytesOperation;
    const auto last = static_cast<int>(BytesOperation::count);
    return gen::build<BytesCommand>(
        gen::set(&BytesCommand::operation,
                 gen::map(gen::inRange(0, last),
                          [](int index) { return static_cast<BytesOperation>(index); })),
        gen::set(&BytesCommand::a, gen::inRange<std::uint8_t>(0, assay::properties::slot_count)),
        gen::set(&BytesCommand::b, gen::inRange<std::uint8_t>(0, assay::properties::slot_count)),
        gen::set(&BytesCommand::x, assay::properties::small_size()),
        gen::set(&BytesCommand::y, assay::properties::small_size()),
        gen::set(&BytesCommand::owned, gen::arbitrary<bool>()));
  }
};

template <>
struct Arbitrary<assay::properties::BufferCommand> {
  static Gen<assay::properties::BufferCommand> arbitrary() {
    using assay::properties::BufferCommand;
    using assay::properties::BufferOperation;
    const auto last = static_cast<int>(BufferOperation::count);
    return gen::build<BufferCommand>(
        gen::set(&BufferCommand::operation,
                 gen::map(gen::inRange(0, last),
                          [](int index) { return static_cast<BufferOperation>(index); })),
        gen::set(&BufferCommand::x, assay::properties::small_size()),
        gen::set(&BufferCommand::y, assay::properties::small_size()));
  }
};

}  // namespace rc
