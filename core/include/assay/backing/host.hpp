// host: the default host memory, put together from backings of this library.
#pragma once

#include "assay/backing/backing.hpp"

namespace assay {

/// Requests above this many bytes are mapped, and grow by moving pages.
inline constexpr std::size_t host_mapped_above = std::size_t{4} << 20;

/// `zero_cache(by_size(4MiB, heap, virtual(huge)))`: malloc for what is small, mapped huge pages
/// for what is large, and freed blocks of 64 KiB to 16 MiB used again, those that read zero as
/// such.
///
/// Each call makes one of its own; values without a home of their own share that of `Home::host()`.
[[nodiscard]] Ref<Backing> make_host();

/// The same over one upstream in place of both leaves. **Pre** BySize::can_join(*upstream).
[[nodiscard]] Ref<Backing> make_host_over(const Ref<Backing>& upstream);

}  // namespace assay
