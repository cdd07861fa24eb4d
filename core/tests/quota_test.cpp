#include "assay/backing/quota.hpp"

#include <thread>

#include <gtest/gtest.h>

#include "assay/backing/fault.hpp"
#include "assay/backing/slab_pool.hpp"
#include "assay/backing/virtual_memory.hpp"
#include "assay/base/system.hpp"
#include "backing_probe.hpp"

namespace assay {
namespace {

using test::Probe;

constexpr std::size_t MiB = std::size_t{1} << 20;

// fault:B-20: in integers, exactly the limit fits and one more does not.
TEST(Quota, ExactlyTheLimitFits) {
  for (std::size_t percent = 1; percent <= 100; ++percent) {
    const auto tenant = Tenant::make(percent * 100 * 16 / 100);
    const auto quota = Quota::make(tenant, Heap::make());
    const Request request{.size = 16};
    std::vector<Block> blocks;
    for (std::size_t i = 0; i < percent; ++i) {
      blocks.push_back(quota->allocate(request).value());
    }
    EXPECT_EQ(quota->allocate(request).error().code, ErrorCode::quota_exceeded);
    for (const Block& block : blocks) quota->deallocate(block, request);
    EXPECT_EQ(tenant->account().charged, 0u);
    EXPECT_EQ(tenant->account().peak, percent * 16);
  }
}

// ub:W-18: a refusal tells what was asked, held, allowed and left, and changes nothing.
TEST(Quota, ARefusalNamesTheFiguresAndChangesNothing) {
  const auto probe = Probe::make();
  const auto tenant = Tenant::make(128);
  const auto quota = Quota::make(tenant, probe);
  const Request first{.size = 64};
  const auto block = quota->allocate(first).value();
  const auto refused = quota->allocate({.size = 100});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::quota_exceeded);
  EXPECT_STREQ(refused.error().backing, "quota");
  EXPECT_EQ(refused.error().requested, 100u);
  EXPECT_EQ(refused.error().in_use, 64u);
  EXPECT_EQ(refused.error().limit, 128u);
  EXPECT_EQ(refused.error().largest_free, 64u);
  EXPECT_EQ(probe->allocations(), 1u) << "the upstream was not asked";
  EXPECT_EQ(tenant->account().charged, 64u);
  EXPECT_EQ(quota->allocate({.size = 0}).error().code, ErrorCode::zero_size);
  quota->deallocate(block, first);
}

// ub:W-27: a byte costs what it takes, a page.
TEST(Quota, ChargesTheFootprint) {
  const auto tenant = Tenant::make(2 * page_size());
  const auto quota = Quota::make(tenant, VirtualMemory::make());
  const Request request{.size = 1, .reserve = MiB};
  const auto one = quota->allocate(request).value();
  const auto two = quota->allocate(request).value();
  EXPECT_EQ(tenant->account().charged, 2 * page_size());
  const auto refused = quota->allocate(request);
  EXPECT_EQ(refused.error().code, ErrorCode::quota_exceeded);
  EXPECT_EQ(refused.error().largest_free, 0u);
  quota->deallocate(one, request);
  quota->deallocate(two, request);
}

// ub:W-01: what was charged goes back whole, also after a shrink; a resize charges the difference.
TEST(Quota, AResizeChargesTheDifference) {
  const std::size_t page = page_size();
  const auto tenant = Tenant::make(8 * page);
  const auto quota = Quota::make(tenant, VirtualMemory::make());
  Request request{.size = 8 * page};
  auto block = quota->allocate(request).value();
  const auto resize = [&](std::size_t size) {
    Request to = request;
    to.size = size;
    const auto resized = quota->resize(block, request, to, MayMove::yes);
    if (!resized) return resized.error().code;
    block = resized.value();
    request = to;
    return ErrorCode::none;
  };
  EXPECT_EQ(resize(2 * page), ErrorCode::none);
  EXPECT_EQ(tenant->account().charged, 2 * page);
  EXPECT_EQ(resize(8 * page + 1), ErrorCode::quota_exceeded);
  EXPECT_EQ(tenant->account().charged, 2 * page);
  EXPECT_EQ(resize(8 * page), ErrorCode::none);
  EXPECT_EQ(tenant->account().charged, 8 * page);
  quota->deallocate(block, request);
  EXPECT_EQ(tenant->account().charged, 0u);
}

// ub:W-02: the credit comes after the free, not before.
TEST(Quota, CreditsOnlyWhatIsFree) {
  const auto probe = Probe::make();
  const auto tenant = Tenant::make(64);
  const auto quota = Quota::make(tenant, probe);
  std::uint64_t charged_during_free = 0;
  probe->after_free = [&](std::uint64_t) { charged_during_free = tenant->account().charged; };
  const Request request{.size = 64};
  quota->deallocate(quota->allocate(request).value(), request);
  EXPECT_EQ(charged_during_free, 64u);
  EXPECT_EQ(tenant->account().charged, 0u);
}

// ub:W-03, ub:W-05: a failure below gives the reservation back.
TEST(Quota, AFailureBelowGivesTheChargeBack) {
  const auto fault = Fault::make(Heap::make());
  const auto tenant = Tenant::make(64);
  const auto quota = Quota::make(tenant, fault);
  fault->plan(Fault::On::allocate, {.nth = 1});
  fault->plan(Fault::On::resize, {.nth = 1});
  const Request request{.size = 32};
  EXPECT_EQ(quota->allocate(request).error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(tenant->account().charged, 0u);
  const auto block = quota->allocate(request).value();
  EXPECT_FALSE(quota->resize(block, request, {.size = 64}, MayMove::yes).has_value());
  EXPECT_EQ(tenant->account().charged, 32u);
  quota->deallocate(block, request);
  EXPECT_EQ(tenant->account().charged, 0u);
}

// ub:W-04, ub:W-26: memory that could not be freed stays charged and in sight.
TEST(Quota, AFailedFreeGoesToQuarantine) {
  const auto probe = Probe::make();
  const auto tenant = Tenant::make(128);
  const auto quota = Quota::make(tenant, probe);
  const Request request{.size = 128};
  const auto block = quota->allocate(request).value();
  probe->fail_frees = true;
  EXPECT_EQ(quota->deallocate(block, request), Freed::failed);
  EXPECT_EQ(tenant->account().charged, 128u);
  EXPECT_EQ(tenant->account().quarantined, 128u);
  EXPECT_EQ(quota->allocate({.size = 1}).error().code, ErrorCode::quota_exceeded);
  tenant->reclaim(128);
  EXPECT_EQ(tenant->account().charged, 0u);
  EXPECT_EQ(tenant->account().quarantined, 0u);
}

TEST(Quota, APendingFreeStaysChargedUntilItIsDone) {
  const auto probe = Probe::make();
  const auto tenant = Tenant::make(128);
  const auto quota = Quota::make(tenant, probe);
  const Request request{.size = 128};
  const auto block = quota->allocate(request).value();
  probe->pend_frees = true;
  EXPECT_EQ(quota->deallocate(block, request), Freed::pending);
  EXPECT_EQ(tenant->account().pending, 128u);
  EXPECT_EQ(quota->allocate({.size = 1}).error().code, ErrorCode::quota_exceeded);
  quota->report_completed(128);
  EXPECT_EQ(tenant->account().charged, 0u);
  EXPECT_EQ(tenant->account().pending, 0u);
}

// ub:W-42: a limit lowered below what is held refuses new charges, and only those.
TEST(Quota, TheLimitMayChange) {
  const auto tenant = Tenant::make(100 * 16);
  const auto quota = Quota::make(tenant, Heap::make());
  const Request request{.size = 16};
  const Request large{.size = 50 * 16};
  const auto block = quota->allocate(large).value();
  tenant->set_limit(10 * 16);
  EXPECT_EQ(quota->allocate(request).error().code, ErrorCode::quota_exceeded);
  EXPECT_EQ(quota->allocate(request).error().largest_free, 0u);
  EXPECT_EQ(tenant->account().charged, 50u * 16);
  quota->deallocate(block, large);
  const Request ten{.size = 10 * 16};
  const auto fits = quota->allocate(ten).value();
  EXPECT_FALSE(quota->allocate({.size = 1}).has_value());
  tenant->set_limit(Tenant::unlimited);
  const auto more = quota->allocate(request).value();
  quota->deallocate(more, request);
  quota->deallocate(fits, ten);
}

// ub:W-31: no sum wraps, whatever the limit.
TEST(Quota, SumsDoNotWrap) {
  const auto tenant = Tenant::make(UINT64_MAX);
  EXPECT_EQ(tenant->account().limit, Tenant::unlimited);
  const auto quota = Quota::make(tenant, VirtualMemory::make());
  const Request request{.size = 100};
  const auto block = quota->allocate(request).value();
  const std::size_t largest = size_max - 2 * (std::size_t{1} << 30);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(quota->allocate({.size = largest}).has_value());
  EXPECT_EQ(tenant->account().charged, block.capacity);
  quota->deallocate(block, request);
  tenant->set_limit(0);
  EXPECT_EQ(quota->allocate(request).error().code, ErrorCode::quota_exceeded);
}

// The limit falls and rises while four threads charge: what is held never passes what stands.
TEST(Quota, ALoweredLimitIsNotOvershot) {
  const auto tenant = Tenant::make(64 * 16);
  const auto quota = Quota::make(tenant, Heap::make());
  const Request request{.size = 16};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        const auto block = quota->allocate(request);
        if (block) quota->deallocate(block.value(), request);
      }
    });
  }
  int overshot = 0;
  for (int i = 0; i < 3000; ++i) {
    tenant->set_limit(0);
    // From here on charges only go down: one seen later is never larger.
    const auto first = tenant->account().charged;
    for (int look = 0; look < 10; ++look) {
      if (tenant->account().charged > std::max<std::uint64_t>(first, 3 * 16)) ++overshot;
    }
    tenant->set_limit(64 * 16);
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(overshot, 0);
  EXPECT_EQ(tenant->account().charged, 0u);
}

