#include "assay/buffer/bytes.hpp"

#include <gtest/gtest.h>

#include "assay/buffer/format.hpp"
#include "bytes_fixture.hpp"

namespace assay {
namespace {

using test::content;
using test::CopyCount;
using test::counting;
using test::made;
using BytesTest = test::OnChecking;

// --- making and reading

TEST_F(BytesTest, FromSpanCopiesOnceAndReadsBack) {
  const CopyCount copies;
  const Bytes bytes = made(100, 1, *home_);
  EXPECT_EQ(copies.so_far(), 100u);
  EXPECT_EQ(content(bytes), counting(100));
  EXPECT_EQ(bytes.len(), 100u);
  EXPECT_TRUE(bytes.is_exclusive());
  EXPECT_EQ(bytes.property(), AllocationProperty::native);
  EXPECT_EQ(bytes.read(Reader::no_copy()).value().data(), bytes.data());
  EXPECT_EQ(bytes[99], counting(100)[99]);
}

TEST_F(BytesTest, ZeroSizeNeverTouchesTheBacking) {
  const auto empty = Bytes::from_span({}, *home_);
  ASSERT_TRUE(empty.has_value());
  EXPECT_TRUE(Bytes::with_capacity(0, *home_).has_value());
  EXPECT_EQ(backing_->calls, 0u);
  EXPECT_EQ(&empty.value().home(), home_.get());
}

TEST(Bytes, EqualityLooksAtBytesAlone) {
  Bytes a = made(64);
  Bytes b = made(64);
  ASSERT_TRUE(b.shared().has_value());
  EXPECT_EQ(a, b);
  EXPECT_TRUE(a.equals(b).value());
  EXPECT_EQ(std::hash<Bytes>()(a), b.hash().value());
  a.write().value()[63] = std::byte{0};
  EXPECT_FALSE(a == b);
  EXPECT_FALSE(a == made(63));
  EXPECT_EQ(Bytes(), Bytes());
}

TEST(Bytes, PrintsAtMostThreeBytes) {
  const auto bytes = [](std::initializer_list<int> values) {
    Bytes made;
    for (const int value : values) {
      const auto byte = static_cast<std::byte>(value);
      EXPECT_TRUE(made.extend({&byte, 1}).has_value());
    }
    return fmt::format("{}", made);
  };
  EXPECT_EQ(bytes({1, 2, 3, 4}), R"(Bytes { data: [1, 2, 3, "..."], len: 4 })");
  EXPECT_EQ(bytes({1, 2, 3}), "Bytes { data: [1, 2, 3], len: 3 }");
  EXPECT_EQ(bytes({}), "Bytes { data: [], len: 0 }");
}

TEST(Bytes, CopyIntoTakesWhatItCanFillAndNoMore) {  // bytes:W-06
  const Bytes bytes = made(5);
  std::vector<std::byte> three(3);
  ASSERT_TRUE(bytes.copy_into(three).has_value());
  EXPECT_EQ(three, counting(3));
  std::vector<std::byte> six(6);
  const auto refused = bytes.copy_into(six);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_range);
  EXPECT_EQ(refused.error().limit, 5u);
  EXPECT_EQ(six, std::vector<std::byte>(6));
}

// fault:B-09, fault:B-10
TEST(Bytes, DefaultMadeAndMovedFromAreOrdinaryEmptyValues) {
  Bytes moved_from = made(8);
  const Bytes taken = std::move(moved_from);
  Bytes fresh;
  for (Bytes* const empty : {&fresh, &moved_from}) {  // NOLINT(bugprone-use-after-move)
    EXPECT_TRUE(empty->is_empty());
    EXPECT_EQ(empty->capacity(), 0u);
    EXPECT_TRUE(empty->view(0, 0).value().is_empty());
    EXPECT_EQ(empty->view(0, 1).error().code, ErrorCode::out_of_range);
    EXPECT_TRUE(empty->split(0).value().is_empty());
    EXPECT_TRUE(empty->clone().value().is_empty());
    EXPECT_TRUE(empty->shared().has_value());
    EXPECT_TRUE(empty->write().value().empty());
    EXPECT_TRUE(empty->join(Bytes()).has_value());
    EXPECT_TRUE(empty->extend({}).has_value());
    EXPECT_TRUE(empty->reserve(0).has_value());
    EXPECT_TRUE(empty->resize(0).has_value());
    EXPECT_TRUE(empty->compact().has_value());
    EXPECT_TRUE(empty->copy_into({}).has_value());
    empty->truncate(0);
    EXPECT_EQ(empty->hash().value(), Bytes().hash().value());
    EXPECT_EQ(*empty, Bytes());
    EXPECT_EQ(empty->align(), 16u);
    EXPECT_EQ(empty->retained_bytes(), 0u);
    EXPECT_TRUE(empty->try_into_vec<int>().value().empty());
    EXPECT_EQ(empty->try_into_owned<int>().value().get(), nullptr);
    ASSERT_TRUE(empty->resize(16).has_value());
    EXPECT_EQ(content(*empty), std::vector<std::byte>(16));
    ASSERT_TRUE(empty->reserve(16).has_value());
    Bytes other = made(3);
    empty->swap(other);
    EXPECT_EQ(empty->len(), 3u);
    *empty = made(4);
    EXPECT_EQ(content(*empty), counting(4));
  }
}

// --- sharing and copy-on-write

TEST_F(BytesTest, SharingIsExplicitAndCopiesNothing) {
  Bytes bytes = made(4096, 1, *home_);
  EXPECT_EQ(bytes.view(0, 1).error().code, ErrorCode::not_supported);
  EXPECT_EQ(bytes.view(0, 0).error().code, ErrorCode::not_supported);
  const CopyCount copies;
  ASSERT_TRUE(bytes.shared().has_value());
  const Bytes view = bytes.view(10, 20).value();
  const Bytes clone = bytes.clone().value();
  EXPECT_EQ(copies.so_far(), 0u);
  EXPECT_EQ(view.data(), bytes.data() + 10);
  EXPECT_EQ(clone.data(), bytes.data());
  EXPECT_EQ(bytes.capacity(), 4096u);
  EXPECT_EQ(view.capacity(), 10u);
}

// fault:B-01
TEST_F(BytesTest, AViewIsNeverTakenForTheSoleOwner) {
  Bytes a = Bytes::zeroed(2, *home_).value();
  ASSERT_TRUE(a.shared().has_value());
  Bytes v = a.view(1, 2).value();
  const std::byte* const before = v.data();
  const CopyCount first;
  v.write().value()[0] = std::byte{7};
  EXPECT_EQ(first.so_far(), 1u);
  EXPECT_NE(v.data(), before);
  EXPECT_EQ(content(a), std::vector<std::byte>(2));

  Bytes last = a.view(1, 2).value();
  a = Bytes();
  const CopyCount second;
  const std::byte* const place = last.data();
  last.write(Writer::no_copy()).value()[0] = std::byte{9};
  EXPECT_EQ(second.so_far(), 0u);
  EXPECT_EQ(last.data(), place);
}

TEST_F(BytesTest, SiblingViewsCountAsSharingEvenIfDisjoint) {  // fault:B-01
  Bytes a = made(8, 1, *home_);
  ASSERT_TRUE(a.shared().has_value());
  Bytes left = a.view(0, 6).value().view(0, 4).value();
  const Bytes right = a.view(4, 8).value();
  a = Bytes();
  EXPECT_EQ(left.write(Writer::no_copy()).error().code, ErrorCode::would_copy);
  EXPECT_TRUE(left.is_shared());
  left.write().value()[0] = std::byte{0};
  EXPECT_EQ(right, made(8).split(4).value());
}

// fault:B-02
TEST_F(BytesTest, AKeptViewIsExactlyItsBytesAtEveryOffset) {
  for (const std::size_t start : {0u, 2u, 4u}) {
    Bytes parent = made(8, 1, *home_);
    ASSERT_TRUE(parent.shared().has_value());
    Bytes view = parent.view(start, start + 4).value();
    EXPECT_EQ(view.try_into_owned<unsigned char>().error().code, ErrorCode::not_unique);
    EXPECT_EQ(view.len(), 4u);
    parent = Bytes();
    const auto owned = view.try_into_owned<unsigned char>().value();
    ASSERT_EQ(owned.get_deleter().size(), 4u);
    EXPECT_EQ(static_cast<std::byte>(owned[3]), counting(8)[start + 3]);
    EXPECT_TRUE(view.is_empty());
  }
}

TEST_F(BytesTest, AKeptViewIsWrittenExactlyWhereItIsAtEveryOffset) {  // fault:B-02
  for (const std::size_t start : {0u, 2u, 4u}) {
    Bytes parent = made(8, 1, *home_);
    ASSERT_TRUE(parent.shared().has_value());
    Bytes view = parent.view(start, start + 4).value();
    parent = Bytes();
    const std::byte* const place = view.data();
    const auto written = view.write(Writer::no_copy()).value();
    EXPECT_EQ(written.data(), place);
    EXPECT_EQ(written.size(), 4u);
    EXPECT_EQ(view.len(), 4u);
    EXPECT_EQ(view.capacity(), 8 - start) << "what lies behind it is room, no content";
    EXPECT_EQ(written[3], counting(8)[start + 3]);
  }
}

TEST_F(BytesTest, AForkCopiesExactlyItsWindowAndLetsGoOfTheRest) {  // bytes:W-11
  Bytes a = made(4096, 1, *home_);
  ASSERT_TRUE(a.shared().has_value());
  Bytes b = a.view(100, 300).value();
  const CopyCount copies;
  ASSERT_TRUE(b.write().has_value());
  EXPECT_EQ(copies.so_far(), 200u);
  EXPECT_TRUE(b.is_exclusive());
  a = Bytes();
  EXPECT_EQ(backing_->usage().live_blocks, 1u);
  EXPECT_LT(b.retained_bytes(), 300u);
}

TEST_F(BytesTest, WritingTheLastHandleStealsWithoutACopy) {  // bytes:W-11
  Bytes a = made(4096, 1, *home_);
  ASSERT_TRUE(a.shared().has_value());
  Bytes b = a.clone().value();
  a = Bytes();
  const CopyCount copies;
  ASSERT_TRUE(b.write(Writer::no_copy()).has_value());
  EXPECT_EQ(copies.so_far(), 0u);
  EXPECT_TRUE(b.is_exclusive());
}

TEST_F(BytesTest, SharingOneHalfLeavesTheOtherExclusive) {
  Bytes left = made(64, 1, *home_);
  Bytes right = left.split(32).value();
  ASSERT_TRUE(right.shared().has_value());
  Bytes clone = right.clone().value();
  EXPECT_TRUE(left.is_exclusive());
  EXPECT_EQ(clone.write(Writer::no_copy()).error().code, ErrorCode::would_copy);
  right = Bytes();
  const CopyCount copies;
  ASSERT_TRUE(clone.write(Writer::no_copy()).has_value());  // sole owner of its range
  clone.write().value()[0] = std::byte{0};
  EXPECT_EQ(copies.so_far(), 0u);
  EXPECT_EQ(content(left), counting(32));
}

TEST_F(BytesTest, DeepClonesKeepHomeAndAlignment) {
  const auto aligned = Home::make(backing_, {.alignment = 256}).value();
  const Bytes a = made(100, 1, *aligned);
  const CopyCount copies;
  const Bytes b = a.clone().value();
  EXPECT_EQ(copies.so_far(), 100u);
  EXPECT_EQ(b.capacity(), 100u);
  EXPECT_EQ(&b.home(), aligned.get());
  EXPECT_EQ(b.align(), 256u);
  EXPECT_NE(a.data(), b.data());
}

// --- cutting and joining

// fault:B-04
TEST(Bytes, OutOfRangeIsRefusedWithNothingChanged) {
  Bytes shared = made(16);
  ASSERT_TRUE(shared.shared().has_value());
  Bytes exclusive = made(16);
  Bytes empty;
  for (Bytes* const bytes : {&shared, &exclusive, &empty}) {
    const std::size_t len = bytes->len();
    const std::vector<std::byte> before = content(*bytes);
    for (const std::size_t past : {len + 1, SIZE_MAX}) {
      EXPECT_EQ(bytes->split(past).error().code, ErrorCode::out_of_range);
      EXPECT_EQ(bytes->view(past, past).error().code, ErrorCode::out_of_range);
    }
    EXPECT_EQ(bytes->view(SIZE_MAX, 2).error().code, ErrorCode::out_of_range);
    EXPECT_EQ(bytes->view(len, len + 1).error().code, ErrorCode::out_of_range);
    EXPECT_EQ(bytes->split(len, SplitPolicy::shared, 3).error().code, ErrorCode::invalid_alignment);
    EXPECT_EQ(content(*bytes), before);
  }
  EXPECT_TRUE(shared.view(16, 16).value().is_empty());
}

// bytes:W-20
TEST_F(BytesTest, SplittingCopiesNothingUnderEitherPolicy) {
  for (const SplitPolicy policy : {SplitPolicy::shared, SplitPolicy::owned}) {
    for (const std::size_t offset : {0u, 1u, 8u, 15u, 16u}) {
      const CopyCount copies_before;
      Bytes left = made(16, 1, *home_);
      const auto calls = backing_->calls;
      const CopyCount copies;
      Bytes right = left.split(offset, policy).value();
      EXPECT_EQ(copies.so_far(), 0u);
      EXPECT_EQ(backing_->calls, calls);
      EXPECT_EQ(left.len(), offset);
      EXPECT_EQ(right.len(), 16 - offset);
      EXPECT_FALSE(left.is_shared() || right.is_shared());
      for (auto& byte : left.write(Writer::no_copy()).value()) byte = std::byte{0xaa};
      const auto all = counting(16);
      EXPECT_EQ(content(right), std::vector<std::byte>(
                                    all.begin() + static_cast<std::ptrdiff_t>(offset), all.end()));
    }
  }
}

TEST_F(BytesTest, AnOwnedSplitOfASharedValueCopiesOnceOrNotAtAll) {
  Bytes a = made(100, 1, *home_);
  ASSERT_TRUE(a.shared().has_value());
  Bytes b = a.clone().value();
  const CopyCount copies;
  Bytes right = b.split(60, SplitPolicy::owned).value();
  EXPECT_EQ(copies.so_far(), 100u);
  EXPECT_TRUE(b.is_exclusive() && right.is_exclusive());
  EXPECT_EQ(b.data() + 60, right.data());
  Bytes tail = a.split(60, SplitPolicy::owned).value();  // a is the last of its group by now
  EXPECT_EQ(copies.so_far(), 100u);
  EXPECT_TRUE(a.is_exclusive() && tail.is_exclusive());
}

TEST_F(BytesTest, ASharedSplitGivesWindowsOfOneGroup) {
  Bytes left = made(100, 1, *home_);
  ASSERT_TRUE(left.shared().has_value());
  Bytes right = left.split(60, SplitPolicy::shared).value();
  EXPECT_EQ(right.write(Writer::no_copy()).error().code, ErrorCode::would_copy);
  const CopyCount copies;
  ASSERT_TRUE(right.write().has_value());
  EXPECT_EQ(copies.so_far(), 40u);
  ASSERT_TRUE(left.write(Writer::no_copy()).has_value());  // alone now
}

TEST_F(BytesTest, MinAlignCopiesOnlyThePartThatNeedsIt) {
  const auto home = Home::make(backing_, {.alignment = 64}).value();
  Bytes left = made(128, 1, *home);
  const CopyCount copies;
  Bytes right = left.split(64, SplitPolicy::owned, 64).value();
  EXPECT_EQ(copies.so_far(), 0u);
  Bytes odd = right.split(24, SplitPolicy::owned, 16).value();
  EXPECT_EQ(copies.so_far(), 40u);
  EXPECT_EQ(right.capacity(), 64u) << "the part left in place keeps all the room";
  EXPECT_GE(odd.align(), 16u);
  EXPECT_EQ(content(odd), content(made(128).split(88).value()));

  Bytes window = made(128, 1, *home);
  ASSERT_TRUE(window.shared().has_value());
  Bytes part = window.view(8, 128).value();
  const CopyCount both;
  const Bytes rest = part.split(10, SplitPolicy::shared, 16).value();
  EXPECT_EQ(both.so_far(), 120u);
  EXPECT_TRUE(part.is_shared() && rest.is_shared()) << "a copied part keeps its mode";
}

TEST_F(BytesTest, AlignIsTrueOfThePointer) {  // bytes:W-09
  const auto home = Home::make(backing_, {.alignment = 4096}).value();
  Bytes bytes = made(256, 1, *home);
  EXPECT_EQ(bytes.align(), 4096u);
  ASSERT_TRUE(bytes.shared().has_value());
  for (std::size_t offset = 0; offset < 256; ++offset) {
    const Bytes view = bytes.view(offset, 256).value();
    ASSERT_TRUE(is_aligned(reinterpret_cast<std::uintptr_t>(view.data()), view.align()));
    const std::size_t expected = offset == 0 ? 4096 : offset & (~offset + 1);
    ASSERT_EQ(view.align(), expected);
  }
}

// fault:B-03
TEST_F(BytesTest, SplitAndJoinRestoreEverything) {
  for (std::size_t offset = 0; offset <= 16; ++offset) {
    Bytes bytes = Bytes::with_capacity(32, *home_).value();
    ASSERT_TRUE(bytes.extend(counting(16)).has_value());
    const std::byte* const address = bytes.data();
    const auto calls = backing_->calls;
    const CopyCount copies;
    Bytes tail = bytes.split(offset).value();
    ASSERT_TRUE(bytes.join(std::move(tail)).has_value());
    EXPECT_EQ(content(bytes), counting(16));
    EXPECT_EQ(bytes.capacity(), 32u) << offset;
    EXPECT_EQ(bytes.data(), address);
    EXPECT_EQ(copies.so_far(), 0u);
    EXPECT_EQ(backing_->calls, calls);
    EXPECT_TRUE(tail.is_empty());  // NOLINT(bugprone-use-after-move)
  }
}

TEST_F(BytesTest, JoinRefusesStrangersAndTouchesNeither) {
  Bytes a = made(8, 1, *home_);
  Bytes b = made(8, 9, *home_);
  EXPECT_EQ(a.join(std::move(b)).error().code, ErrorCode::not_adjacent);
  EXPECT_EQ(content(b), counting(8, 9));  // NOLINT(bugprone-use-after-move)

  Bytes c = a.split(4).value();
  EXPECT_EQ(c.join(std::move(a)).error().code, ErrorCode::not_adjacent) << "wrong order";
  ASSERT_TRUE(c.shared().has_value());
  const Bytes other = c.clone().value();
  EXPECT_EQ(a.join(std::move(c)).error().code, ErrorCode::not_unique);
  EXPECT_EQ(a.len(), 4u);
  EXPECT_EQ(c.len(), 4u);  // NOLINT(bugprone-use-after-move)
}

TEST_F(BytesTest, OwnedSplitOfAValueThatOthersShareCopiesItOnceWhateverTheAlignment) {
  Bytes value = made(1000, 1, *home_);
  ASSERT_TRUE(value.shared().has_value());
  const Bytes other = value.clone().value();
  const CopyCount copies;
  const Bytes right = value.split(333, SplitPolicy::owned, 64).value();
  EXPECT_EQ(copies.so_far(), 1000u);
  EXPECT_EQ(right.align() % 64, 0u);
  EXPECT_EQ(right[0], other[333]);
}

TEST_F(BytesTest, AJoinedAwayValueKeepsItsHome) {  // D25
  Bytes left = made(64, 1, *home_);
  Bytes right = left.split(32).value();
  ASSERT_TRUE(left.join(std::move(right)).has_value());
  EXPECT_EQ(&right.home(), home_.get());  // NOLINT(bugprone-use-after-move)

  Bytes nothing = Bytes::with_capacity(0, *home_).value();
  ASSERT_TRUE(nothing.join(std::move(left)).has_value());
  EXPECT_EQ(&left.home(), home_.get());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(nothing.len(), 64u);
}

TEST_F(BytesTest, RoomIsJoinedOnlyToItsNeighbour) {
  Bytes left = Bytes::with_capacity(32, *home_).value();
  ASSERT_TRUE(left.extend(counting(16)).has_value());
  Bytes middle = left.split(8).value();
  Bytes room = middle.split(8).value();
  ASSERT_TRUE(left.join(std::move(room)).has_value()) << "an empty side is always accepted";
  EXPECT_EQ(left.capacity(), 8u);
  EXPECT_EQ(content(middle)[0], counting(16)[8]);
}

// A half taken back from sharing is divided and shared again: the groups stay two deep.
TEST_F(BytesTest, HalvesOfHalvesShareAndForkLikeAnyOther) {
  Bytes left = made(64, 1, *home_);
  Bytes right = left.split(32).value();
  ASSERT_TRUE(right.shared().has_value());
  ASSERT_TRUE(right.write(Writer::no_copy()).has_value());
  Bytes quarter = right.split(16).value();
  ASSERT_TRUE(quarter.shared().has_value());
  Bytes clone = quarter.clone().value();
  left = Bytes();
  right = Bytes();
  const CopyCount copies;
  clone.write().value()[0] = std::byte{0};
  EXPECT_EQ(copies.so_far(), 16u);
  EXPECT_EQ(&clone.home(), home_.get());
  EXPECT_EQ(quarter[0], counting(64)[48]);
  EXPECT_EQ(backing_->usage().live_blocks, 2u);
}

TEST_F(BytesTest, JoinOfWindowsStaysSharedAndOfStealableHalvesBecomesExclusive) {
  Bytes a = made(8, 1, *home_);
  ASSERT_TRUE(a.shared().has_value());
  Bytes b = a.split(3).value();
  ASSERT_TRUE(a.join(std::move(b)).has_value());
  EXPECT_TRUE(a.is_shared());
  EXPECT_EQ(content(a), counting(8));

  Bytes left = made(8, 1, *home_);
  Bytes right = left.split(5).value();
  ASSERT_TRUE(left.shared().has_value());
  ASSERT_TRUE(right.shared().has_value());
  ASSERT_TRUE(left.join(std::move(right)).has_value());
  EXPECT_TRUE(left.is_exclusive());
  EXPECT_EQ(content(left), counting(8));
  EXPECT_EQ(left.capacity(), 8u);
}

}  // namespace
}  // namespace assay
