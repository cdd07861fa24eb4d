// Result: a value or an Error, checked.
#pragma once

#include <expected>
#include <type_traits>
#include <utility>

#include "assay/base/contract.hpp"
#include "assay/base/error.hpp"

namespace assay {

/// Either a `T` or the Error that prevented it. Discarding one is a compiler warning; taking the
/// value of a failed one is a broken contract, never undefined behaviour.
template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  template <class U = T>
    requires(!std::is_void_v<T> && std::is_constructible_v<T, U &&> &&
             !std::is_same_v<std::remove_cvref_t<U>, Result> &&
             !std::is_same_v<std::remove_cvref_t<U>, Error>)
  Result(U&& value) : state_(std::in_place, std::forward<U>(value)) {}  // NOLINT(*-explicit-*)
  Result()
    requires std::is_void_v<T>
  = default;
  Result(const Error& error) : state_(std::unexpect, error) {}  // NOLINT(*-explicit-*)

  [[nodiscard]] bool has_value() const noexcept { return state_.has_value(); }
  [[nodiscard]] explicit operator bool() const noexcept { return state_.has_value(); }

  /// The value. **Pre** has_value().
  decltype(auto) value() & {
    check();
    return *state_;
  }
  decltype(auto) value() const& {
    check();
    return *state_;
  }
  T value() && {  // by value, so that `for (auto x : f().value())` does not dangle
    check();
    if constexpr (std::is_void_v<T>) {
      return;
    } else {
      return *std::move(state_);
    }
  }

  /// The error. **Pre** !has_value().
  [[nodiscard]] const Error& error() const {
    ASSAY_CONTRACT(!state_.has_value(), "error() of a successful Result");
    return state_.error();
  }

  template <class U>
  [[nodiscard]] T value_or(U&& other) && {
    return state_.has_value() ? *std::move(state_) : static_cast<T>(std::forward<U>(other));
  }

  /// Calls `f(value)`, which returns a Result, or passes the error on.
  template <class F>
  auto and_then(F&& f) && {
    using Next = decltype(invoke_with_value(std::forward<F>(f)));
    if (!state_.has_value()) return Next(state_.error());
    return invoke_with_value(std::forward<F>(f));
  }

  /// Calls `f(value)`, which returns a plain value, or passes the error on.
  template <class F>
  auto map(F&& f) && {
    using Next = Result<decltype(invoke_with_value(std::forward<F>(f)))>;
    if (!state_.has_value()) return Next(state_.error());
    if constexpr (std::is_same_v<Next, Result<void>>) {
      invoke_with_value(std::forward<F>(f));
      return Next();
    } else {
      return Next(invoke_with_value(std::forward<F>(f)));
    }
  }

 private:
  template <class F>
  decltype(auto) invoke_with_value(F&& f) {
    if constexpr (std::is_void_v<T>) {
      return std::forward<F>(f)();
    } else {
      return std::forward<F>(f)(*std::move(state_));
    }
  }
  void check() const {
    if (!state_.has_value()) [[unlikely]] {
      detail::contract_failed("has_value()", name_of(state_.error().code), __FILE__, __LINE__);
    }
  }

  std::expected<T, Error> state_;
};

}  // namespace assay

#define ASSAY_CONCAT_IMPL(a, b) a##b
#define ASSAY_CONCAT(a, b) ASSAY_CONCAT_IMPL(a, b)

/// `ASSAY_TRY(auto block, backing.allocate(request));` declares `block`, or returns the error.
#define ASSAY_TRY(declaration, ...)                                                           \
  auto ASSAY_CONCAT(assay_try_, __LINE__) = (__VA_ARGS__);                                    \
  if (!ASSAY_CONCAT(assay_try_, __LINE__)) return ASSAY_CONCAT(assay_try_, __LINE__).error(); \
  declaration = std::move(ASSAY_CONCAT(assay_try_, __LINE__)).value()

/// As ASSAY_TRY for a `Result<void>`, or for a value that is not wanted.
#define ASSAY_TRY_VOID(...)                                         \
  do {                                                              \
    if (auto assay_try_result = (__VA_ARGS__); !assay_try_result) { \
      return assay_try_result.error();                              \
    }                                                               \
  } while (false)
