// TickClock: the cheapest clock that a single call can be timed with.
#pragma once

#include <cstdint>

#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace assay::harness {

[[nodiscard]] inline std::uint64_t monotonic_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

/// Ticks of the processor's invariant time-stamp counter where there is one, nanoseconds of
/// CLOCK_MONOTONIC elsewhere.
class TickClock {
 public:
  /// The process's one clock. **Cost** the first call calibrates for 10 ms.
  static const TickClock& get() noexcept {
    static const TickClock clock;
    return clock;
  }

  [[nodiscard]] std::uint64_t now() const noexcept {
#if defined(__x86_64__)
    if (counter_) {
      _mm_lfence();  // the call before has finished, the one after has not begun
      return __rdtsc();
    }
#endif
    return monotonic_ns();
  }
  [[nodiscard]] double ns_per_tick() const noexcept { return ns_per_tick_; }
  /// What a measured interval of nothing reads: the median of many.
  [[nodiscard]] double cost_ns() const noexcept { return cost_ns_; }

 private:
  TickClock() noexcept;

  bool counter_ = false;
  double ns_per_tick_ = 1;
  double cost_ns_ = 0;
};

}  // namespace assay::harness
