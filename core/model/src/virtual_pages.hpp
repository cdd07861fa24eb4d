// Addresses and pages of virtual memory management: ranges that fault, and one memory file.
//
// **Threads** everything from any; the lock inside calls nothing out, so it is taken under any
// other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "memory.hpp"

namespace assay::cuda::model {

inline constexpr std::size_t address_range_max = std::size_t{1} << 47;

[[nodiscard]] inline void* pointer_at(std::uint64_t address) noexcept {
  return reinterpret_cast<void*>(address);
}

/// Addresses that fault. 0 if there are none left, even without what keep_closed() holds.
[[nodiscard]] std::uint64_t take_addresses(std::size_t size) noexcept;
/// The same at a multiple of `alignment`, a power of two.
[[nodiscard]] std::uint64_t take_aligned(std::size_t size, std::size_t alignment) noexcept;
/// The program has given them back: they fault for some while longer.
void keep_closed(Range range);

/// A window of that size in the memory file, nowhere shown yet. False if the system has none.
[[nodiscard]] bool take_window(std::size_t size, std::uint64_t& offset) noexcept;
/// Its memory goes back to the system; where it is shown it reads as zero.
void give_back_window(std::uint64_t offset, std::size_t size) noexcept;
/// Shows a window at `where`, in place of what is there, or (null) at any place. Null on failure.
std::byte* show_window(std::uint64_t offset, std::size_t size, std::byte* where) noexcept;

}  // namespace assay::cuda::model
