// Writing a result: whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "assay/base/result.hpp"

namespace assay::bench {

/// Writes `text` to `path`: to a temporary file beside it that then takes its name, or directly to
/// a device or pipe. On error the file is as before. **Errors** io, errno in `native`.
Result<void> write_whole(const std::string& path, std::string_view text);

}  // namespace assay::bench
