#include "assay/base/error.hpp"

#include <array>
#include <cstring>

#include <fmt/format.h>

namespace assay {
namespace {

struct CodeRow {
  const char* name;
  bool retryable;
  const char* advice;
};

constexpr std::array code_rows = {
    CodeRow{"none", false, ""},
#define ASSAY_ERROR_CODE(name, retryable, advice) CodeRow{#name, retryable, advice},
#include "assay/base/error_codes.def"
#undef ASSAY_ERROR_CODE
};

const CodeRow& row_of(ErrorCode code) noexcept {
  const auto index = static_cast<std::size_t>(code);
  return code_rows[index < code_rows.size() ? index : 0];
}

}  // namespace

Error Error::make(ErrorCode code, const char* feature, const char* backing,
                  std::uint64_t requested) noexcept {
  Error error;
  error.code = code;
  error.retryable = row_of(code).retryable;
  error.feature = feature;
  error.backing = backing;
  error.requested = requested;
  return error;
}

const char* name_of(ErrorCode code) noexcept {
  return row_of(code).name;
}

ErrorCode error_code_of(std::string_view name) noexcept {
  for (std::size_t i = 0; i < code_rows.size(); ++i) {
    if (name == code_rows[i].name) return static_cast<ErrorCode>(i);
  }
  return ErrorCode::none;
}

std::string describe(const Error& error) {
  const CodeRow& row = row_of(error.code);
  std::string text =
      fmt::format("{}: {}", error.feature[0] != '\0' ? error.feature : "operation", row.name);
  if (error.backing[0] != '\0') text += fmt::format(" on {}", error.backing);
  const bool has_place = error.code == ErrorCode::parse && error.limit != 0;
  if (has_place) text += fmt::format(" at byte {} of {}", error.requested, error.limit);
  if (!has_place && error.requested != 0) text += fmt::format(", requested {}", error.requested);
  if (error.in_use != 0) text += fmt::format(", in use {}", error.in_use);
  if (!has_place && error.limit != 0) text += fmt::format(", limit {}", error.limit);
  if (error.largest_free != 0) text += fmt::format(", largest free {}", error.largest_free);
  if (error.lost != 0) text += fmt::format(", lost {}", error.lost);
  if (error.native != 0) {
    text += fmt::format(", native code {}", error.native);
    if (error.code == ErrorCode::io || error.code == ErrorCode::read_failed) {
      text += fmt::format(" ({})", std::strerror(error.native));
    }
  }
  if (error.native_name[0] != '\0') {
    text += fmt::format(" ({}: {})", error.native_name, error.native_text);
  } else if (error.native_text[0] != '\0') {
    text += fmt::format(" ({})", error.native_text);
  }
  if (row.advice[0] != '\0') text += fmt::format("; {}", row.advice);
  return text;
}

}  // namespace assay
