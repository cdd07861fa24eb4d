// Compares the types of two function signatures, or two structs, as a caller's machine code sees
// them: number, class and width of the parameters, and what pointers point to.
#pragma once

#include <cstddef>
#include <type_traits>

namespace assay::cuda::abi_check {

enum class Kind { nothing, boolean, integer, enumeration, floating, object, incomplete, function };

template <class T>
concept Complete = requires { sizeof(T); };

template <class T>
consteval Kind kind_of() {
  if constexpr (std::is_void_v<T>) {
    return Kind::nothing;
  } else if constexpr (std::is_function_v<T>) {
    return Kind::function;
  } else if constexpr (!Complete<T>) {
    return Kind::incomplete;
  } else if constexpr (std::is_same_v<T, bool>) {
    return Kind::boolean;
  } else if constexpr (std::is_enum_v<T>) {
    return Kind::enumeration;
  } else if constexpr (std::is_integral_v<T>) {
    return Kind::integer;
  } else if constexpr (std::is_floating_point_v<T>) {
    return Kind::floating;
  } else {
    return Kind::object;
  }
}

template <class T>
consteval std::size_t width_of() {
  if constexpr (std::is_void_v<T> || std::is_function_v<T> || !Complete<T>) {
    return 0;
  } else {
    return sizeof(T);
  }
}

template <class Ours, class Theirs>
struct SameFunction;

/// Same class, width and signedness; for pointers and arrays, of what they hold too.
template <class Ours, class Theirs>
consteval bool same_type() {
  if constexpr (std::is_pointer_v<Ours> != std::is_pointer_v<Theirs>) {
    return false;
  } else if constexpr (std::is_pointer_v<Ours>) {
    using Our = std::remove_pointer_t<Ours>;
    using Their = std::remove_pointer_t<Theirs>;
    return std::is_const_v<Our> == std::is_const_v<Their> &&
           same_type<std::remove_cv_t<Our>, std::remove_cv_t<Their>>();
  } else if constexpr (kind_of<Ours>() != kind_of<Theirs>()) {
    return false;
  } else if constexpr (kind_of<Ours>() == Kind::function) {
    return SameFunction<Ours, Theirs>::value;
  } else if constexpr (kind_of<Ours>() == Kind::enumeration) {
    return sizeof(Ours) == sizeof(Theirs) && std::is_signed_v<std::underlying_type_t<Ours>> ==
                                                 std::is_signed_v<std::underlying_type_t<Theirs>>;
  } else {
    return width_of<Ours>() == width_of<Theirs>() &&
           std::is_signed_v<Ours> == std::is_signed_v<Theirs>;
  }
}

template <class... Types>
struct List {};

template <class Ours, class Theirs>
struct SameLists : std::false_type {};
template <class... Ours, class... Theirs>
  requires(sizeof...(Ours) == sizeof...(Theirs))
struct SameLists<List<Ours...>, List<Theirs...>>
    : std::bool_constant<(true && ... && same_type<Ours, Theirs>())> {};

template <class OurResult, class... Ours, class TheirResult, class... Theirs>
struct SameFunction<OurResult(Ours...), TheirResult(Theirs...)> {
  static constexpr bool arity = sizeof...(Ours) == sizeof...(Theirs);
  static constexpr bool result = same_type<OurResult, TheirResult>();
  static constexpr bool arguments = SameLists<List<Ours...>, List<Theirs...>>::value;
  static constexpr bool value = arity && result && arguments;
};

}  // namespace assay::cuda::abi_check
