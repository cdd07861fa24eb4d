// What dead handles were: streams, events, and whatever else is destroyed by handle.
#pragma once

#include <string>

#include "site.hpp"

namespace assay::cuda::model {

/// Keeps who made a handle and who ended it, of the latest 65536.
void bury_handle(const void* handle, const Site& made, const Site& ended) noexcept;

/// "made by cuStreamCreate (call 3, ...), ended by cuStreamDestroy_v2 (call 9, ...)"; "never given
/// out" of a handle that is not buried here.
[[nodiscard]] std::string epitaph(const void* handle);

}  // namespace assay::cuda::model
