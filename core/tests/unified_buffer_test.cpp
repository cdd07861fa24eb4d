#include "assay/buffer/unified_buffer.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "assay/backing/heap.hpp"
#include "assay/buffer/format.hpp"
#include "checking_backing.hpp"

// Present only in a build that the sanitizers instrument.
extern "C" {
__attribute__((weak)) void __asan_init();
__attribute__((weak)) void __tsan_init();
}

namespace assay {
namespace {

using test::CheckingBacking;
using test::counting;

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

class UnifiedBufferTest : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(backing_->usage().live_blocks, 0u);
    EXPECT_TRUE(backing_->faults.empty()) << backing_->faults.front();
  }
  void use(const CheckingBacking::Options& options) {
    backing_ = CheckingBacking::make(options);
    options_.backing = backing_;
  }
  Ref<CheckingBacking> backing_ = CheckingBacking::make();
  BufferOptions options_{.backing = backing_};
};

TEST_F(UnifiedBufferTest, FreshBytesReadZero) {  // ub:I-3
  const auto buffer = UnifiedBuffer::create(1000, options_).value();
  EXPECT_EQ(buffer.size(), 1000u);
  EXPECT_GE(buffer.capacity(), 1000u);
  EXPECT_TRUE(all_zero(buffer.as_span().value()));
  EXPECT_TRUE(buffer.wipes());
  EXPECT_EQ(buffer.property(), AllocationProperty::native);
}

TEST_F(UnifiedBufferTest, AWindowReadsZeroAndTheRestIsNotTouched) {  // ub:I-3
  const auto buffer = UnifiedBuffer::create_with_visible_window(1000, 300, options_).value();
  EXPECT_EQ(buffer.size(), 1000u);
  const auto bytes = buffer.as_span().value();
  EXPECT_TRUE(all_zero(bytes.first(300)));
  EXPECT_EQ(bytes[300], std::byte{0xcd}) << "what the backing left there";
  EXPECT_EQ(backing_->filled_bytes, 300u);
  const auto whole = UnifiedBuffer::create_with_visible_window(10, 99, options_).value();
  EXPECT_TRUE(all_zero(whole.as_span().value()));
}

TEST_F(UnifiedBufferTest, ZeroSizeIsAnErrorBeforeAnyCall) {
  EXPECT_EQ(UnifiedBuffer::create(0, options_).error().code, ErrorCode::zero_size);
  EXPECT_EQ(UnifiedBuffer::create_with_visible_window(0, 0, options_).error().code,
            ErrorCode::zero_size);
  EXPECT_EQ(UnifiedBuffer::create_with_capacity(0, 64, options_).error().code,
            ErrorCode::zero_size);
  EXPECT_EQ(backing_->calls, 0u);
}

TEST_F(UnifiedBufferTest, ADeviceThatNobodyHonoursIsRefused) {  // ub:W-14
  options_.device = DeviceId{7};
  const auto refused = UnifiedBuffer::create(64, options_);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(refused.error().requested, 7u);
  EXPECT_STREQ(refused.error().backing, "checking");
  EXPECT_EQ(backing_->calls, 0u);
}

TEST_F(UnifiedBufferTest, AlignmentIsOfTheAddress) {  // ub:W-07
  options_.alignment = 4096;
  const auto buffer = UnifiedBuffer::create(100, options_).value();
  EXPECT_TRUE(is_aligned(reinterpret_cast<std::uintptr_t>(buffer.as_span().value().data()), 4096));
  EXPECT_EQ(buffer.align(), 4096u);
  options_.alignment = 48;
  EXPECT_EQ(UnifiedBuffer::create(100, options_).error().code, ErrorCode::invalid_alignment);
}

TEST_F(UnifiedBufferTest, GrowsInPlaceUpToItsCapacity) {
  auto buffer = UnifiedBuffer::create_with_capacity(100, 4096, options_).value();
  EXPECT_EQ(buffer.capacity(), 4096u);
  EXPECT_TRUE(buffer.supports_in_place_growth());
  const auto* const data = buffer.as_span().value().data();
  const auto old = counting(100);
  std::copy(old.begin(), old.end(), buffer.as_mutable_span().value().begin());
  ASSERT_TRUE(buffer.try_grow_in_place(4096).has_value());
  const auto bytes = buffer.as_span().value();
  EXPECT_EQ(bytes.data(), data);
  EXPECT_TRUE(std::equal(old.begin(), old.end(), bytes.begin()));
  EXPECT_TRUE(all_zero(bytes.subspan(100)));
  const auto refused = buffer.try_grow_in_place(4097);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::not_supported);
  EXPECT_EQ(refused.error().requested, 4097u);
  EXPECT_EQ(refused.error().limit, 4096u);
  EXPECT_STREQ(refused.error().feature, "try_grow_in_place");
  EXPECT_EQ(buffer.size(), 4096u);
}

