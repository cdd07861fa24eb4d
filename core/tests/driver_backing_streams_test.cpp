// What the stream of a block orders: frees, copies between two blocks, and blocks of a pool.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "assay/backing/fault.hpp"
#include "assay/backing/slab_pool.hpp"
#include "assay/backing/statistics.hpp"
#include "driver_backings.hpp"

namespace assay::cuda {
namespace {

// A freed block is waited for by its own stream: the model would diagnose a free in flight.
TEST_F(DriverBackings, AFreeWaitsForTheStreamOfTheBlock) {
  const Ref<Stream> stream = Stream::make(context_).value();
  const Ref<Backing> device = Device::make(context_).value();
  const Request request{.size = 5000, .init = Init::zero, .stream = {stream->handle()}};
  const Block block = device->allocate(request).value();
  ASSERT_TRUE(device->fill(block, 0, 5000, std::byte{1}));
  EXPECT_FALSE(stream->finished().value()) << "the fill is only queued";
  EXPECT_EQ(device->deallocate(block, request), Freed::now);
  EXPECT_TRUE(stream->finished().value());
  EXPECT_EQ(model().diagnosis_count(), 0u);
}

// Neither source knows the other's blocks, so each is asked for the stream of its own.
TEST_F(DriverBackings, CopiesBetweenTwoWaitForTheStreamsOfBothBlocks) {
  constexpr std::size_t size = 4096;
  const Ref<Stream> reading = Stream::make(context_).value();
  const Ref<Stream> writing = Stream::make(context_).value();
  auto sources = all();
  auto targets = all();  // of their own: two device backings on one device among them
  sources.push_back(Statistics::make(Device::make(context_).value()));
  sources.push_back(SlabPool::make(Device::make(context_).value()));
  targets.push_back(SlabPool::make(Device::make(context_).value()));
  const auto queue_fill = [&](Block block, unsigned char value, const Stream& stream) {
    const auto current = Current::of(*context_);
    ASSERT_EQ(table().cuMemsetD8Async(block.address, value, size, stream.handle()),
              Status::success);
  };
  for (const auto& from : sources) {
    for (const auto& to : targets) {
      const Request source{.size = size, .stream = {reading->handle()}};
      const Request target{.size = size, .stream = {writing->handle()}};
      const Block a = from->allocate(source).value();
      const Block b = to->allocate(target).value();
      queue_fill(a, 1, *reading);
      queue_fill(a, 6, *reading);
      queue_fill(b, 9, *writing);
      const auto copied = to->copy_between(b, 0, *from, a, 0, size);
      ASSERT_TRUE(copied) << describe(copied.error());
      EXPECT_THAT(bytes_of(*to, b, size), testing::Each(std::byte{6}))
          << from->info().id << " to " << to->info().id;
      EXPECT_EQ(from->deallocate(a, source), Freed::now);
      EXPECT_EQ(to->deallocate(b, target), Freed::now);
    }
  }
  EXPECT_EQ(model().diagnosis_count(), 0u);
}

// A chunk outlives the request that it was got for, and its slots are of many requests.
TEST_F(DriverBackings, APoolTiesNoChunkToAStream) {
  for (const auto& leaf : all()) {
    const Ref<Backing> pool = SlabPool::make(leaf);
    for (const std::size_t size : {std::size_t{100}, std::size_t{4096}, std::size_t{200'000}}) {
      {
        const Ref<Stream> gone = Stream::make(context_).value();
        const Request request{.size = size, .stream = {gone->handle()}};
        const Block block = pool->allocate(request).value();
        EXPECT_EQ(pool->deallocate(block, request), Freed::now);
      }
      const Request request{.size = size, .init = Init::zero};
      const auto block = pool->allocate(request);
      ASSERT_TRUE(block) << leaf->info().id << ": " << describe(block.error());
      EXPECT_THAT(bytes_of(*pool, block.value(), size), testing::Each(std::byte{0}));
      EXPECT_TRUE(pool->fill(block.value(), 0, size, std::byte{1}));
      EXPECT_EQ(pool->deallocate(block.value(), request), Freed::now);
    }
  }
  EXPECT_EQ(model().diagnosis_count(), 0u);
}

TEST_F(DriverBackings, EachBlockOfAPoolFollowsItsOwnStream) {
  const Ref<Stream> first = Stream::make(context_).value();
  const Ref<Stream> second = Stream::make(context_).value();
  const auto queue_fill = [&](Block block, unsigned char value, std::size_t size) {
    const auto current = Current::of(*context_);
    ASSERT_EQ(table().cuMemsetD8Async(block.address, value, size, second->handle()),
              Status::success);
  };
  for (const auto& leaf : all()) {
    const Ref<Backing> pool = SlabPool::make(leaf);
    for (const std::size_t size : {std::size_t{100}, std::size_t{4096}}) {
      const Request one{.size = size, .stream = {first->handle()}};
      const Request two{.size = size, .stream = {second->handle()}};
      const Block a = pool->allocate(one).value();
      Block b = pool->allocate(two).value();
      EXPECT_EQ(b.capacity, pool->footprint(two));
      queue_fill(b, 6, size);
      EXPECT_THAT(bytes_of(*pool, b, size), testing::Each(std::byte{6})) << leaf->info().id;
      queue_fill(b, 7, size);
      ASSERT_TRUE(pool->fill(b, 0, size, std::byte{8}));
      EXPECT_THAT(bytes_of(*pool, b, size), testing::Each(std::byte{8})) << leaf->info().id;
      // Bytes that come back into use are zeroed behind the work that was queued on them.
      queue_fill(b, 9, size);
      Request half = two;
      half.size = size / 2;
      b = pool->resize(b, two, half, MayMove::no).value();
      Request whole = two;
      whole.init = Init::zero;
      b = pool->resize(b, half, whole, MayMove::no).value();
      ASSERT_TRUE(second->synchronize());
      const auto found = bytes_of(*pool, b, size);
      EXPECT_EQ(found[size / 2 - 1], std::byte{9}) << leaf->info().id;
      EXPECT_EQ(found[size / 2], std::byte{0}) << leaf->info().id;
      EXPECT_EQ(pool->deallocate(b, whole), Freed::now);
      EXPECT_EQ(pool->deallocate(a, one), Freed::now);
    }
    // A slot has no stream; a resize that asks for one moves the block.
    const Request plain{.size = 4096};
    const Request ordered{.size = 4090, .stream = {second->handle()}};
    const Block slot = pool->allocate(plain).value();
    EXPECT_EQ(pool->resize(slot, plain, ordered, MayMove::no).error().code,
              ErrorCode::not_supported);
    const Block moved = pool->resize(slot, plain, ordered, MayMove::yes).value();
    EXPECT_EQ(moved.capacity, pool->footprint(ordered));
    queue_fill(moved, 5, 4090);
    EXPECT_THAT(bytes_of(*pool, moved, 4090), testing::Each(std::byte{5}));
    EXPECT_EQ(pool->deallocate(moved, ordered), Freed::now);
  }
  EXPECT_EQ(model().diagnosis_count(), 0u);
}

// Where the upstream cannot resize, the pool keeps the block and zeroes what comes into use again.
TEST_F(DriverBackings, APoolZeroesBehindTheStreamOfABlock) {
  const Ref<Stream> stream = Stream::make(context_).value();
  for (const auto& leaf : all()) {
    const auto fixed = Fault::make(leaf);
    fixed->plan(Fault::On::resize, {.every = 1, .code = ErrorCode::not_supported});
    const Ref<Backing> pool = SlabPool::make(fixed);
    const Request whole{.size = 4096, .init = Init::zero, .stream = {stream->handle()}};
    Request half = whole;
    half.size = 2048;
    Block block = pool->allocate(whole).value();
    block = pool->resize(block, whole, half, MayMove::no).value();
    {
      const auto current = Current::of(*context_);
      ASSERT_EQ(table().cuMemsetD8Async(block.address, 9, 4096, stream->handle()), Status::success);
    }
    block = pool->resize(block, half, whole, MayMove::no).value();
    ASSERT_TRUE(stream->synchronize());
    const auto found = bytes_of(*pool, block, 4096);
    EXPECT_EQ(found[2047], std::byte{9}) << leaf->info().id;
    EXPECT_EQ(found[2048], std::byte{0}) << leaf->info().id;
    EXPECT_EQ(pool->deallocate(block, whole), Freed::now);
  }
}

}  // namespace
}  // namespace assay::cuda
