// device_virtual on the model of a driver, whatever its profile: growth in place, moves without a
// copy, and what is left when a step fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "assay/backing/make_backing.hpp"
#include "assay/backing/quota.hpp"
#include "assay/buffer/unified_buffer.hpp"
#include "driver_backings.hpp"
#include "spec_checks.hpp"

namespace assay::cuda {
namespace {

class DeviceVirtualTest : public DriverBackings {
 protected:
  /// The backing; where the profile has no such memory, nothing, after it was refused by name.
  Ref<DeviceVirtual> made(const DeviceVirtual::Options& options = {}) {
    auto backing = DeviceVirtual::make(context_, options);
    EXPECT_EQ(backing.has_value(),
              context_->facts().has(abi::DeviceAttribute::virtual_memory_management_supported));
    if (backing) return std::move(backing).value();
    EXPECT_EQ(backing.error().code, ErrorCode::not_supported);
    EXPECT_STREQ(backing.error().feature, "virtual memory management");
    EXPECT_EQ(backing.error().native, 0);
    return {};
  }
  void write(Backing& backing, Block block, std::size_t offset, std::byte value) {
    const std::vector<std::byte> bytes(64, value);
    ASSERT_TRUE(backing.copy_in(block, offset, bytes));
  }
  void expect(Backing& backing, Block block, std::size_t offset, std::byte value) {
    std::vector<std::byte> bytes(64);
    const auto copied = backing.copy_out(block, offset, bytes);
    ASSERT_TRUE(copied) << describe(copied.error());
    EXPECT_THAT(bytes, testing::Each(value));
  }
  [[nodiscard]] std::uint64_t copies() const {
    return model().calls("cuMemcpyDtoDAsync_v2") + model().calls("cuMemcpyDtoHAsync_v2") +
           model().calls("cuMemcpyHtoDAsync_v2") + model().calls("cuMemcpyAsync");
  }
  void expect_nothing_left() const {
    EXPECT_EQ(model().live_objects(assay_model_reservation), 0u);
    EXPECT_EQ(model().live_objects(assay_model_physical), 0u);
    EXPECT_EQ(model().live_objects(assay_model_mapping), 0u);
    EXPECT_EQ(model().diagnosis_count(), 0u);
  }
};

TEST_F(DeviceVirtualTest, TheGranularityIsTheDriversAndTheFootprintIsExact) {
  const Ref<DeviceVirtual> backing = made();
  if (!backing) return;
  const std::size_t unit = backing->info().granularity;
  abi::AllocationProp prop{};
  prop.type = abi::AllocationType::pinned;
  prop.location = {abi::LocationType::device, 0};
  std::size_t asked = 0;
  ASSERT_EQ(table().cuMemGetAllocationGranularity(&asked, &prop, abi::GranularityFlags::minimum),
            Status::success);
  EXPECT_EQ(unit, asked);
  for (const std::size_t size : {std::size_t{1}, unit, unit + 1, 3 * unit - 1}) {
    const Request request{.size = size, .reserve = 10 * unit};
    const Block block = backing->allocate(request).value();
    EXPECT_EQ(block.capacity, (size + unit - 1) / unit * unit);
    EXPECT_EQ(block.capacity, backing->footprint(request));
    EXPECT_EQ(block.capacity, backing->charge(request)) << "addresses cost nothing";
    EXPECT_EQ(model().live_bytes(assay_model_physical), block.capacity);
    EXPECT_EQ(backing->usage().reserved_bytes, block.capacity);
    EXPECT_EQ(backing->deallocate(block, request), Freed::now);
  }
  expect_nothing_left();
}

TEST_F(DeviceVirtualTest, AnAlignmentCostsAddressesOnly) {
  const Ref<DeviceVirtual> backing = made();
  if (!backing) return;
  const Request request{.size = 1, .alignment = alignment_max};
  const Block block = backing->allocate(request).value();
  EXPECT_TRUE(is_aligned(block.address, alignment_max));
  EXPECT_EQ(model().live_bytes(assay_model_physical), backing->info().granularity);
  EXPECT_EQ(backing->deallocate(block, request), Freed::now);
  expect_nothing_left();
}

TEST_F(DeviceVirtualTest, GrowthWithinTheReserveMapsAndCopiesNothing) {
  const Ref<DeviceVirtual> backing = made();
  if (!backing) return;
  const std::size_t unit = backing->info().granularity;
  const Request small{.size = unit, .reserve = 4 * unit};
  Request large = small;
  large.size = 4 * unit;
  model().set_faults("");
  const Block block = backing->allocate(small).value();
  EXPECT_EQ(model().calls("*"), 8u) << "5 of the driver's, 3 for the context";
  write(*backing, block, unit - 64, std::byte{7});
  model().set_faults("");
  const auto grown = backing->resize(block, small, large, MayMove::no);
  ASSERT_TRUE(grown) << describe(grown.error());
  EXPECT_EQ(model().calls("cuMemCreate"), 1u);
  EXPECT_EQ(model().calls("cuMemMap"), 1u);
  EXPECT_EQ(model().calls("cuMemRelease"), 1u);
  EXPECT_EQ(model().calls("cuMemSetAccess"), 1u);
  EXPECT_EQ(model().calls("*"), 7u);
  EXPECT_EQ(copies(), 0u);
  EXPECT_EQ(grown.value(), (Block{block.address, 4 * unit}));
  expect(*backing, block, unit - 64, std::byte{7});
  write(*backing, grown.value(), 4 * unit - 64, std::byte{9});
  expect(*backing, grown.value(), 4 * unit - 64, std::byte{9});
  // Beyond it nothing moves unasked.
  Request beyond = large;
  beyond.size = 4 * unit + 1;
  const auto refused = backing->resize(grown.value(), large, beyond, MayMove::no);
  EXPECT_EQ(refused.error().code, ErrorCode::not_supported);
  EXPECT_EQ(refused.error().limit, 4 * unit);
  model().set_faults("");
  EXPECT_EQ(backing->deallocate(grown.value(), large), Freed::now);
  EXPECT_EQ(model().calls("cuMemUnmap"), 1u) << "all pieces at once";
  EXPECT_EQ(model().calls("*"), 5u);
  expect_nothing_left();
}

TEST_F(DeviceVirtualTest, AMoveTakesThePagesAlong) {
  const Ref<DeviceVirtual> backing = made();
  if (!backing) return;
  const std::size_t unit = backing->info().granularity;
  const Ref<Stream> stream = Stream::make(context_).value();
  for (const StreamRef home : {StreamRef{}, StreamRef{stream->handle()}}) {
    const Request small{.size = 2 * unit, .stream = home};
    Request large = small;
    large.size = 5 * unit;
    large.init = Init::zero;
    const Block block = backing->allocate(small).value();
    write(*backing, block, 0, std::byte{3});
    write(*backing, block, 2 * unit - 64, std::byte{4});
    // Its stream is waited for before the old addresses go.
    ASSERT_TRUE(backing->fill(block, 64, 64, std::byte{5}));
    model().set_faults("");
    const auto moved = backing->resize(block, small, large, MayMove::yes);
    ASSERT_TRUE(moved) << describe(moved.error());
    EXPECT_EQ(model().calls("cuMemRetainAllocationHandle"), 1u);
    EXPECT_EQ(model().calls("cuMemCreate"), 1u);
    EXPECT_EQ(copies(), 0u) << "no byte is copied";
    EXPECT_NE(moved.value().address, block.address);
    EXPECT_EQ(model().live_bytes(assay_model_physical), 5 * unit);
    EXPECT_EQ(model().live_objects(assay_model_reservation), 1u);
    expect(*backing, moved.value(), 0, std::byte{3});
    expect(*backing, moved.value(), 64, std::byte{5});
    expect(*backing, moved.value(), 2 * unit - 64, std::byte{4});
    expect(*backing, moved.value(), 2 * unit, std::byte{0});
    expect(*backing, moved.value(), 5 * unit - 64, std::byte{0});
    EXPECT_EQ(backing->deallocate(block, small), Freed::refused) << "it lives elsewhere";
    EXPECT_EQ(backing->deallocate(moved.value(), large), Freed::now);
  }
  expect_nothing_left();
}

TEST_F(DeviceVirtualTest, AShrinkGivesWholePiecesBack) {
  const Ref<DeviceVirtual> backing = made({.piece_max = 1});  // a piece is a granule
  if (!backing) return;
  const std::size_t unit = backing->info().granularity;
  const Request large{.size = 6 * unit};
  Request small = large;
  small.size = unit + 1;
  const Block block = backing->allocate(large).value();
  write(*backing, block, unit, std::byte{6});
  const Block less = backing->resize(block, large, small, MayMove::no).value();
  EXPECT_EQ(less, (Block{block.address, 2 * unit}));
  EXPECT_EQ(model().live_bytes(assay_model_physical), 2 * unit);
  EXPECT_EQ(backing->held_by(less), 2 * unit);
  expect(*backing, less, unit, std::byte{6});
  // What comes back is zeroed, though other memory lies there now.
  Request zeroed = large;
  zeroed.init = Init::zero;
  const Block more = backing->resize(less, small, zeroed, MayMove::no).value();
  expect(*backing, more, unit + 64, std::byte{0});
  expect(*backing, more, 6 * unit - 64, std::byte{0});
  EXPECT_EQ(backing->deallocate(more, zeroed), Freed::now);
  expect_nothing_left();
}

// Every step of a growth in place and of a move, failing once: as before, and nothing lost.
TEST_F(DeviceVirtualTest, AFailedResizeChangesNothing) {
  const Ref<DeviceVirtual> backing = made({.piece_max = 1});
  if (!backing) return;
  const std::size_t unit = backing->info().granularity;
  const auto tenant = Tenant::make();
  const Ref<Backing> quota = Quota::make(tenant, backing);
  for (const std::size_t reserve : {std::size_t{0}, 8 * unit}) {
    const Request small{.size = 2 * unit, .reserve = reserve};
    Request large = small;
    large.size = 4 * unit;
    large.init = Init::zero;
    const Block block = quota->allocate(small).value();
    write(*quota, block, 2 * unit - 64, std::byte{8});
    for (const char* fault : {"cuMemAddressReserve:1:2", "cuMemCreate:1:2", "cuMemCreate:2:2",
                              "cuMemMap:1:2", "cuMemMap:2:2", "cuMemRetainAllocationHandle:2:1",
                              "cuMemSetAccess:1:1", "cuMemsetD8Async:1:1", "cuMemUnmap:1:1"}) {
      const bool of_moves = std::string_view(fault).contains("Reserve") ||
                            std::string_view(fault).contains("Retain") ||
                            std::string_view(fault).contains("Unmap");
      if (reserve != 0 && of_moves) continue;
      model().set_faults(fault);
      const auto failed = quota->resize(block, small, large, MayMove::yes);
      model().set_faults("");
      ASSERT_FALSE(failed) << fault;
      EXPECT_NE(failed.error().native, 0) << fault;
      EXPECT_EQ(failed.error().lost, 0u) << fault;
      expect(*quota, block, 2 * unit - 64, std::byte{8});
      EXPECT_EQ(model().live_bytes(assay_model_physical), 2 * unit) << fault;
      EXPECT_EQ(model().live_objects(assay_model_reservation), 1u) << fault;
      EXPECT_EQ(tenant->account().charged, 2 * unit) << fault;
    }
    EXPECT_EQ(quota->deallocate(block, small), Freed::now);
  }
  expect_nothing_left();
}

// A growth that cannot be undone either is lost in sight of the account, until its block goes.
TEST_F(DeviceVirtualTest, WhatCannotBeUndoneIsTold) {
  const Ref<DeviceVirtual> backing = made();
  if (!backing) return;
  const std::size_t unit = backing->info().granularity;
  const Request small{.size = unit, .reserve = 4 * unit};
  Request large = small;
  large.size = 3 * unit;
  const Block block = backing->allocate(small).value();
  model().set_faults("cuMemSetAccess:1:1,cuMemUnmap:every:1:1");
  const auto failed = backing->resize(block, small, large, MayMove::no);
  model().set_faults("");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().lost, 2 * unit);
  EXPECT_EQ(backing->incidents().held_bytes, 2 * unit);
  EXPECT_EQ(backing->usage().reserved_bytes, model().live_bytes(assay_model_physical));
  const Block grown = backing->resize(block, small, large, MayMove::no).value();
  EXPECT_EQ(backing->incidents().held_bytes, 0u) << "the next growth found them";
  write(*backing, grown, 3 * unit - 64, std::byte{2});
  expect(*backing, grown, 3 * unit - 64, std::byte{2});
  EXPECT_EQ(backing->deallocate(grown, large), Freed::now);
  expect_nothing_left();
}

TEST_F(DeviceVirtualTest, AFailedFreeIsHeldAndTriedOnceMore) {
  {
    const Ref<DeviceVirtual> backing = made();
    if (!backing) return;
    const Request request{.size = 1000};
    const Block block = backing->allocate(request).value();
    model().set_faults("cuMemUnmap:1:1");
    EXPECT_EQ(backing->deallocate(block, request), Freed::failed);
    EXPECT_EQ(backing->incidents().held_bytes, block.capacity);
    EXPECT_EQ(backing->deallocate(block, request), Freed::refused);
    // Addresses that do not come back are no memory: the free was one.
    const Block other = backing->allocate(request).value();
    model().set_faults("cuMemAddressFree:every:1:1");
    EXPECT_EQ(backing->deallocate(other, request), Freed::now);
    EXPECT_EQ(model().live_bytes(assay_model_physical), block.capacity);
    EXPECT_EQ(model().live_objects(assay_model_reservation), 2u);
    model().set_faults("");
  }
  expect_nothing_left();
}

TEST_F(DeviceVirtualTest, MoreThanTheDeviceHasIsRefusedAtOnce) {
  const Ref<DeviceVirtual> backing = made();
  if (!backing) return;
  model().set_faults("");
  const auto refused = backing->allocate({.size = std::size_t{1} << 50});
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(model().calls("cuMemCreate"), 0u);
}

TEST_F(DeviceVirtualTest, UnifiedBufferGrowsInPlaceOnTheDevice) {
  const Ref<DeviceVirtual> backing = made();
  if (!backing) return;
  const std::size_t unit = backing->info().granularity;
  auto buffer = UnifiedBuffer::create_with_capacity(unit, 4 * unit, {.backing = backing}).value();
  const std::vector<std::byte> content(64, std::byte{0x31});
  ASSERT_TRUE(buffer.write_at(unit - 64, content));
  ASSERT_TRUE(buffer.resize(4 * unit));
  std::vector<std::byte> found(128);
  ASSERT_TRUE(buffer.read_at(unit - 64, found));
  EXPECT_EQ(found[63], std::byte{0x31});
  EXPECT_EQ(found[64], std::byte{0});
}

TEST(DeviceVirtualSpecs, AreBuiltAndErrorsPointAtTheWord) {
  ::setenv(Driver::path_variable, ASSAY_MODEL_LIBRARY, 1);
  expect_built(
      {"device_virtual", "device_virtual(piece=2MiB, device=0)", "quota(512MiB, device_virtual)"});
  expect_refused(
      {{"device_virtual(device=9)", 23, "there is no device 9"},
       {"device_virtual(piece=huge)", 22, "'huge'"},
       {"device_virtual(max_size=1MiB)", 16, "device_virtual does not take 'max_size'"}});
}

}  // namespace
}  // namespace assay::cuda