// fault:B-15, ub:W-19, ub:I-1
TEST_F(UnifiedBufferTest, WhatAShrinkLeftIsNeverShownAgain) {
  for (const std::size_t capacity : {std::size_t{6144}, std::size_t{0}}) {
    for (const bool reuse : {false, true}) {
      use({.reuse_addresses = reuse});
      options_.alignment = 1024;
      auto buffer = UnifiedBuffer::create_with_capacity(6144, capacity, options_).value();
      std::ranges::fill(buffer.as_mutable_span().value(), std::byte{0x5a});
      ASSERT_TRUE(buffer.resize(3072).has_value());
      if (capacity == 0) {
        ASSERT_TRUE(buffer.resize(12288).has_value());  // moves
      }
      ASSERT_TRUE(buffer.resize(6144).has_value());
      const auto bytes = buffer.as_span().value();
      EXPECT_TRUE(
          std::ranges::all_of(bytes.first(3072), [](std::byte b) { return b == std::byte{0x5a}; }));
      EXPECT_TRUE(all_zero(bytes.subspan(3072)));
      EXPECT_TRUE(is_aligned(reinterpret_cast<std::uintptr_t>(bytes.data()), 1024));
    }
  }
}

// fault:B-16
TEST_F(UnifiedBufferTest, NothingOutsideTheExposedRangeIsWritten) {
  auto buffer = UnifiedBuffer::create(4096, options_).value();
  const auto all = buffer.as_mutable_span().value();
  std::ranges::fill(all, std::byte{0xee});
  const auto filled = backing_->filled_bytes;
  for (const std::size_t size : {100u, 0u, 50u, 50u, 49u}) {
    ASSERT_TRUE(buffer.try_grow_in_place(size).has_value());
  }
  EXPECT_EQ(backing_->filled_bytes - filled, 50u);
  EXPECT_TRUE(all_zero(all.first(50)));
  EXPECT_TRUE(
      std::ranges::all_of(all.subspan(50), [](std::byte b) { return b == std::byte{0xee}; }));
}

