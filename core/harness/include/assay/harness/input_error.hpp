// InputError: why an input was refused, in one line that names the file and the row.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace assay::harness {

/// A refused input or an output that could not be written. Unlike Error it owns text, because it
/// repeats what the user gave.
struct InputError {
  std::string file;       ///< as the user named it
  std::uint64_t row = 0;  ///< line of the file, from 1; 0: the file as a whole
  std::string message;    ///< one line

  /// "FILE: row 12: message", or "FILE: message".
  [[nodiscard]] std::string describe() const;
  friend bool operator==(const InputError&, const InputError&) = default;
};

/// Untrusted text as a message may show it: in quotes, control characters and bytes that are not
/// ASCII as \xNN, cut to 60 characters.
[[nodiscard]] std::string quoted(std::string_view text);

}  // namespace assay::harness
