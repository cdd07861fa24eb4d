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

/// Any number below `limit`, in short sequences as in long ones.
inline rc::Gen<int> any_below(int limit) {
  return rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, limit));
}

}  // namespace assay::properties

namespace rc {

template <>
struct Arbitrary<assay::properties::BytesCommand> {
  static Gen<assay::properties::BytesCommand> arbitrary() {
    using assay::properties::BytesCommand;
    using assay::properties::BytesOperation;
    // Making comes twice, so that there is something to work on.
    constexpr auto count = static_cast<int>(BytesOperation::count);
    constexpr auto makes = static_cast<int>(BytesOperation::last_make) + 1;
    const auto slot = gen::map(assay::properties::any_below(assay::properties::slot_count),
                               [](int index) { return static_cast<std::uint8_t>(index); });
    return gen::build<BytesCommand>(
        gen::set(&BytesCommand::operation, gen::map(assay::properties::any_below(count + makes),
                                                    [](int index) {
                                                      return static_cast<BytesOperation>(
                                                          index < count ? index : index - count);
                                                    })),
        gen::set(&BytesCommand::a, slot), gen::set(&BytesCommand::b, slot),
        gen::set(&BytesCommand::x, assay::properties::small_size()),
        gen::set(&BytesCommand::y, assay::properties::small_size()),
        gen::set(&BytesCommand::flag, gen::arbitrary<bool>()));
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
                 gen::map(assay::properties::any_below(last),
                          [](int index) { return static_cast<BufferOperation>(index); })),
        gen::set(&BufferCommand::x, assay::properties::small_size()),
        gen::set(&BufferCommand::y, assay::properties::small_size()));
  }
};

}  // namespace rc
