// managed, pinned and device on the model of a driver, whatever its profile: what a caller is
// promised, and what reaches the driver.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "assay/backing/make_backing.hpp"
#include "assay/buffer/unified_buffer.hpp"
#include "driver_backings.hpp"
#include "spec_checks.hpp"

namespace assay::cuda {
namespace {

TEST_F(DriverBackings, EveryAddressIsAlignedAsAskedAndItsBaseIsFreed) {
  for (const auto& backing : all()) {
    std::vector<std::pair<Block, Request>> held;
    for (std::size_t alignment = 1; alignment <= std::size_t{1} << 24; alignment <<= 3) {
      const Request request{.size = 100, .alignment = alignment};
      const auto block = backing->allocate(request);
      ASSERT_TRUE(block) << backing->info().id << ": " << describe(block.error());
      EXPECT_TRUE(is_aligned(block.value().address, alignment)) << backing->info().id;
      EXPECT_EQ(block.value().capacity, backing->footprint(request));
      EXPECT_EQ(block.value().capacity % backing->info().granularity, 0u);
      held.emplace_back(block.value(), request);
    }
    EXPECT_EQ(backing->usage().live_blocks, held.size());
    for (const auto& [block, request] : held) {
      EXPECT_EQ(backing->deallocate(block, request), Freed::now);
    }
    EXPECT_EQ(backing->usage().reserved_bytes, 0u);
  }
  EXPECT_EQ(live_blocks(), 0u);
  EXPECT_EQ(model().diagnosis_count(), 0u);
}

TEST_F(DriverBackings, AnAlignmentOfAGibibyteIsServed) {
  for (const auto& backing : all()) {
    const Request request{.size = 1, .alignment = alignment_max};
    const auto block = backing->allocate(request);
    ASSERT_TRUE(block) << describe(block.error());
    EXPECT_TRUE(is_aligned(block.value().address, alignment_max));
    EXPECT_EQ(backing->deallocate(block.value(), request), Freed::now);
  }
}

TEST_F(DriverBackings, ZeroedBlocksReadZeroWithAndWithoutAStream) {
  const Ref<Stream> stream = Stream::make(context_).value();
  for (const auto& backing : all()) {
    for (const StreamRef home : {StreamRef{}, StreamRef{stream->handle()}}) {
      const Request request{.size = 70'001, .init = Init::zero, .stream = home};
      const Block block = backing->allocate(request).value();
      EXPECT_THAT(bytes_of(*backing, block, request.size), testing::Each(std::byte{0}));
      ASSERT_TRUE(backing->fill(block, 5, 10, std::byte{7}));
      EXPECT_EQ(bytes_of(*backing, block, 16)[5], std::byte{7});
      EXPECT_EQ(backing->deallocate(block, request), Freed::now);
    }
  }
  EXPECT_EQ(model().diagnosis_count(), 0u);
}

TEST_F(DriverBackings, WhatTheyOfferIsTrue) {
  const auto backings = all();
  EXPECT_TRUE(backings[0]->can(Capabilities::host_access | Capabilities::device_access));
  EXPECT_EQ(backings[0]->can(Capabilities::advise), concurrent());
  EXPECT_EQ(backings[0]->can(Capabilities::prefetch), concurrent());
  EXPECT_TRUE(backings[1]->can(Capabilities::host_access | Capabilities::device_access));
  EXPECT_FALSE(backings[1]->can(Capabilities::advise));
  EXPECT_TRUE(backings[2]->can(Capabilities::device_access));
  EXPECT_FALSE(backings[2]->can(Capabilities::host_access));
  const Block block = backings[2]->allocate({.size = 10}).value();
  EXPECT_EQ(backings[2]->host_bytes(block).error().code, ErrorCode::not_supported);
  backings[2]->deallocate(block, Request{.size = 10});
}

TEST_F(DriverBackings, AFreeOfWhatIsNotLiveIsRefused) {
  for (const auto& backing : all()) {
    const Request request{.size = 600, .alignment = 4096};
    const Block block = backing->allocate(request).value();
    EXPECT_EQ(backing->deallocate({block.address + 256, 16}, request), Freed::refused);
    EXPECT_EQ(backing->deallocate(block, request), Freed::now);
    EXPECT_EQ(backing->deallocate(block, request), Freed::refused);
    EXPECT_EQ(backing->resize(block, request, {.size = 700, .alignment = 4096}, MayMove::yes)
                  .error()
                  .code,
              ErrorCode::invalid_argument);
  }
  EXPECT_EQ(model().diagnosis_count(), 0u) << "the driver never heard of it";
}

TEST_F(DriverBackings, SizesAreJudgedBeforeTheDriverIsAsked) {
  for (const auto& backing : all()) {
    model().set_faults("");
    const std::uint64_t calls = model().calls("*");
    EXPECT_EQ(backing->allocate({.size = 0}).error().code, ErrorCode::zero_size);
    EXPECT_EQ(backing->allocate({.size = SIZE_MAX}).error().code, ErrorCode::too_large);
    EXPECT_EQ(backing->allocate({.size = 1, .alignment = 3}).error().code,
              ErrorCode::invalid_alignment);
    EXPECT_EQ(model().calls("*"), calls);
  }
}

TEST_F(DriverBackings, OutOfMemoryCarriesTheDriversWordsAndTheFigures) {
  model().set_capacity(std::uint64_t{8} << 20);
  model().set_host_capacity(std::uint64_t{8} << 20);
  for (const auto& backing : all()) {
    const Request request{.size = std::size_t{6} << 20};
    const Block block = backing->allocate(request).value();
    const auto refused = backing->allocate(request);
    ASSERT_FALSE(refused);
    const Error& error = refused.error();
    EXPECT_EQ(error.code, ErrorCode::out_of_memory);
    EXPECT_EQ(error.native, 2);
    EXPECT_STREQ(error.native_name, "CUDA_ERROR_OUT_OF_MEMORY");
    EXPECT_STREQ(error.backing, backing->info().id);
    EXPECT_EQ(error.requested, request.size);
    EXPECT_EQ(error.in_use, block.capacity);
    if (!backing->can(Capabilities::host_access)) {
      EXPECT_LT(error.largest_free, std::uint64_t{4} << 20);
    }
    backing->deallocate(block, request);
    const auto again = backing->allocate(request);
    ASSERT_TRUE(again) << "what was freed serves again";
    backing->deallocate(again.value(), request);
  }
}

TEST_F(DriverBackings, GrowthKeepsTheBytesAndZeroesTheNewOnes) {
  for (const auto& backing : all()) {
    Request request{.size = 1000};
    Block block = backing->allocate(request).value();
    const std::vector<std::byte> content(1000, std::byte{0x5c});
    ASSERT_TRUE(backing->copy_in(block, 0, content));
    const Request larger{.size = 300'000, .init = Init::zero};
    EXPECT_EQ(backing->resize(block, request, larger, MayMove::no).error().code,
              ErrorCode::not_supported);
    block = backing->resize(block, request, larger, MayMove::yes).value();
    const auto found = bytes_of(*backing, block, larger.size);
    EXPECT_TRUE(std::equal(content.begin(), content.end(), found.begin()));
    EXPECT_TRUE(std::all_of(found.begin() + 1000, found.end(),
                            [](std::byte byte) { return byte == std::byte{0}; }));
    backing->deallocate(block, larger);
  }
  EXPECT_EQ(live_blocks(), 0u);
}

TEST_F(DriverBackings, CopiesBetweenAnyTwoAreWhole) {
  const auto backings = all();
  const Request request{.size = 40'000};
  std::vector<std::byte> content(request.size);
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<std::byte>(i * 7);
  for (const auto& from : backings) {
    for (const auto& to : backings) {
      const Block source = from->allocate(request).value();
      const Block target = to->allocate(request).value();
      ASSERT_TRUE(from->copy_in(source, 0, content));
      const auto copied = to->copy_between(target, 0, *from, source, 0, request.size);
      ASSERT_TRUE(copied) << describe(copied.error());
      EXPECT_EQ(bytes_of(*to, target, request.size), content);
      from->deallocate(source, request);
      to->deallocate(target, request);
    }
  }
}

TEST_F(DriverBackings, CopiesWithinADeviceStayOnIt) {
  const Ref<Backing> device = Device::make(context_).value();
  const Request request{.size = 4096};
  const Block source = device->allocate(request).value();
  const Block target = device->allocate(request).value();
  ASSERT_TRUE(device->fill(source, 0, 4096, std::byte{9}));
  model().set_faults("");
  ASSERT_TRUE(device->copy_between(target, 0, *device, source, 0, 4096));
  EXPECT_EQ(model().calls("cuMemcpyDtoDAsync_v2"), 1u);
  EXPECT_EQ(model().calls("cuMemcpyDtoHAsync_v2"), 0u);
  device->deallocate(source, request);
  device->deallocate(target, request);
}

TEST_F(DriverBackings, AdviceAndPrefetchReachTheDriverOrAreRefusedWithoutACall) {
  const Ref<Backing> managed = Managed::make(context_).value();
  const Request request{.size = 256 * 1024};
  const Block block = managed->allocate(request).value();
  const Location device{Location::Kind::device, 0};
  model().set_faults("");
  const std::uint64_t calls = model().calls("*");
  if (!concurrent()) {
    EXPECT_EQ(managed->advise(block, 0, 65'536, Advice::set_read_mostly, device).error().code,
              ErrorCode::not_supported);
    EXPECT_EQ(managed->prefetch(block, 0, 65'536, device, {}).error().code,
              ErrorCode::not_supported);
    EXPECT_EQ(model().calls("*"), calls);
  } else {
    ASSERT_TRUE(managed->advise(block, 0, 131'072, Advice::set_read_mostly, device));
    EXPECT_EQ(range_attribute(abi::RangeAttribute::read_mostly, block, 131'072), 1);
    EXPECT_EQ(range_attribute(abi::RangeAttribute::read_mostly, block, 262'144), 0);
    ASSERT_TRUE(managed->advise(block, 0, 262'144, Advice::set_preferred_location, device));
    EXPECT_EQ(range_attribute(abi::RangeAttribute::preferred_location, block, 262'144), 0);
    ASSERT_TRUE(managed->prefetch(block, 0, 262'144, device, {}));
    EXPECT_EQ(range_attribute(abi::RangeAttribute::last_prefetch_location, block, 262'144), 0);
    // Not all: a driver may leave pages behind, and the model does, so that nobody relies on it.
    EXPECT_GE(model().resident_bytes(block.address, 262'144, 0), 131'072u) << "and is there";
    ASSERT_TRUE(managed->prefetch(block, 0, 262'144, {Location::Kind::host, 0}, {}));
    EXPECT_EQ(range_attribute(abi::RangeAttribute::last_prefetch_location, block, 262'144), -1);
    EXPECT_EQ(
        managed->advise(block, 0, 4096, Advice::set_accessed_by, {Location::Kind::host_numa, 0})
            .error()
            .code,
        ErrorCode::not_supported);
  }
  EXPECT_EQ(managed->advise(block, 1, request.size, Advice::set_read_mostly, device).error().code,
            ErrorCode::out_of_range);
  managed->deallocate(block, request);
}

// Each block has its granularity to itself, so advice cannot reach a neighbour.
TEST_F(DriverBackings, ManagedBlocksLieAloneInTheirGranules) {
  for (const std::size_t granularity : {std::size_t{64} << 10, std::size_t{2} << 20}) {
    const Ref<Backing> managed = Managed::make(context_, {.granularity = granularity}).value();
    std::vector<Block> blocks;
    for (int i = 0; i < 4; ++i) blocks.push_back(managed->allocate({.size = 10}).value());
    for (const Block block : blocks) {
      EXPECT_TRUE(is_aligned(block.address, granularity));
      EXPECT_EQ(block.capacity, granularity);
      managed->deallocate(block, Request{.size = 10});
    }
  }
  EXPECT_EQ(Managed::make(context_, {.granularity = 4096}).error().code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(Managed::make(context_, {.granularity = 100'000}).error().code,
            ErrorCode::invalid_argument);
}

TEST_F(DriverBackings, AFailedFreeIsCountedHeldAndTriedOnceMore) {
  for (const char* function : {"cuMemFree_v2", "cuMemFreeHost"}) {
    const bool host = std::string_view(function) == "cuMemFreeHost";
    const Ref<DriverBacking> backing = host ? Ref<DriverBacking>(Pinned::make(context_).value())
                                            : Ref<DriverBacking>(Device::make(context_).value());
    const Request request{.size = 1000};
    const Block block = backing->allocate(request).value();
    model().set_faults((std::string(function) + ":1:1").c_str());
    EXPECT_EQ(backing->deallocate(block, request), Freed::failed);
    EXPECT_EQ(backing->incidents().failed_frees, 1u);
    EXPECT_EQ(backing->usage().live_blocks, 0u);
    EXPECT_EQ(backing->usage().reserved_bytes, backing->incidents().held_bytes);
    EXPECT_EQ(backing->deallocate(block, request), Freed::refused) << "it is not live any more";
    EXPECT_EQ(live_blocks(), 1u);
  }
  EXPECT_EQ(live_blocks(), 0u) << "the driver took them when the backings ended";
}

TEST_F(DriverBackings, ALostContextEndsInErrorsNotInAborts) {
  // In a process of its own: what is poisoned stays so.
  const auto live_and_die = [&] {
    auto backings = all();
    const Request request{.size = 1000};
    std::vector<Block> blocks;
    for (const auto& backing : backings) blocks.push_back(backing->allocate(request).value());
    model().poison(719);
    bool good = true;
    for (std::size_t i = 0; i < backings.size(); ++i) {
      const auto refused = backings[i]->allocate(request);
      good = good && !refused && refused.error().code == ErrorCode::context_lost &&
             refused.error().native == 719 &&
             backings[i]->deallocate(blocks[i], request) == Freed::failed;
    }
    backings.clear();
    context_ = {};
    ::_exit(good ? 0 : 1);
  };
  EXPECT_EXIT(live_and_die(), testing::ExitedWithCode(0), "");
}

TEST_F(DriverBackings, ManyThreadsShareABacking) {
  for (const auto& backing : all()) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 40; ++i) {
          const Request request{.size = static_cast<std::size_t>(100 + t * 1000 + i),
                                .init = Init::zero};
          const auto block = backing->allocate(request);
          ASSERT_TRUE(block) << describe(block.error());
          const std::vector<std::byte> mine(request.size, static_cast<std::byte>(t + 1));
          ASSERT_TRUE(backing->copy_in(block.value(), 0, mine));
          EXPECT_EQ(bytes_of(*backing, block.value(), request.size), mine);
          EXPECT_EQ(backing->deallocate(block.value(), request), Freed::now);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(live_blocks(), 0u);
}

TEST_F(DriverBackings, ABlockThatIsOutWhenItsBackingEndsIsNamed) {
  const auto leave_one = [&] {
    const Ref<Backing> device = Device::make(context_).value();
    static_cast<void>(device->allocate({.size = 100}));
  };
  EXPECT_DEATH(leave_one(), "device destroyed with live blocks: 1 blocks, 256 bytes");
}

TEST_F(DriverBackings, UnifiedBufferStandsForTheDeviceOfItsBacking) {
  for (const auto& backing : all()) {
    EXPECT_EQ(backing->info().device, 0);
    auto buffer = UnifiedBuffer::create(5000, {.backing = backing}).value();
    EXPECT_EQ(buffer.device(), DeviceId{0});
    EXPECT_EQ(buffer.host_addressable(), backing->can(Capabilities::host_access));
    EXPECT_FALSE(UnifiedBuffer::create(1, {.backing = backing, .device = DeviceId{1}}));
    EXPECT_TRUE(UnifiedBuffer::create(1, {.backing = backing, .device = DeviceId{0}}));
    const std::vector<std::byte> content(5000, std::byte{3});
    ASSERT_TRUE(buffer.write_at(0, content));
    ASSERT_TRUE(buffer.resize(200'000));
    std::vector<std::byte> found(200'000);
    ASSERT_TRUE(buffer.read_at(0, found));
    EXPECT_EQ(found[4999], std::byte{3});
    EXPECT_EQ(found[5000], std::byte{0});
  }
  EXPECT_EQ(live_blocks(), 0u);
}

TEST(DriverSpecs, ErrorsPointAtTheWord) {
  ::setenv(Driver::path_variable, ASSAY_MODEL_LIBRARY, 1);
  expect_built({"device", "pinned(device=0)", "managed(attach=host, granularity=2MiB, device=0)",
                "slab_pool(quota(64MiB, managed))"});
  expect_refused({{"device(device=9)", 15, "there is no device 9"},
                  {"device(device=x)", 15, "'x' is not a number"},
                  {"pinned(heap)", 8, "pinned does not take 'heap'"},
                  {"managed(attach=all)", 16, "attach takes global or host"},
                  {"managed(granularity=4KiB)", 21, "granularity takes a power of two"},
                  {"quota(1MiB, managed(size=3))", 21, "managed does not take 'size'"}});
}

TEST(DriverSpecs, WithoutADriverTheyStillSayWhy) {
  // In a process of its own: the first driver that a process finds stays, and it may be the model.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto without_driver = [] {
    ::setenv(Driver::path_variable, "/nowhere/libcuda.so.1", 1);
    const auto backing = make_backing("slab_pool(device)");
    if (backing) std::exit(1);
    fmt::print(stderr, "column {}: {}", backing.error().column, backing.error().message);
    std::exit(0);
  };
  EXPECT_EXIT(without_driver(), testing::ExitedWithCode(0),
              "column 11: .*device needs a CUDA driver.*no_driver");
}

}  // namespace
}  // namespace assay::cuda
