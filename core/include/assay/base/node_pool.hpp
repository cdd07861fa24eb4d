// Node pool: small, cache-line aligned metadata nodes, kept per thread between uses.
#pragma once

#include <cstddef>
#include <cstdint>

namespace assay::node_pool {

/// Nodes come in two sizes; each starts on a cache line of its own.
inline constexpr std::size_t small_node = 64;
inline constexpr std::size_t large_node = 192;

/// A node of at least `size` bytes, or null if memory is out; never throws.
/// **Pre** 0 < size <= large_node. **Cost** a pop from the thread's own list, else one allocation.
/// Under AddressSanitizer and ThreadSanitizer every node is a fresh allocation, so that a use
/// after free is seen.
[[nodiscard]] void* allocate(std::size_t size) noexcept;

/// Gives a node back; any thread may. **Pre** `size` as allocated; null does nothing.
void deallocate(void* node, std::size_t size) noexcept;

/// Nodes that the calling thread allocated minus those it gave back. At rest, in one thread, this
/// is the number of nodes alive.
[[nodiscard]] std::int64_t balance_of_thread() noexcept;

/// Nodes that wait on the calling thread's lists.
[[nodiscard]] std::size_t cached_in_thread() noexcept;

/// Makes the `nth` allocation of the calling thread from now fail, once; 0 cancels. For tests that
/// walk through every failure of a scenario.
void fail_nth(std::uint64_t nth) noexcept;

/// True while a failure set by fail_nth has not happened yet.
[[nodiscard]] bool failure_pending() noexcept;

}  // namespace assay::node_pool
