// Error: what went wrong, with the figures a caller needs to act on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace assay {

/// Why an operation failed. The names are stable: results, traces and tests match on them.
enum class ErrorCode : std::uint8_t {
  none,  ///< no error; never found inside a failed Result
#define ASSAY_ERROR_CODE(name, retryable, advice) name,
#include "assay/base/error_codes.def"
#undef ASSAY_ERROR_CODE
};

/// An operating error: small, trivially copyable, never allocates.
///
/// **Invariants** every pointer is to text of static storage duration. A figure that
/// does not apply is 0.
struct Error {
  ErrorCode code = ErrorCode::none;
  bool retryable = false;          ///< can the same call succeed later?
  std::int32_t native = 0;         ///< errno or driver code, 0 if there is none
  const char* native_name = "";    ///< the driver's name of the native code, if it has one
  const char* native_text = "";    ///< and its words for it
  const char* feature = "";        ///< operation, as the caller knows it
  const char* backing = "";        ///< id of the backing that refused
  std::uint64_t requested = 0;     ///< bytes asked for (or the argument that was refused;
                                   ///< parse: the offset of the fault, if `limit` is set)
  std::uint64_t in_use = 0;        ///< bytes in use before the request
  std::uint64_t limit = 0;         ///< the limit that was met (parse: bytes of the input)
  std::uint64_t largest_free = 0;  ///< largest request that would be served now, if known
  std::uint64_t lost = 0;          ///< bytes still held: what was undone could not be freed

  /// An error with the code's default answer to `retryable`.
  [[nodiscard]] static Error make(ErrorCode code, const char* feature, const char* backing = "",
                                  std::uint64_t requested = 0) noexcept;

  friend bool operator==(const Error&, const Error&) = default;
};

/// The stable name of a code, such as "quota_exceeded".
[[nodiscard]] const char* name_of(ErrorCode code) noexcept;

/// The code of a stable name, or ErrorCode::none if there is no such name.
[[nodiscard]] ErrorCode error_code_of(std::string_view name) noexcept;

/// One line for a person: what failed, the figures, and what to do next. Holds no address.
[[nodiscard]] std::string describe(const Error& error);

}  // namespace assay