TEST_F(UnifiedBufferTest, AFailedMoveChangesNothing) {
  auto buffer = UnifiedBuffer::create(64, options_).value();
  std::ranges::fill(buffer.as_mutable_span().value(), std::byte{3});
  const auto* const data = buffer.as_span().value().data();
  backing_->fail_nth(1);
  EXPECT_EQ(buffer.resize(1 << 20).error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(buffer.resize(SIZE_MAX - 3).error().code, ErrorCode::too_large);
  EXPECT_EQ(buffer.size(), 64u);
  EXPECT_EQ(buffer.as_span().value().data(), data);
  EXPECT_EQ(data[63], std::byte{3});
}

// fault:B-17, ub:I-4
TEST_F(UnifiedBufferTest, EveryBlockIsWipedWhateverItsSizeIsNow) {
  use({.fresh_fill = std::byte{0}});
  {
    auto buffer = UnifiedBuffer::create(512, options_).value();
    std::ranges::fill(buffer.as_mutable_span().value(), std::byte{0x5a});
    ASSERT_TRUE(buffer.resize(4096).has_value());
    std::ranges::fill(buffer.as_mutable_span(1000, 96).value(), std::byte{0x5a});
    buffer.shrink(10);
  }
  ASSERT_EQ(backing_->freed.size(), 2u);
  for (const auto& block : backing_->freed) EXPECT_TRUE(block.all_zero());
  EXPECT_EQ(backing_->filled_bytes, 512u + 1096u);
}

TEST_F(UnifiedBufferTest, WipingCanBeDeclined) {
  options_.wipe = Wipe::no;
  {
    auto buffer = UnifiedBuffer::create(512, options_).value();
    std::ranges::fill(buffer.as_mutable_span().value(), std::byte{0x5a});
  }
  EXPECT_EQ(backing_->filled_bytes, 0u);
}

// Untouched memory is neither zeroed nor wiped: counted in pages that exist, not in time.
TEST_F(UnifiedBufferTest, NeverTouchedPagesStayAway) {
  use({.keep_bytes = false, .count_pages = true, .touch_fresh = false});
  constexpr std::size_t size = std::size_t{256} << 20;
  const std::size_t page = page_size();
  {
    auto buffer = UnifiedBuffer::create_with_visible_window(size, page, options_).value();
    buffer.as_mutable_span(page, 3 * page).value()[0] = std::byte{1};
    EXPECT_EQ(buffer.written_up_to(), 4 * page);
    const auto tail = buffer.as_mutable_span(0, 0).value();
    EXPECT_TRUE(tail.empty());
  }
  ASSERT_EQ(backing_->freed.size(), 1u);
  EXPECT_LE(backing_->freed[0].resident_pages, 6u);
  EXPECT_GE(backing_->freed[0].resident_pages, 3u) << "the counter works";
}

TEST(UnifiedBuffer, ALargeHeapBufferCostsOnlyThePagesUsed) {
  if (&__tsan_init != nullptr) {
    GTEST_SKIP() << "ThreadSanitizer's shadow of a block counts as resident memory";
  }
  constexpr std::size_t size = std::size_t{256} << 20;
  const auto resident_kib = [] {
    std::ifstream statm("/proc/self/statm");
    std::size_t total = 0;
    std::size_t resident = 0;
    statm >> total >> resident;
    return resident * (page_size() / 1024);
  };
  const std::size_t before = resident_kib();
  auto buffer = UnifiedBuffer::create(size).value();
  buffer.as_mutable_span(0, 4096).value()[0] = std::byte{1};
  ASSERT_TRUE(buffer.resize(2 * size).has_value()) << "copies the written part only";
  EXPECT_EQ(buffer.as_span().value()[0], std::byte{1});
  const std::size_t after = resident_kib();
  EXPECT_LT(after < before ? 0 : after - before, std::size_t{64} << 10);
}

// ub:W-09, ub:W-10: a hint that reaches nobody says so, in the name of the backing asked.
TEST_F(UnifiedBufferTest, HintsThatReachNobodyAreNotSupported) {
  auto buffer = UnifiedBuffer::create(4096, options_).value();
  const auto advised = buffer.advise(Advice::set_read_mostly, {});
  ASSERT_FALSE(advised.has_value());
  EXPECT_EQ(advised.error().code, ErrorCode::not_supported);
  EXPECT_STREQ(advised.error().backing, "checking");  // ub:W-36
  EXPECT_EQ(buffer.prefetch_to_device().error().code, ErrorCode::not_supported);
  EXPECT_EQ(buffer.prefetch_to_host().error().code, ErrorCode::not_supported);
  EXPECT_EQ(buffer.advise(Advice::set_read_mostly, {}, 4096, 1).error().code,
            ErrorCode::out_of_range);
  UnifiedBuffer empty;
  EXPECT_TRUE(empty.prefetch_to_host().has_value()) << "no byte, no call";
}

TEST_F(UnifiedBufferTest, RangesAreChecked) {
  auto buffer = UnifiedBuffer::create(100, options_).value();
  std::byte byte{1};
  for (const auto& [offset, size] :
       {std::pair<std::size_t, std::size_t>{101, 0}, {100, 1}, {1, SIZE_MAX}, {SIZE_MAX, 1}}) {
    EXPECT_EQ(buffer.as_mutable_span(offset, size).error().code, ErrorCode::out_of_range);
  }
  EXPECT_EQ(buffer.write_at(100, {&byte, 1}).error().code, ErrorCode::out_of_range);
  EXPECT_EQ(buffer.read_at(100, {&byte, 1}).error().limit, 100u);
  EXPECT_EQ(buffer.written_up_to(), 0u);
  ASSERT_TRUE(buffer.write_at(50, {&byte, 1}).has_value());
  EXPECT_EQ(buffer.written_up_to(), 51u);
  byte = std::byte{0};
  ASSERT_TRUE(buffer.read_at(50, {&byte, 1}).has_value());
  EXPECT_EQ(byte, std::byte{1});
}

// ub:W-33, ub:W-35, ub:I-5
TEST_F(UnifiedBufferTest, PrintsAHandleThatTellsNothing) {
  use({.reuse_addresses = true});
  std::set<std::uint64_t> handles;
  for (int i = 0; i < 100; ++i) {  // the same address each time
    auto buffer = UnifiedBuffer::create(64, options_).value();
    const std::string shown = fmt::format("{}", buffer);
    const auto address = reinterpret_cast<std::uintptr_t>(buffer.as_span().value().data());
    for (const std::string& leaked : {fmt::format("{:x}", address), fmt::format("{}", address)}) {
      EXPECT_EQ(shown.find(leaked), std::string::npos) << shown;
    }
    EXPECT_NE(shown.find(fmt::format("{:016x}", buffer.handle())), std::string::npos);
    const UnifiedBuffer moved = std::move(buffer);
    EXPECT_EQ(fmt::format("{}", moved), shown) << "two renders of one buffer correlate";
    handles.insert(moved.handle());
  }
  EXPECT_EQ(handles.size(), 100u);
}

// fault:B-10
TEST(UnifiedBuffer, DefaultMadeAndMovedFromWorkOnTheDefaultHost) {
  auto other = UnifiedBuffer::create(32).value();
  UnifiedBuffer moved_from = std::move(other);
  moved_from = UnifiedBuffer();
  UnifiedBuffer fresh;
  for (UnifiedBuffer* const empty : {&fresh, &moved_from, &other}) {
    EXPECT_TRUE(empty->is_empty());
    EXPECT_EQ(empty->capacity(), 0u);
    EXPECT_TRUE(empty->as_span().value().empty());
    EXPECT_TRUE(empty->as_mutable_span().value().empty());
    EXPECT_TRUE(empty->freeze().value().is_empty());
    EXPECT_TRUE(empty->try_grow_in_place(0).has_value());
    EXPECT_EQ(empty->try_grow_in_place(1).error().code, ErrorCode::not_supported);
    EXPECT_EQ(empty->handle(), 0u);
    ASSERT_TRUE(empty->resize(16).has_value());
    EXPECT_TRUE(all_zero(empty->as_span().value()));
    EXPECT_EQ(empty->align(), 16u);
    UnifiedBuffer made = UnifiedBuffer::create(8).value();
    empty->swap(made);
    EXPECT_EQ(empty->size(), 8u);
    EXPECT_EQ(made.size(), 16u);
    *empty = std::move(made);
    EXPECT_EQ(empty->size(), 16u);
  }
}

TEST_F(UnifiedBufferTest, FreezesAndDetachesWithoutACopy) {
  auto buffer = UnifiedBuffer::create_with_capacity(100, 200, options_).value();
  std::ranges::fill(buffer.as_mutable_span().value(), std::byte{7});
  const auto* const data = buffer.as_span().value().data();
  const auto copied = payload_bytes_copied();
  Bytes bytes = buffer.freeze().value();
  EXPECT_TRUE(buffer.is_empty());
  EXPECT_EQ(bytes.data(), data);
  EXPECT_TRUE(bytes.is_exclusive());
  bytes.write().value()[0] = std::byte{8};

  ASSERT_TRUE(bytes.shared().has_value());
  Bytes clone = bytes.clone().value();
  EXPECT_EQ(UnifiedBuffer::detach(bytes).error().code, ErrorCode::not_unique);
  EXPECT_EQ(bytes.len(), 100u);
  clone = Bytes();
  Bytes window = bytes.view(1, 100).value();
  bytes = Bytes();
  EXPECT_EQ(UnifiedBuffer::detach(window).error().code, ErrorCode::out_of_range);
  EXPECT_EQ(payload_bytes_copied(), copied);

  Bytes again = Bytes::from_span(counting(64), window.home()).value();
  auto detached = UnifiedBuffer::detach(again).value();
  EXPECT_TRUE(again.is_empty());
  EXPECT_EQ(detached.size(), 64u);
  EXPECT_EQ(detached.written_up_to(), 64u);
  EXPECT_TRUE(detached.wipes());

  Bytes foreign = Bytes::from_vector(std::vector<int>(4)).value();
  EXPECT_EQ(UnifiedBuffer::detach(foreign).error().code, ErrorCode::not_supported);
  Bytes none;
  EXPECT_EQ(UnifiedBuffer::detach(none).error().code, ErrorCode::zero_size);
}

TEST_F(UnifiedBufferTest, DetachedBytesGrowIntoZeros) {  // ub:I-1
  for (const Wipe wipe : {Wipe::no, Wipe::on_release}) {
    const auto home = Home::make(backing_, {.wipe = wipe}).value();
    Bytes bytes = Bytes::with_capacity(112, *home).value();
    ASSERT_TRUE(bytes.extend(counting(50)).has_value());
    bytes.truncate(10);
    auto buffer = UnifiedBuffer::detach(bytes).value();
    ASSERT_TRUE(buffer.try_grow_in_place(112).has_value());
    EXPECT_TRUE(all_zero(buffer.as_span().value().subspan(10)));
    EXPECT_EQ(buffer.as_span().value()[9], counting(10)[9]);
  }
}

TEST_F(UnifiedBufferTest, DetachedBytesBornZeroGrowIntoZerosOnceTheyWereWritten) {  // ub:I-1
  for (const Wipe wipe : {Wipe::no, Wipe::on_release}) {
    const auto home = Home::make(backing_, {.wipe = wipe}).value();
    Bytes bytes = Bytes::zeroed(112, *home).value();
    for (std::byte& byte : bytes.write().value()) byte = std::byte{0xee};
    bytes.truncate(10);
    auto buffer = UnifiedBuffer::detach(bytes).value();
    ASSERT_TRUE(buffer.try_grow_in_place(112).has_value());
    EXPECT_TRUE(all_zero(buffer.as_span().value().subspan(10)));
  }
}

TEST(UnifiedBuffer, DeviceOnlyMemoryIsNeverShownToTheHost) {  // ub:I-6
  /// Heap memory whose host access is denied, as a device's would be.
  class Remote final : public Adaptor {
   public:
    explicit Remote(const Ref<Backing>& upstream) : Adaptor(facts(*upstream), upstream) {}

   private:
    static SourceInfo facts(const Backing& upstream) {
      SourceInfo info = renamed("remote", upstream);
      info.capabilities = Capabilities::device_access | Capabilities::resize_in_place;
      return info;
    }
  };
  const auto remote = Ref<Backing>(Ref<Remote>::adopt(new Remote(Heap::make())));
  auto buffer = UnifiedBuffer::create(64, {.backing = remote}).value();
  EXPECT_FALSE(buffer.host_addressable());
  EXPECT_EQ(buffer.as_span().error().code, ErrorCode::not_supported);
  EXPECT_EQ(buffer.as_mutable_span().error().code, ErrorCode::not_supported);
  const auto unreachable = Home::make(remote).value();
  EXPECT_EQ(buffer.freeze(*unreachable).error().code, ErrorCode::not_supported);
  EXPECT_EQ(buffer.size(), 64u);
  EXPECT_EQ(buffer.property(), AllocationProperty::device);
  const auto bytes = counting(10);
  ASSERT_TRUE(buffer.write_at(5, bytes).has_value());
  std::vector<std::byte> back(12);
  ASSERT_TRUE(buffer.read_at(4, back).has_value());
  EXPECT_EQ(back[0], std::byte{0});
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), back.begin() + 1));
  buffer.shrink(6);
  ASSERT_TRUE(buffer.try_grow_in_place(15).has_value());
  ASSERT_TRUE(buffer.read_at(6, std::span(back).first(9)).has_value());
  EXPECT_TRUE(all_zero(std::span(back).first(9)));
  EXPECT_EQ(Bytes::from_span(bytes, *unreachable).error().code, ErrorCode::not_supported);
}

