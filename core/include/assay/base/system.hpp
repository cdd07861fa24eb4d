// Facts about the machine, asked once.
#pragma once

#include <cstddef>

namespace assay {

/// Size of a page in bytes, as the kernel says. Cost: one system call, once.
[[nodiscard]] std::size_t page_size() noexcept;

/// Bytes of physical memory that could be had without swapping (MemAvailable), bounded by the
/// cgroup's limit where one is set. 0 if the kernel does not say.
[[nodiscard]] std::size_t available_memory() noexcept;

}  // namespace assay
