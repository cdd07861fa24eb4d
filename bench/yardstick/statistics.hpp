// What the windows of a row come to: medians, their spread, and whether they can be trusted.
#pragma once

#include <string_view>
#include <vector>

namespace assay::yardstick {

/// Median and the 10th and 90th percentile.
struct Spread {
  double median = 0;
  double p10 = 0;
  double p90 = 0;
};

/// By linear interpolation between the closest ranks. **Pre** at least one sample.
[[nodiscard]] Spread spread_of(std::vector<double> samples);

/// Nanoseconds of one operation in each window; windows of one index ran one after the other.
struct Samples {
  std::vector<double> operation_ns;
  std::vector<double> yardstick_ns;
};

struct Comparison {
  Spread operation;
  Spread yardstick;
  Spread ratios;     ///< of the windows, pair by pair: how much the answer varies
  double ratio = 0;  ///< of the medians: what is judged

  /// How far the worse side's median lies above its own 10th percentile, as a factor.
  [[nodiscard]] double disturbance() const;
};

/// **Pre** as many samples on either side, at least one.
[[nodiscard]] Comparison compare(const Samples& samples);

/// Beyond this disturbance the machine did something else meanwhile.
inline constexpr double disturbance_max = 1.3;

enum class Verdict { checked, met, missed, disturbed };
[[nodiscard]] std::string_view name_of(Verdict verdict);

/// A disturbed comparison neither meets nor misses its limit.
[[nodiscard]] Verdict judge(const Comparison& comparison, double limit);

}  // namespace assay::yardstick
