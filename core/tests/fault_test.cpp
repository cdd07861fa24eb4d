#include "assay/backing/fault.hpp"

#include <gtest/gtest.h>

#include "backing_probe.hpp"

namespace assay {
namespace {

using test::Probe;

/// Which of `count` allocations of `size` bytes fail under a plan, from 1.
std::vector<int> failing(const FaultPlan& plan, int count, std::size_t size = 16) {
  const auto fault = Fault::make(Heap::make());
  fault->plan(Fault::On::allocate, plan);
  std::vector<int> failed;
  const Request request{.size = size};
  for (int call = 1; call <= count; ++call) {
    const auto block = fault->allocate(request);
    if (block) {
      fault->deallocate(block.value(), request);
    } else {
      EXPECT_EQ(block.error().code, plan.code);
      failed.push_back(call);
    }
  }
  EXPECT_EQ(fault->calls(Fault::On::allocate), static_cast<std::uint64_t>(count));
  EXPECT_EQ(fault->injected(Fault::On::allocate), failed.size());
  return failed;
}

TEST(Fault, FailsThePlannedCalls) {
  EXPECT_EQ(failing({}, 10), (std::vector<int>{}));
  EXPECT_EQ(failing({.nth = 1}, 10), (std::vector<int>{1}));
  EXPECT_EQ(failing({.nth = 4, .code = ErrorCode::quota_exceeded}, 10), (std::vector<int>{4}));
  EXPECT_EQ(failing({.every = 3}, 10), (std::vector<int>{3, 6, 9}));
  EXPECT_EQ(failing({.calls = {2, 9}}, 10), (std::vector<int>{2, 9}));
  EXPECT_EQ(failing({.after_bytes = 64}, 7), (std::vector<int>{5, 6, 7}));
  EXPECT_EQ(failing({.after_bytes = 0}, 2), (std::vector<int>{1, 2}));
  EXPECT_EQ(failing({.nth = 2, .every = 5, .calls = {7}}, 10), (std::vector<int>{2, 5, 7, 10}));
}

TEST(Fault, AFailedCallDoesNotReachTheUpstream) {
  const auto probe = Probe::make();
  const auto fault = Fault::make(probe);
  const Request request{.size = 16};
  fault->plan(Fault::On::allocate, {.nth = 2});
  fault->plan(Fault::On::resize, {.nth = 1, .code = ErrorCode::quota_exceeded});
  const auto block = fault->allocate(request).value();
  EXPECT_FALSE(fault->allocate(request).has_value());
  EXPECT_EQ(probe->allocations(), 1u);
  const auto refused = fault->resize(block, request, {.size = 500}, MayMove::yes);
  EXPECT_EQ(refused.error().code, ErrorCode::quota_exceeded);
  EXPECT_EQ(probe->held_bytes(), 16u);
  fault->deallocate(block, request);
}

TEST(Fault, AFailedFreeKeepsTheBlockUntilTheEnd) {
  const auto probe = Probe::make();
  {
    const auto fault = Fault::make(probe);
    const Request request{.size = 16};
    fault->plan(Fault::On::deallocate, {.nth = 1});
    EXPECT_EQ(fault->deallocate(fault->allocate(request).value(), request), Freed::failed);
    EXPECT_EQ(probe->frees(), 0u);
    EXPECT_EQ(fault->deallocate(fault->allocate(request).value(), request), Freed::now);
    EXPECT_EQ(probe->held_bytes(), 16u);
  }
  EXPECT_EQ(probe->held_bytes(), 0u);
  EXPECT_EQ(probe->bad_frees(), 0u);
}

TEST(FaultDeathTest, DestroyedWithLiveBlocksNamesCountAndBytes) {
  EXPECT_DEATH(
      {
        const auto fault = Fault::make(Heap::make());
        (void)fault->allocate({.size = 100});
      },
      "fault destroyed with live blocks: 1 blocks, 112 bytes");
}

}  // namespace
}  // namespace assay
