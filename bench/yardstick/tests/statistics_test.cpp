// What windows come to, on samples that are known.
#include "statistics.hpp"

#include <gtest/gtest.h>

#include "crew.hpp"

namespace assay::yardstick {
namespace {

/// 1, 2, ... n, times `factor`, out of order.
std::vector<double> ramp(std::size_t n, double factor) {
  std::vector<double> samples;
  for (std::size_t i = 0; i < n; ++i) {
    samples.push_back(factor * static_cast<double>((i * 7) % n + 1));
  }
  return samples;
}

TEST(Statistics, QuantilesAreInterpolatedBetweenRanks) {
  const Spread odd = spread_of(ramp(101, 1));
  EXPECT_DOUBLE_EQ(odd.median, 51);
  EXPECT_DOUBLE_EQ(odd.p10, 11);
  EXPECT_DOUBLE_EQ(odd.p90, 91);
  const Spread even = spread_of({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(even.median, 2.5);
  EXPECT_DOUBLE_EQ(even.p10, 1.3);
  EXPECT_DOUBLE_EQ(even.p90, 3.7);
  const Spread single = spread_of({5});
  EXPECT_DOUBLE_EQ(single.median, 5);
  EXPECT_DOUBLE_EQ(single.p10, 5);
  EXPECT_DOUBLE_EQ(single.p90, 5);
}

TEST(Statistics, TheRatioIsOfTheMediansAndItsSpreadOfThePairs) {
  const Comparison compared = compare({{2, 4, 60}, {1, 4, 5}});
  EXPECT_DOUBLE_EQ(compared.ratio, 1);
  EXPECT_DOUBLE_EQ(compared.ratios.median, 2);  // of 2, 1 and 12
  EXPECT_DOUBLE_EQ(compared.ratios.p90, 10);
}

TEST(Statistics, ALimitIsMetUpToItsValue) {
  const Comparison compared = compare({{3, 3, 3}, {2, 2, 2}});
  EXPECT_EQ(judge(compared, 1.5), Verdict::met);
  EXPECT_EQ(judge(compared, 1.49), Verdict::missed);
}

TEST(Statistics, EitherSideDisturbedIsNoVerdict) {
  const std::vector<double> steady(101, 10);
  std::vector<double> risen(101, 13.1);  // a fifth of the windows ran free
  std::fill_n(risen.begin(), 20, 10);
  EXPECT_NEAR(compare({risen, steady}).disturbance(), 1.31, 1e-12);
  EXPECT_EQ(judge(compare({risen, steady}), 100), Verdict::disturbed);
  EXPECT_EQ(judge(compare({steady, risen}), 100), Verdict::disturbed);
  EXPECT_EQ(judge(compare({steady, risen}), 0), Verdict::disturbed);
  std::vector<double> rarely(101, 10);  // a few slow windows are what medians are for
  std::fill_n(rarely.begin(), 40, 1000);
  EXPECT_EQ(judge(compare({rarely, steady}), 1), Verdict::met);
}

TEST(Statistics, AWindowOfNoTimeIsDisturbedAndNotFast) {
  EXPECT_EQ(judge(compare({{0, 0, 0}, {1, 1, 1}}), 1), Verdict::disturbed);
}

TEST(Crew, ASecondCpuIsNoHyperThreadOfTheFirstIfThereIsAnother) {
  using Cpus = std::vector<int>;
  EXPECT_EQ(two_of({0, 1, 2, 3}, "0-1"), Cpus({0, 2}));
  EXPECT_EQ(two_of({0, 1, 2, 3}, "0,2"), Cpus({0, 1}));
  EXPECT_EQ(two_of({4, 5, 6, 40}, "0-5,6"), Cpus({4, 40}));
  EXPECT_EQ(two_of({0, 1, 2}, "0-2"), Cpus({0, 1}));
  EXPECT_EQ(two_of({0, 1, 2}, ""), Cpus({0, 1}));
  EXPECT_EQ(two_of({0, 1}, "0-1"), Cpus({0, 1}));
  EXPECT_EQ(two_of({3}, "3"), Cpus({3}));
}

TEST(Crew, BothThreadsWorkInEveryRound) {
  Crew crew(cpus().back());
  std::atomic<int> calls{0};
  for (int round = 1; round <= 100; ++round) {
    crew.run([&] { calls.fetch_add(1); });
    EXPECT_EQ(calls.load(), 2 * round);
  }
}

}  // namespace
}  // namespace assay::yardstick
