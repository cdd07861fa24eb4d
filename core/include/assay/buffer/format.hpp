// {fmt} output of Bytes and UnifiedBuffer. Never materialises, never shows an address.
#pragma once

#include <fmt/format.h>

#include "assay/buffer/bytes.hpp"
#include "assay/buffer/unified_buffer.hpp"

/// `Bytes { data: [1, 2, 3, "..."], len: 4 }`: the first three bytes, and whether there are more.
/// A value that is not resident prints as `Bytes { data: <not read>, len: 4 }` and stays so.
template <>
struct fmt::formatter<assay::Bytes> {
  static constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }

  template <class Context>
  auto format(const assay::Bytes& bytes, Context& context) const {
    if (!bytes.is_resident()) {
      return fmt::format_to(context.out(), "Bytes {{ data: <not read>, len: {} }}", bytes.len());
    }
    constexpr std::size_t shown_max = 3;
    auto out = fmt::format_to(context.out(), "Bytes {{ data: [");
    const std::size_t shown = bytes.len() < shown_max ? bytes.len() : shown_max;
    for (std::size_t i = 0; i < shown; ++i) {
      out = fmt::format_to(out, "{}{}", i == 0 ? "" : ", ", std::to_integer<unsigned>(bytes[i]));
    }
    if (bytes.len() > shown_max) out = fmt::format_to(out, ", \"...\"");
    return fmt::format_to(out, "], len: {} }}", bytes.len());
  }
};

/// Size, place and the random handle; neither contents nor addresses.
template <>
struct fmt::formatter<assay::UnifiedBuffer> {
  static constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }

  template <class Context>
  auto format(const assay::UnifiedBuffer& buffer, Context& context) const {
    return fmt::format_to(context.out(),
                          "UnifiedBuffer {{ data: <redacted>, handle: {:016x}, size: {}, "
                          "capacity: {}, device: {}, host_addressable: {} }}",
                          buffer.handle(), buffer.size(), buffer.capacity(),
                          buffer.device().ordinal, buffer.host_addressable());
  }
};
