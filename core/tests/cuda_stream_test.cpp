// Streams, events and kernels on the model.
#include "assay/cuda/stream.hpp"

#include <array>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "assay/cuda/kernels.hpp"
#include "cuda_model.hpp"

namespace assay::cuda {
namespace {

using abi::Status;

class CudaStream : public CudaModelTest {
 protected:
  void SetUp() override {
    CudaModelTest::SetUp();
    if (HasFatalFailure()) return;
    context_ = retained();
    stream_ = Stream::make(context_).value();
  }
  void TearDown() override {
    if (driver_) model().open_gates();
    stream_ = {};
    context_ = {};
    CudaModelTest::TearDown();
  }
  /// Work of the stream waits here until open() is called.
  void close_gate() {
    const Current current = Current::of(*context_).value();
    void* word = nullptr;
    ASSERT_EQ(table().cuMemHostAlloc(&word, 8, abi::host_alloc_device_map), Status::success);
    std::memset(word, 0, 8);
    gate_ = static_cast<volatile std::uint32_t*>(word);
    ASSERT_EQ(
        table().cuStreamWaitValue32_v2(stream_->handle(), device_of(word), 1, abi::wait_value_geq),
        Status::success);
  }
  void open_gate() { *gate_ = 1; }
  void free_gate() {
    const Current current = Current::of(*context_).value();
    EXPECT_EQ(table().cuMemFreeHost(const_cast<std::uint32_t*>(gate_)), Status::success);
  }
  static abi::DevicePointer device_of(const void* pinned) {
    return reinterpret_cast<abi::DevicePointer>(pinned);  // equal under unified addressing
  }

  Ref<PrimaryContext> context_;
  Ref<Stream> stream_;
  volatile std::uint32_t* gate_ = nullptr;
};

TEST_F(CudaStream, NeedsNoCurrentContextOfItsCaller) {
  EXPECT_EQ(current(), nullptr);
  ASSERT_TRUE(stream_->synchronize());
  const auto finished = stream_->finished();
  ASSERT_TRUE(finished);
  EXPECT_TRUE(finished.value());
  EXPECT_EQ(current(), nullptr);
}

TEST_F(CudaStream, IsNotFinishedWhileItsWorkWaits) {
  close_gate();
  const Ref<Event> event = Event::make(context_).value();
  ASSERT_TRUE(event->record(*stream_));
  for (int i = 0; i < 3; ++i) {
    const auto finished = stream_->finished();
    ASSERT_TRUE(finished) << "not ready is an answer, not an error";
    EXPECT_FALSE(finished.value());
    EXPECT_FALSE(event->finished().value());
  }
  EXPECT_FALSE(context_->lost());
  open_gate();
  ASSERT_TRUE(stream_->synchronize());
  EXPECT_TRUE(stream_->finished().value());
  EXPECT_TRUE(event->finished().value());
  free_gate();
}

TEST_F(CudaStream, AnotherStreamWaitsForTheEvent) {
  close_gate();
  const Ref<Event> event = Event::make(context_).value();
  ASSERT_TRUE(event->record(*stream_));
  const Ref<Stream> other = Stream::make(context_).value();
  ASSERT_TRUE(other->wait(*event));
  EXPECT_FALSE(other->finished().value());
  open_gate();
  ASSERT_TRUE(other->synchronize());
  EXPECT_TRUE(event->finished().value());
  ASSERT_TRUE(stream_->synchronize());
  free_gate();
}

TEST_F(CudaStream, AnEventNeverRecordedIsFinished) {
  const Ref<Event> event = Event::make(context_).value();
  EXPECT_TRUE(event->finished().value());
  EXPECT_TRUE(event->synchronize());
  EXPECT_TRUE(stream_->wait(*event));
}

TEST_F(CudaStream, TimeNeedsEventsThatMeasureIt) {
  const Ref<Event> start = Event::make(context_, Event::Timing::yes).value();
  const Ref<Event> end = Event::make(context_, Event::Timing::yes).value();
  ASSERT_TRUE(start->record(*stream_));
  ASSERT_TRUE(end->record(*stream_));
  ASSERT_TRUE(end->synchronize());
  const auto elapsed = end->elapsed_ms_since(*start);
  ASSERT_TRUE(elapsed) << describe(elapsed.error());
  EXPECT_GE(elapsed.value(), 0.0F);

  const Ref<Event> untimed = Event::make(context_).value();
  ASSERT_TRUE(untimed->record(*stream_));
  ASSERT_TRUE(untimed->synchronize());
  const auto refused = untimed->elapsed_ms_since(*start);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().native, 400);
}

TEST_F(CudaStream, KeepsItsContextAliveAndDiesOnAnyThread) {
  context_ = {};
  EXPECT_TRUE(active());
  Ref<Stream> second = stream_;
  stream_ = {};
  ASSERT_TRUE(second->synchronize());
  std::thread([&] { second = {}; }).join();
  EXPECT_FALSE(active());
}

TEST_F(CudaStream, DestroyingOneWaitsForNothing) {
  close_gate();
  stream_ = {};  // returns while the work is behind the gate
  open_gate();
  const Current current = Current::of(*context_).value();
  ASSERT_EQ(table().cuCtxSynchronize(), Status::success);
  free_gate();
}

TEST_F(CudaStream, IsLostWithItsContext) {
  ASSERT_EQ(table().cuDevicePrimaryCtxReset_v2(0), Status::success);
  const auto failed = stream_->synchronize();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::context_lost);
  EXPECT_FALSE(Event::make(context_));
}