// Two chains, one account.
TEST(Quota, ATenantMayBeSharedByChains) {
  const auto tenant = Tenant::make(4 * page_size());
  const auto one = Quota::make(tenant, VirtualMemory::make());
  const auto two = Quota::make(tenant, Heap::make());
  const Request request{.size = 2 * page_size()};
  const auto a = one->allocate(request).value();
  const auto b = two->allocate(request).value();
  EXPECT_FALSE(one->allocate({.size = 1}).has_value());
  EXPECT_FALSE(two->allocate({.size = 1}).has_value());
  one->deallocate(a, request);
  two->deallocate(b, request);
  EXPECT_EQ(tenant->account().charged, 0u);
}

// ub:W-29: nobody can give back what was not taken.
TEST(QuotaDeathTest, CreditsAreNotForged) {
  const auto tenant = Tenant::make(100);
  EXPECT_DEATH(tenant->reclaim(1), "more reclaimed than is in quarantine");
  const auto quota = Quota::make(tenant, Heap::make());
  EXPECT_DEATH(quota->report_completed(1), "more completed than was pending");
}

TEST(QuotaDeathTest, DestroyedWithLiveBlocksNamesCountAndBytes) {
  EXPECT_DEATH(
      {
        const auto quota = Quota::make(Tenant::make(), Heap::make());
        (void)quota->allocate({.size = 100});
      },
      "quota destroyed with live blocks: 1 blocks, 112 bytes");
}

}  // namespace
}  // namespace assay