// ub:W-05. In a child, so that the limit binds nobody else.
TEST(UnifiedBuffer, HostOutOfMemoryIsAnErrorNotAnAbort) {
  if (&__asan_init != nullptr || &__tsan_init != nullptr) {
    GTEST_SKIP() << "an address space limit cannot be set under this sanitizer";
  }
  const pid_t child = fork();
  ASSERT_NE(child, -1);
  if (child == 0) {
    std::ifstream statm("/proc/self/statm");
    rlim_t pages = 0;
    statm >> pages;
    const rlim_t limit = pages * page_size() + (rlim_t{64} << 20);
    const rlimit limits{limit, limit};
    if (setrlimit(RLIMIT_AS, &limits) != 0) _exit(10);
    const auto refused = UnifiedBuffer::create(std::size_t{1} << 30);
    if (refused || refused.error().code != ErrorCode::out_of_memory) _exit(11);
    if (refused.error().requested != std::size_t{1} << 30 || !refused.error().retryable) _exit(12);
    auto small = UnifiedBuffer::create(1 << 20);
    if (!small) _exit(13);
    UnifiedBuffer kept = std::move(small).value();
    kept.as_mutable_span().value()[5] = std::byte{5};
    if (kept.resize(std::size_t{1} << 30).error().code != ErrorCode::out_of_memory) _exit(14);
    if (kept.as_span().value()[5] != std::byte{5} || kept.size() != 1 << 20) _exit(15);
    if (Bytes::with_capacity(std::size_t{1} << 40).error().code != ErrorCode::out_of_memory) {
      _exit(16);
    }
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(UnifiedBufferDeathTest, ShrinkingToMoreStopsTheProgram) {
  auto buffer = UnifiedBuffer::create(8).value();
  EXPECT_DEATH(buffer.shrink(9), "shrink to a larger size");
}

}  // namespace
}  // namespace assay
