// is_plain: which element types may be made of raw bytes.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>

namespace assay {

/// May any bit pattern be read as an `E`? True for integers, floating-point numbers, std::byte and
/// arrays of these. A structure of such members joins by specialising it:
///
///     template <> struct assay::is_plain<Point> : std::true_type {};
///
/// `bool`, enumerations and pointers never do, specialised or not: most of their bit patterns are
/// no value at all.
template <class E>
struct is_plain : std::bool_constant<(std::is_arithmetic_v<E> && !std::is_same_v<E, bool>) ||
                                     std::is_same_v<E, std::byte>> {};
template <class E, std::size_t n>
struct is_plain<std::array<E, n>> : is_plain<E> {};

/// Element types that buffers are adopted from and converted to.
template <class E>
concept PlainElement =
    std::is_same_v<E, std::remove_cv_t<E>> && is_plain<E>::value &&
    std::is_trivially_copyable_v<E> && !std::is_same_v<E, bool> &&
    (!std::is_enum_v<E> || std::is_same_v<E, std::byte>) && !std::is_pointer_v<E>;

}  // namespace assay
