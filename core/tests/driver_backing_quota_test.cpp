// A quota over the driver: what it charges, and what it knows of bytes that are lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "assay/backing/quota.hpp"
#include "assay/backing/slab_pool.hpp"
#include "driver_backings.hpp"

namespace assay::cuda {
namespace {

// Once, and the move is undone; always, and what cannot be undone is lost in sight of the account.
TEST_F(DriverBackings, AMoveThatCannotFreeTheOldBlockLosesNothingUnseen) {
  for (const auto& leaf : all()) {
    const char* function =
        leaf->info().id == std::string_view("pinned") ? "cuMemFreeHost" : "cuMemFree_v2";
    for (const char* times : {":1:1", ":every:1:1"}) {
      const bool always = std::string_view(times) != ":1:1";
      const auto tenant = Tenant::make();
      const Ref<Backing> quota = Quota::make(tenant, leaf);
      const Request small{.size = 100'000};
      const Request large{.size = 300'000};
      const Block block = quota->allocate(small).value();
      ASSERT_TRUE(quota->fill(block, 0, small.size, std::byte{5}));
      const std::uint64_t charged = tenant->account().charged;
      const std::uint64_t reserved = leaf->usage().reserved_bytes;
      model().set_faults((std::string(function) + times).c_str());
      const auto moved = quota->resize(block, small, large, MayMove::yes);
      model().set_faults("");
      ASSERT_FALSE(moved) << leaf->info().id << times;
      EXPECT_EQ(moved.error().native, 1);
      EXPECT_THAT(bytes_of(*quota, block, small.size), testing::Each(std::byte{5}));
      const std::uint64_t lost = leaf->usage().reserved_bytes - reserved;
      EXPECT_EQ(lost != 0, always);
      EXPECT_EQ(moved.error().lost, lost);
      EXPECT_EQ(describe(moved.error()).contains(", lost "), always);
      EXPECT_EQ(tenant->account().quarantined, lost);
      EXPECT_EQ(tenant->account().charged, charged + lost);
      EXPECT_EQ(quota->deallocate(block, small), Freed::now);
      EXPECT_EQ(tenant->account().charged, lost);
      EXPECT_EQ(leaf->usage().live_blocks, 0u);
    }
  }
}

// The limit is of what the driver gives, whatever it is given for.
TEST_F(DriverBackings, AQuotaChargesWhatTheDriverIsAskedFor) {
  constexpr std::size_t MiB = std::size_t{1} << 20;
  for (const auto& leaf : all()) {
    const auto tenant = Tenant::make(8 * MiB);
    const Ref<Backing> quota = Quota::make(tenant, leaf);
    model().set_faults("");
    const auto refused = quota->allocate({.size = 1, .alignment = std::size_t{1} << 30});
    EXPECT_EQ(refused.error().code, ErrorCode::quota_exceeded);
    EXPECT_EQ(refused.error().largest_free, 0u) << "the padding alone does not fit";
    EXPECT_EQ(model().calls("*"), 0u) << "refused before the driver was asked";
    std::vector<std::pair<Block, Request>> held;
    for (std::size_t size : {std::size_t{1}, std::size_t{70'000}}) {
      for (const std::size_t alignment : {std::size_t{16}, std::size_t{65'536}, MiB}) {
        const Request request{.size = size, .alignment = alignment};
        const Block block = quota->allocate(request).value();
        EXPECT_EQ(block.capacity, quota->footprint(request));
        held.emplace_back(block, request);
        EXPECT_EQ(tenant->account().charged, leaf->usage().reserved_bytes);
        EXPECT_EQ(tenant->account().charged, model().live_bytes(assay_model_device) +
                                                 model().live_bytes(assay_model_managed) +
                                                 model().live_bytes(assay_model_pinned));
      }
    }
    auto& [block, request] = held.back();
    // It would fit but for its padding.
    Request larger = request;
    larger.size = 6 * MiB;
    EXPECT_EQ(quota->resize(block, request, larger, MayMove::yes).error().code,
              ErrorCode::quota_exceeded);
    larger.size = MiB;
    block = quota->resize(block, request, larger, MayMove::yes).value();
    EXPECT_EQ(tenant->account().charged, leaf->usage().reserved_bytes);
    // Within the capacity nothing more is taken, and nothing given back.
    request.size = 10;
    block = quota->resize(block, larger, request, MayMove::yes).value();
    EXPECT_EQ(tenant->account().charged, leaf->usage().reserved_bytes);
    for (const auto& [one, made] : held) EXPECT_EQ(quota->deallocate(one, made), Freed::now);
    EXPECT_EQ(tenant->account().charged, 0u);
    EXPECT_EQ(leaf->usage().reserved_bytes, 0u);
  }
}

TEST_F(DriverBackings, AQuotaAboveAPoolChargesThePaddingOfItsDirectBlocks) {
  for (const auto& leaf : all()) {
    const auto tenant = Tenant::make();
    const Ref<Backing> quota = Quota::make(tenant, SlabPool::make(leaf));
    const Request aligned{.size = 1, .alignment = std::size_t{1} << 20};
    const Block block = quota->allocate(aligned).value();
    EXPECT_EQ(tenant->account().charged, leaf->usage().reserved_bytes);
    EXPECT_EQ(quota->deallocate(block, aligned), Freed::now);
    EXPECT_EQ(tenant->account().charged, 0u);
  }
}

}  // namespace
}  // namespace assay::cuda
