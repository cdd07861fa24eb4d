// device_pool on the model of a driver, whatever its profile: what a block costs in driver calls,
// what its streams order, and what its largest size and its threshold mean.
#include <unistd.h>

#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "assay/backing/make_backing.hpp"
#include "assay/backing/quota.hpp"
#include "driver_backings.hpp"
#include "spec_checks.hpp"

namespace assay::cuda {
namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;

class DevicePoolTest : public DriverBackings {
 protected:
  /// A pool; where the profile has none, nothing, after it was refused by name.
  Ref<DevicePool> pool(const DevicePool::Options& options = {}) {
    auto made = DevicePool::make(context_, options);
    const bool has = context_->facts().has(abi::DeviceAttribute::memory_pools_supported);
    EXPECT_EQ(made.has_value(), has);
    if (made) return std::move(made).value();
    EXPECT_EQ(made.error().code, ErrorCode::not_supported);
    EXPECT_STREQ(made.error().feature, "memory pools");
    EXPECT_EQ(made.error().native, 0);
    return {};
  }
  [[nodiscard]] bool driver_has_max_size() const { return driver_->version() >= 12020; }
};

// Besides the driver's own call: the context's id or state, a push and a pop.
TEST_F(DevicePoolTest, ABlockOnAStreamIsOneCallEachWayAndWaitsForNothing) {
  const Ref<DevicePool> backing = pool();
  if (!backing) return;
  const Ref<Stream> stream = Stream::make(context_).value();
  const Request request{.size = 5000, .stream = {stream->handle()}};
  model().set_faults("");
  const Block block = backing->allocate(request).value();
  EXPECT_EQ(model().calls("cuMemAllocFromPoolAsync"), 1u);
  EXPECT_EQ(model().calls("*"), 4u);
  model().set_faults("");
  EXPECT_EQ(backing->deallocate(block, request), Freed::now);
  EXPECT_EQ(model().calls("cuMemFreeAsync"), 1u);
  EXPECT_EQ(model().calls("*"), 4u);
}

TEST_F(DevicePoolTest, ABlockWithoutAStreamWaitsOnceForTheOwnOne) {
  const Ref<DevicePool> backing = pool();
  if (!backing) return;
  for (const Init init : {Init::undefined, Init::zero}) {
    const Request request{.size = 5000, .init = init};
    model().set_faults("");
    const Block block = backing->allocate(request).value();
    EXPECT_EQ(model().calls("cuStreamSynchronize"), 1u);
    EXPECT_EQ(model().calls("*"), init == Init::zero ? 6u : 5u);
    model().set_faults("");
    EXPECT_EQ(backing->deallocate(block, request), Freed::now);
    EXPECT_EQ(model().calls("*"), 4u);
  }
}

// The free queues behind the fill: waiting for it is nobody's business but the stream's.
TEST_F(DevicePoolTest, AFreeComesBehindTheWorkOfItsStream) {
  const Ref<DevicePool> backing = pool();
  if (!backing) return;
  const Ref<Stream> stream = Stream::make(context_).value();
  const Request request{.size = 5000, .init = Init::zero, .stream = {stream->handle()}};
  for (int round = 0; round < 3; ++round) {
    const Block block = backing->allocate(request).value();
    ASSERT_TRUE(backing->fill(block, 0, 5000, std::byte{1}));
    EXPECT_EQ(backing->deallocate(block, request), Freed::now);
    EXPECT_FALSE(stream->finished().value());
  }
  ASSERT_TRUE(stream->synchronize());
  EXPECT_EQ(model().diagnosis_count(), 0u);
}

TEST_F(DevicePoolTest, AFreeOnAnotherStreamComesBehindBoth) {
  const Ref<DevicePool> backing = pool();
  if (!backing) return;
  const Ref<Stream> stream = Stream::make(context_).value();
  const Ref<Stream> other = Stream::make(context_).value();
  const Request made{.size = 5000, .init = Init::zero, .stream = {stream->handle()}};
  Request freed = made;
  freed.stream = {other->handle()};
  const Block block = backing->allocate(made).value();
  EXPECT_EQ(backing->deallocate(block, freed), Freed::now);
  EXPECT_TRUE(stream->finished().value()) << "its work was waited for";
  // A block without a stream is ready for any.
  const Request plain{.size = 5000};
  const Block anywhere = backing->allocate(plain).value();
  {
    const auto current = Current::of(*context_);
    ASSERT_EQ(table().cuMemsetD8Async(anywhere.address, 9, 5000, other->handle()), Status::success);
  }
  EXPECT_EQ(backing->deallocate(anywhere, freed), Freed::now);
  ASSERT_TRUE(other->synchronize());
  EXPECT_EQ(model().diagnosis_count(), 0u);
}

TEST_F(DevicePoolTest, TheLargestSizeHoldsWhoeverCounts) {
  const Ref<DevicePool> backing = pool({.max_size = 64 * MiB});
  if (!backing) return;
  const Request request{.size = 40 * MiB};
  const Block block = backing->allocate(request).value();
  model().set_faults("");
  const auto past = backing->allocate(request);
  ASSERT_FALSE(past);
  EXPECT_EQ(past.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(past.error().limit, 64 * MiB);
  EXPECT_EQ(past.error().in_use, 40 * MiB);
  EXPECT_LE(past.error().largest_free, 24 * MiB);
  // Below 12.2 the driver knows no largest size, and is not asked.
  EXPECT_EQ(model().calls("cuMemAllocFromPoolAsync") != 0, driver_has_max_size());
  EXPECT_EQ(backing->deallocate(block, request), Freed::now);
  const Block again = backing->allocate(request).value();
  EXPECT_EQ(backing->deallocate(again, request), Freed::now);
}

TEST_F(DevicePoolTest, ItsOwnCountIsExact) {
  if (driver_has_max_size()) return;  // the driver counts
  const Ref<DevicePool> backing = pool({.max_size = 1 * MiB});
  if (!backing) return;
  const Request whole{.size = 1 * MiB};
  for (int round = 0; round < 3; ++round) {
    const auto block = backing->allocate(whole);
    ASSERT_TRUE(block) << "exactly the limit fits, and came back: " << round;
    EXPECT_FALSE(backing->allocate({.size = 1}));
    EXPECT_EQ(backing->deallocate(block.value(), whole), Freed::now);
    model().set_faults("cuMemAllocFromPoolAsync:1:1");
    EXPECT_EQ(backing->allocate(whole).error().native, 1) << "a failed call is not charged";
    model().set_faults("");
  }
}

TEST_F(DevicePoolTest, TrimGivesBackWhatIsNotUsed) {
  const Ref<DevicePool> backing = pool();
  if (!backing) return;
  const Request request{.size = 3 * MiB};
  const Block kept = backing->allocate(request).value();
  const Block block = backing->allocate({.size = 60 * MiB}).value();
  EXPECT_EQ(backing->deallocate(block, Request{.size = 60 * MiB}), Freed::now);
  const std::uint64_t before = backing->usage().reserved_bytes;
  EXPECT_GE(before, 63 * MiB) << "a pool that keeps all keeps it";
  const auto given = backing->trim(0);
  ASSERT_TRUE(given) << describe(given.error());
  EXPECT_GT(given.value(), 0u);
  EXPECT_EQ(backing->usage().reserved_bytes, before - given.value());
  EXPECT_GE(backing->usage().reserved_bytes, 3 * MiB) << "but no live block";
  EXPECT_EQ(backing->deallocate(kept, request), Freed::now);
  ASSERT_TRUE(backing->trim(0));
  EXPECT_EQ(backing->usage().reserved_bytes, 0u);
}

TEST_F(DevicePoolTest, TheThresholdIsWhatAWaitLeaves) {
  for (const std::uint64_t threshold : {std::uint64_t{0}, DevicePool::keep_all}) {
    const Ref<DevicePool> backing = pool({.release_threshold = threshold});
    if (!backing) return;
    const Request request{.size = 3 * MiB};
    EXPECT_EQ(backing->deallocate(backing->allocate(request).value(), request), Freed::now);
    {
      const auto current = Current::of(*context_);
      ASSERT_EQ(table().cuCtxSynchronize(), Status::success);
    }
    const auto figures = backing->figures();
    ASSERT_TRUE(figures) << describe(figures.error());
    EXPECT_EQ(figures.value().used_bytes, 0u);
    EXPECT_GE(figures.value().used_peak_bytes, 3 * MiB);
    EXPECT_GE(figures.value().reserved_peak_bytes, figures.value().used_peak_bytes);
    EXPECT_EQ(figures.value().reserved_bytes == 0, threshold == 0);
  }
}

TEST_F(DevicePoolTest, AFailedFreeIsHeldAndTriedOnceMore) {
  {
    const Ref<DevicePool> backing = pool();
    if (!backing) return;
    const Ref<Stream> stream = Stream::make(context_).value();
    const Request request{.size = 1000, .stream = {stream->handle()}};
    const Block block = backing->allocate(request).value();
    model().set_faults("cuMemFreeAsync:1:1");
    EXPECT_EQ(backing->deallocate(block, request), Freed::failed);
    EXPECT_EQ(backing->incidents().failed_frees, 1u);
    EXPECT_EQ(backing->incidents().held_bytes, block.capacity);
    EXPECT_EQ(backing->deallocate(block, request), Freed::refused);
    EXPECT_EQ(model().live_objects(assay_model_pooled), 1u);
  }
  EXPECT_EQ(model().live_objects(assay_model_pooled), 0u);
  EXPECT_EQ(model().live_objects(assay_model_pool), 0u);
}

TEST_F(DevicePoolTest, ALostContextEndsInErrorsNotInAborts) {
  const auto live_and_die = [&] {
    Ref<DevicePool> backing = pool();
    if (!backing) ::_exit(0);
    const Request request{.size = 1000};
    const Block block = backing->allocate(request).value();
    model().poison(719);
    const auto refused = backing->allocate(request);
    const bool good = !refused && refused.error().code == ErrorCode::context_lost &&
                      backing->deallocate(block, request) == Freed::failed && !backing->trim(0) &&
                      backing->usage().reserved_bytes == block.capacity;
    backing = {};
    context_ = {};
    ::_exit(good ? 0 : 1);
  };
  EXPECT_EXIT(live_and_die(), testing::ExitedWithCode(0), "");
}

TEST_F(DevicePoolTest, TwoPoolsShareNothing) {
  const Ref<DevicePool> one = pool();
  const Ref<DevicePool> other = pool();
  if (!one) return;
  const Request request{.size = MiB};
  const Block block = one->allocate(request).value();
  EXPECT_EQ(other->deallocate(block, request), Freed::refused);
  EXPECT_EQ(other->figures().value().used_bytes, 0u);
  EXPECT_EQ(one->deallocate(block, request), Freed::now);
  EXPECT_GT(one->usage().reserved_bytes, 0u);
  EXPECT_EQ(other->usage().reserved_bytes, 0u);
}

TEST(DevicePoolSpecs, AreBuiltAndErrorsPointAtTheWord) {
  ::setenv(Driver::path_variable, ASSAY_MODEL_LIBRARY, 1);
  expect_built({"device_pool", "device_pool(device=0, max_size=64MiB, release_threshold=0B)",
                "quota(512MiB, device_pool)",
                "slab_pool(quota(512MiB, device_pool(max_size=256MiB)))"});
  expect_refused({{"device_pool(device=9)", 20, "there is no device 9"},
                  {"device_pool(max_size=0B)", 22, "max_size takes at least a byte"},
                  {"quota(1MiB, device_pool(max_size=3TiB))", 35, "unknown unit 'TiB'"},
                  {"device_pool(keep=1MiB)", 13, "device_pool does not take 'keep'"}});
}

}  // namespace
}  // namespace assay::cuda
