// Bytes: growth, giving away, threads. Making, sharing and cutting: bytes_test.cpp.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include <sys/mman.h>

#include "assay/backing/virtual_memory.hpp"
#include "bytes_fixture.hpp"

namespace {

struct alignas(64) Line {
  std::byte bytes[64];
};
struct alignas(4096) Page {
  std::byte bytes[4096];
};
enum class Colour : std::uint8_t { red };

}  // namespace

template <>
struct assay::is_plain<Line> : std::true_type {};
template <>
struct assay::is_plain<Page> : std::true_type {};
template <>
struct assay::is_plain<Colour> : std::true_type {};  // has no effect

namespace assay {
namespace {

static_assert(PlainElement<double> && PlainElement<std::byte> && PlainElement<Line> &&
              PlainElement<std::array<std::uint16_t, 3>>);
static_assert(!PlainElement<bool> && !PlainElement<Colour> && !PlainElement<int*> &&
              !PlainElement<const int> && !PlainElement<std::pair<int, int>>);

using test::content;
using test::CopyCount;
using test::counting;
using test::made;
using BytesGrowthTest = test::OnChecking;

// --- growth

TEST_F(BytesGrowthTest, ExtendAcceptsItsOwnBytesThroughEveryPath) {
  Bytes bytes = made(100, 1, *home_);
  auto expected = counting(100);
  for (int round = 0; round < 6; ++round) {
    if (round % 2 == 1) {
      ASSERT_TRUE(bytes.shared().has_value());
    }
    const std::vector<std::byte> same = expected;
    expected.insert(expected.end(), same.begin(), same.end());
    ASSERT_TRUE(bytes.extend(bytes.span()).has_value());
    ASSERT_EQ(content(bytes), expected);
  }
}

TEST_F(BytesGrowthTest, NothingToAddDoesNothing) {  // bytes:W-07
  Bytes a = made(8192, 1, *home_);
  ASSERT_TRUE(a.shared().has_value());
  Bytes b = a.clone().value();
  const CopyCount copies;
  EXPECT_TRUE(b.extend({}).has_value());
  EXPECT_TRUE(b.reserve(0).has_value());
  EXPECT_TRUE(b.resize(8192).has_value());
  EXPECT_EQ(copies.so_far(), 0u);
  EXPECT_EQ(a.data(), b.data());
}

TEST_F(BytesGrowthTest, AppendsAreAmortisedAndDeterministic) {
  std::vector<std::size_t> capacities[2];
  for (auto& seen : capacities) {
    Bytes bytes = Bytes::with_capacity(1, *home_).value();
    for (const std::byte byte : counting(5000)) {
      ASSERT_TRUE(bytes.extend({&byte, 1}).has_value());
      if (seen.empty() || seen.back() != bytes.capacity()) seen.push_back(bytes.capacity());
    }
    EXPECT_EQ(content(bytes), counting(5000));
    EXPECT_LT(seen.size(), 12u);
  }
  EXPECT_EQ(capacities[0], capacities[1]);
}

// fault:B-06, fault:B-11
TEST_F(BytesGrowthTest, HugeSizesAreRefusedBeforeTheBackingIsAsked) {
  Bytes whole = made(64, 1, *home_);
  Bytes rest = whole.split(6).value();
  Bytes odd = made(64, 1, *home_).split(1).value();
  for (Bytes* const bytes : {&rest, &odd}) {
    const auto before = content(*bytes);
    const std::size_t capacity = bytes->capacity();
    const auto calls = backing_->calls;
    volatile std::size_t claimed = SIZE_MAX / 2 + 1;  // as if it came from a file's header
    const std::span<const std::byte> huge(before.data(), claimed);
    for (const std::size_t n : {SIZE_MAX, SIZE_MAX - 6, SIZE_MAX / 2 + 1, size_max - 63}) {
      EXPECT_EQ(bytes->reserve(n).error().code, ErrorCode::too_large);
      EXPECT_EQ(bytes->resize(n | (SIZE_MAX / 2)).error().code, ErrorCode::too_large);
    }
    EXPECT_EQ(bytes->extend(huge).error().code, ErrorCode::too_large);
    EXPECT_EQ(backing_->calls, calls);
    EXPECT_EQ(content(*bytes), before);
    EXPECT_EQ(bytes->capacity(), capacity);
  }
}

// fault:B-05. A split that takes everything takes the block along, so one block is made a round;
// what must not happen is that blocks grow or pile up.
TEST_F(BytesGrowthTest, WriteSplitDropReserveDoesNotGrow) {
  Bytes bytes;
  bytes = Bytes::with_capacity(0, *home_).value();
  const auto kib = counting(1024);
  for (int round = 0; round < 10'000; ++round) {
    ASSERT_TRUE(bytes.extend(kib).has_value());
    Bytes rest = bytes.split(bytes.len()).value();
    bytes = std::move(rest);
    ASSERT_TRUE(bytes.reserve(1024).has_value());
    ASSERT_LE(bytes.capacity(), 2048u);
    ASSERT_LE(backing_->usage().live_blocks, 1u);
  }
  EXPECT_LE(backing_->allocations, 10'001u);
  backing_->freed.clear();
}

TEST_F(BytesGrowthTest, AnEmptyRestartUsesItsWholeBlockAgain) {  // fault:B-05
  Bytes bytes = Bytes::with_capacity(4096, *home_).value();
  const auto chunk = counting(1000);
  for (int round = 0; round < 1000; ++round) {
    ASSERT_TRUE(bytes.reserve(1000).has_value());
    ASSERT_TRUE(bytes.extend(chunk).has_value());
    Bytes rest = bytes.split(bytes.len()).value();
    bytes = std::move(rest);
    ASSERT_TRUE(bytes.has_block());
  }
  EXPECT_EQ(backing_->allocations, 1u);
}

TEST_F(BytesGrowthTest, RoomOfADeadSiblingIsTaken) {
  Bytes left = made(64, 1, *home_);
  Bytes right = left.split(32).value();
  EXPECT_EQ(left.capacity(), 32u);
  right = Bytes();
  EXPECT_EQ(left.capacity(), 32u) << "capacity never looks at siblings";
  const CopyCount copies;
  ASSERT_TRUE(left.reserve(32).has_value());
  EXPECT_EQ(copies.so_far(), 0u);
  EXPECT_EQ(left.capacity(), 64u);
}

// The shared half that is left of a block grows by pages: its old address is of no use any more.
TEST(BytesGrowth, AHalfWhoseBlockMovesByPagesHasTheRoomOfTheNewPlace) {
  constexpr std::size_t page = 4096;
  const Ref<Home> home = Home::make(VirtualMemory::make()).value();
  for (const bool keeps_right : {false, true}) {
    Bytes bytes = Bytes::from_span(counting(8 * page), *home).value();
    Bytes other = bytes.split(4 * page).value();
    if (keeps_right) bytes.swap(other);
    ASSERT_TRUE(bytes.shared().has_value());
    other = Bytes();
    const auto* const end = bytes.data() + (keeps_right ? 4 : 8) * page;
    // Whoever lies behind the block already keeps it from growing where it is as well.
    void* const neighbour = mmap(const_cast<std::byte*>(end), page, PROT_NONE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    auto expected = content(bytes);
    const auto* const before = bytes.data();
    const auto more = counting(64 * page, 7);
    const CopyCount copies;
    ASSERT_TRUE(bytes.extend(more).has_value());
    EXPECT_EQ(copies.so_far(), more.size());
    EXPECT_NE(bytes.data(), before);
    expected.insert(expected.end(), more.begin(), more.end());
    EXPECT_EQ(content(bytes), expected);
    EXPECT_TRUE(bytes.is_exclusive());
    EXPECT_EQ(bytes.capacity(), bytes.len());
    if (neighbour != MAP_FAILED) munmap(neighbour, page);
  }
}

TEST_F(BytesGrowthTest, ResizeZeroesWhatItExposes) {
  Bytes bytes = made(100, 1, *home_);
  bytes.truncate(10);
  EXPECT_EQ(bytes.capacity(), 100u);
  ASSERT_TRUE(bytes.resize(100).has_value());
  auto expected = counting(100);
  std::fill(expected.begin() + 10, expected.end(), std::byte{0});
  EXPECT_EQ(content(bytes), expected);
  ASSERT_TRUE(bytes.resize(1000).has_value());
  expected.resize(1000);
  EXPECT_EQ(content(bytes), expected);
}

TEST_F(BytesGrowthTest, GrowthFallsBackToWhatIsNeeded) {  // fault:B-22 of handles
  Bytes bytes = made(100, 1, *home_);
  backing_->fail_nth(1);  // the doubled size
  ASSERT_TRUE(bytes.extend(counting(1)).has_value());
  EXPECT_FALSE(backing_->failure_pending());
  EXPECT_LT(bytes.capacity(), 200u);
}

TEST_F(BytesGrowthTest, GrowthStaysOnItsBacking) {  // bytes:W-21
  Bytes bytes = made(10, 1, *home_);
  ASSERT_TRUE(bytes.shared().has_value());
  const Bytes keep = bytes.clone().value();
  ASSERT_TRUE(bytes.extend(counting(1000)).has_value());
  EXPECT_EQ(&bytes.home(), home_.get());
  EXPECT_EQ(backing_->usage().live_blocks, 2u);
}

// fault:B-07
TEST_F(BytesGrowthTest, SmallViewsTellWhatTheyRetainUntilCompacted) {
  std::vector<Bytes> views;
  for (int i = 0; i < 10; ++i) {
    Bytes parent = Bytes::zeroed(1 << 20, *home_).value();
    ASSERT_TRUE(parent.shared().has_value());
    views.push_back(parent.view(4096, 4100).value());
  }
  std::size_t retained = 0;
  for (const Bytes& view : views) retained += view.retained_bytes();
  EXPECT_EQ(retained, 10u << 20);
  EXPECT_EQ(backing_->usage().live_bytes, 10u << 20);
  for (Bytes& view : views) {
    ASSERT_TRUE(view.compact().has_value());
    EXPECT_EQ(view.retained_bytes(), 16u);
    EXPECT_TRUE(view.is_shared()) << "compacting does not change who may share";
  }
  EXPECT_EQ(backing_->usage().live_bytes, 160u);
}

// --- giving away

TEST(BytesGrowth, VectorsGoInAndComeBackWithoutACopy) {  // bytes:W-08, bytes:W-18
  std::vector<std::uint32_t> numbers(100, 7);
  numbers.reserve(500);
  const auto* const data = numbers.data();
  const CopyCount copies;
  Bytes bytes = Bytes::from_vector(std::move(numbers)).value();
  EXPECT_EQ(bytes.len(), 400u);
  EXPECT_TRUE(bytes.is_exclusive());
  EXPECT_EQ(bytes.try_into_vec<float>().error().code, ErrorCode::not_supported);
  ASSERT_TRUE(bytes.shared().has_value());
  Bytes clone = bytes.clone().value();
  EXPECT_EQ(bytes.try_into_vec<std::uint32_t>().error().code, ErrorCode::not_unique);
  clone = Bytes();
  Bytes tail = bytes.split(40, SplitPolicy::owned).value();
  EXPECT_EQ(bytes.try_into_vec<std::uint32_t>().error().code, ErrorCode::not_unique);
  ASSERT_TRUE(bytes.join(std::move(tail)).has_value());
  bytes.truncate(398);
  EXPECT_EQ(bytes.try_into_vec<std::uint32_t>().error().code, ErrorCode::out_of_range);
  bytes.truncate(396);
  const auto back = bytes.try_into_vec<std::uint32_t>().value();
  EXPECT_EQ(back, std::vector<std::uint32_t>(99, 7));
  EXPECT_EQ(back.data(), data);
  EXPECT_GE(back.capacity(), 500u);
  EXPECT_EQ(copies.so_far(), 0u);
  EXPECT_TRUE(bytes.is_empty());
}

TEST_F(BytesGrowthTest, AdoptedVectorsGrowOntoTheirHome) {
  Bytes bytes = Bytes::from_vector(std::vector<std::uint8_t>(10, 1), *home_).value();
  EXPECT_EQ(backing_->calls, 0u);
  ASSERT_TRUE(bytes.extend(counting(1)).has_value());
  EXPECT_EQ(backing_->usage().live_blocks, 1u);
  EXPECT_EQ(bytes.len(), 11u);
}

TEST_F(BytesGrowthTest, AWipedVectorDoesNotLeaveThePolicy) {
  const auto wiping = Home::make(backing_, {.wipe = Wipe::on_release}).value();
  Bytes bytes = Bytes::from_vector(std::vector<int>(10, 1), *wiping).value();
  EXPECT_EQ(bytes.try_into_vec<int>().error().code, ErrorCode::not_supported);
  EXPECT_EQ(bytes.len(), 40u);
}

// fault:B-08
TEST_F(BytesGrowthTest, ErasedElementsKeepTheirLayout) {
  Bytes lines = Bytes::from_vector(std::vector<Line>(3), *home_).value();
  Bytes pages = Bytes::from_vector(std::vector<Page>(2), *home_).value();
  Bytes words = Bytes::from_vector(std::vector<std::uint64_t>(5), *home_).value();
  EXPECT_EQ(lines.align(), 64u);
  EXPECT_EQ(pages.align(), 4096u);
  EXPECT_EQ(words.align(), 16u);
  const Bytes copy = pages.clone().value();
  EXPECT_EQ(copy.align(), 16u);
  pages.truncate(5);
  std::thread([taken = std::move(lines), other = std::move(words)] {}).join();
}

TEST_F(BytesGrowthTest, OwnedArraysKeepTheirBlockAndLeaveSiblingsAlone) {  // bytes:W-19
  Bytes left = made(64, 1, *home_);
  Bytes right = left.split(32).value();
  const Bytes odd = right.split(31, SplitPolicy::owned).value();
  EXPECT_EQ(right.try_into_owned<std::uint32_t>().error().code, ErrorCode::out_of_range);
  right.truncate(28);
  {
    auto array = right.try_into_owned<std::uint32_t>().value();
    EXPECT_EQ(array.get_deleter().size(), 7u);
    array[0] = 0;
    left = Bytes();
    EXPECT_EQ(backing_->usage().live_blocks, 1u);
    EXPECT_EQ(odd[0], counting(64)[63]);
  }
  Bytes shifted = made(64, 1, *home_).split(1).value();
  shifted.truncate(60);
  EXPECT_EQ(shifted.try_into_owned<std::uint32_t>().error().code, ErrorCode::invalid_alignment);
  EXPECT_EQ(shifted.len(), 60u);
}

// --- threads

TEST(BytesGrowth, HandlesOfOneBlockMayLiveOnDifferentThreads) {
  for (int round = 0; round < 20; ++round) {
    Bytes origin = made(256);
    ASSERT_TRUE(origin.shared().has_value());
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (unsigned t = 0; t < 4; ++t) {
      threads.emplace_back([mine = origin.clone().value(), t, &wrong]() mutable {
        for (int i = 0; i < 100; ++i) {
          const Bytes copy = mine.clone().value();
          const Bytes view = copy.view(t, 256).value();
          if (view[0] != counting(256)[t]) ++wrong;
        }
        for (auto& byte : mine.write().value()) byte = static_cast<std::byte>(t);
        Bytes half = mine.split(128).value();
        if (!half.shared()) ++wrong;
        if (mine[0] != static_cast<std::byte>(t) || half[127] != static_cast<std::byte>(t)) ++wrong;
      });
    }
    origin = Bytes();
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong.load(), 0);
  }
}

TEST(BytesGrowth, HalvesOfOneBlockAreWrittenSideBySide) {
  Bytes left = made(4096);
  Bytes right = left.split(2048, SplitPolicy::owned).value();
  std::thread other([mine = std::move(right)]() mutable {
    for (auto& byte : mine.write().value()) byte = std::byte{2};
  });
  for (auto& byte : left.write().value()) byte = std::byte{1};
  other.join();
  ASSERT_TRUE(left.reserve(2048).has_value());
  EXPECT_EQ(left[2047], std::byte{1});
}

}  // namespace
}  // namespace assay