class CudaKernelsOnModel : public CudaStream {
 protected:
  static constexpr std::size_t words = 1000;

  void SetUp() override {
    CudaStream::SetUp();
    if (HasFatalFailure()) return;
    auto loaded = Kernels::load(context_);
    ASSERT_TRUE(loaded) << describe(loaded.error());
    kernels_ = std::move(loaded).value();
    const Current current = Current::of(*context_).value();
    ASSERT_EQ(table().cuMemAlloc_v2(&memory_, words * 8), Status::success);
    void* pinned = nullptr;
    ASSERT_EQ(table().cuMemHostAlloc(&pinned, 16, abi::host_alloc_device_map), Status::success);
    std::memset(pinned, 0, 16);
    result_ = static_cast<std::uint64_t*>(pinned);
  }
  void TearDown() override {
    if (result_ != nullptr) {
      const Current current = Current::of(*context_).value();
      EXPECT_EQ(table().cuMemFree_v2(memory_), Status::success);
      EXPECT_EQ(table().cuMemFreeHost(result_), Status::success);
    }
    kernels_ = {};
    CudaStream::TearDown();
  }
  std::array<std::uint64_t, words> contents() {
    std::array<std::uint64_t, words> copy{};
    const Current current = Current::of(*context_).value();
    EXPECT_TRUE(stream_->synchronize());
    EXPECT_EQ(table().cuMemcpyDtoH_v2(copy.data(), memory_, sizeof copy), Status::success);
    return copy;
  }

  Ref<Kernels> kernels_;
  abi::DevicePointer memory_ = 0;
  std::uint64_t* result_ = nullptr;
};

TEST_F(CudaKernelsOnModel, FillWritesItsProgression) {
  for (const Grid grid : {Grid{1, 1}, Grid{3, 32}, Grid{100, 64}}) {
    ASSERT_TRUE(kernels_->launch(
        abi::FillParameters{.address = memory_, .words = words, .value = grid.blocks, .step = 7},
        grid, *stream_));
    const auto found = contents();
    for (std::size_t i = 0; i < words; ++i) ASSERT_EQ(found[i], grid.blocks + i * 7) << i;
  }
}

TEST_F(CudaKernelsOnModel, ChecksumWeighsWordsByTheirPlace) {
  ASSERT_TRUE(kernels_->launch(
      abi::FillParameters{
          .address = memory_, .words = words, .value = 5, .step = ~std::uint64_t{2}},
      Grid{4, 32}, *stream_));
  *result_ = 11;
  ASSERT_TRUE(kernels_->launch(
      abi::ChecksumParameters{.address = memory_, .words = words, .result = device_of(result_)},
      Grid{4, 32}, *stream_));
  ASSERT_TRUE(stream_->synchronize());
  std::uint64_t expected = 11;
  for (std::uint64_t i = 0; i < words; ++i) expected += (5 + i * ~std::uint64_t{2}) * (2 * i + 1);
  EXPECT_EQ(*result_, expected);
}

TEST_F(CudaKernelsOnModel, TouchReadsAndAddsAtEachStride) {
  ASSERT_TRUE(kernels_->launch(
      abi::FillParameters{
          .address = memory_, .words = words, .value = 0x0101010101010101, .step = 0},
      Grid{}, *stream_));
  const abi::TouchParameters touch{.address = memory_,
                                   .bytes = words * 8,
                                   .stride = 24,
                                   .add = 0x1fe,
                                   .sum = device_of(result_)};
  ASSERT_TRUE(kernels_->launch(touch, Grid{2, 32}, *stream_));
  ASSERT_TRUE(kernels_->launch(touch, Grid{2, 32}, *stream_));
  const auto found = contents();
  const std::uint64_t touched = (words * 8 + 23) / 24;
  EXPECT_EQ(*result_, touched * 1 + touched * 0xff);
  for (std::size_t i = 0; i < words; ++i) {
    // 1 + 0xfe twice, modulo 256, in the lowest byte of every third word.
    ASSERT_EQ(found[i], i % 3 == 0 ? 0x01010101010101fdU : 0x0101010101010101U) << i;
  }
}

TEST_F(CudaKernelsOnModel, SpinWaitsForTheFlagAndGivesUp) {
  auto* const flag = reinterpret_cast<volatile std::uint32_t*>(result_);
  const abi::SpinParameters endless{.flag = device_of(result_),
                                    .value = 3,
                                    .limit_ns = 60'000'000'000,
                                    .result = device_of(result_ + 1)};
  ASSERT_TRUE(kernels_->launch(endless, *stream_));
  EXPECT_FALSE(stream_->finished().value());
  *flag = 4;
  ASSERT_TRUE(stream_->synchronize());
  EXPECT_EQ(result_[1], abi::spin_opened);

  abi::SpinParameters bounded = endless;
  bounded.value = 5;
  bounded.limit_ns = 1000;
  ASSERT_TRUE(kernels_->launch(bounded, *stream_));
  ASSERT_TRUE(stream_->synchronize());
  EXPECT_EQ(result_[1], abi::spin_timed_out);
}

}  // namespace
}  // namespace assay::cuda
