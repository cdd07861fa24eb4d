// Host touches that may fault: the signal is caught, and the program goes on.
#pragma once

namespace assay::conformance {

/// Reads a byte; the signal that this raised, or 0. **Threads** one at a time.
[[nodiscard]] int read_at(const volatile void* address) noexcept;
/// Writes a byte, 0x5A; the signal that this raised, or 0. **Threads** one at a time.
[[nodiscard]] int write_at(volatile void* address) noexcept;

/// As read_at, but whoever handled SIGSEGV before is told of it first: a model diagnoses there.
[[nodiscard]] int read_told(const volatile void* address) noexcept;

}  // namespace assay::conformance
