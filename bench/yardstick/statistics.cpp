#include "statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "assay/base/contract.hpp"

namespace assay::yardstick {
namespace {

double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

double rise(const Spread& spread) {
  return spread.p10 > 0 ? spread.median / spread.p10 : INFINITY;
}

}  // namespace

Spread spread_of(std::vector<double> samples) {
  ASSAY_CONTRACT(!samples.empty(), "no sample has no spread");
  std::ranges::sort(samples);
  return {quantile(samples, 0.5), quantile(samples, 0.1), quantile(samples, 0.9)};
}

double Comparison::disturbance() const {
  return std::max(rise(operation), rise(yardstick));
}

Comparison compare(const Samples& samples) {
  ASSAY_CONTRACT(samples.operation_ns.size() == samples.yardstick_ns.size(), "windows are paired");
  Comparison result;
  result.operation = spread_of(samples.operation_ns);
  result.yardstick = spread_of(samples.yardstick_ns);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < samples.operation_ns.size(); ++i) {
    ratios.push_back(samples.operation_ns[i] / samples.yardstick_ns[i]);
  }
  result.ratios = spread_of(std::move(ratios));
  result.ratio = result.operation.median / result.yardstick.median;
  return result;
}

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::checked: return "checked";
    case Verdict::met: return "met";
    case Verdict::missed: return "missed";
    case Verdict::disturbed: return "disturbed";
  }
  return "";
}

Verdict judge(const Comparison& comparison, double limit) {
  if (!(comparison.disturbance() <= disturbance_max)) return Verdict::disturbed;
  return comparison.ratio <= limit ? Verdict::met : Verdict::missed;
}

}  // namespace assay::yardstick
