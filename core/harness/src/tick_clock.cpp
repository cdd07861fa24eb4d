#include "tick_clock.hpp"

#include <algorithm>
#include <array>

namespace assay::harness {
namespace {

bool has_invariant_counter() noexcept {
#if defined(__x86_64__)
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned power_management = 0x80000007;
  constexpr unsigned invariant = 1U << 8;
  return __get_cpuid(power_management, &a, &b, &c, &d) != 0 && (d & invariant) != 0;
#else
  return false;
#endif
}

}  // namespace

TickClock::TickClock() noexcept : counter_(has_invariant_counter()) {
  if (counter_) {
    constexpr std::uint64_t calibration_ns = 10'000'000;
    const std::uint64_t from_ns = monotonic_ns();
    const std::uint64_t from = now();
    std::uint64_t to_ns = from_ns;
    while (to_ns - from_ns < calibration_ns) to_ns = monotonic_ns();
    ns_per_tick_ = static_cast<double>(to_ns - from_ns) / static_cast<double>(now() - from);
  }
  std::array<std::uint64_t, 1001> gaps;
  for (std::uint64_t& gap : gaps) {
    const std::uint64_t before = now();
    gap = now() - before;
  }
  std::nth_element(gaps.begin(), gaps.begin() + gaps.size() / 2, gaps.end());
  cost_ns_ = static_cast<double>(gaps[gaps.size() / 2]) * ns_per_tick_;
}

}  // namespace assay::harness
