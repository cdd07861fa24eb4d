// Texts made at run time that an Error may point to.
#pragma once

#include <string>

namespace assay::cuda::detail {

/// The text, kept for the rest of the process: each distinct one once, 64 at most, and cut at 500
/// bytes. Past that, or without memory, a general word instead.
///
/// **Threads** safe from any thread.
[[nodiscard]] const char* static_text(const std::string& text) noexcept;

}  // namespace assay::cuda::detail
