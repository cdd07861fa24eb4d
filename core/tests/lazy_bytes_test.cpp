// Values whose bytes lie out of the host's reach: when they are read, and when they are not.
#include <gtest/gtest.h>

#include <algorithm>

#include "assay/buffer/format.hpp"
#include "bytes_fixture.hpp"
#include "lazy_source.hpp"

namespace assay {
namespace {

using test::content;
using test::CopyCount;
using test::counting;
using test::lazy_bytes;
using test::LazySource;
using Read = LazySource::Read;

class LazyBytes : public test::OnChecking {
 protected:
  void TearDown() override {
    const bool taken = source_->releases() == 1;
    EXPECT_TRUE(taken) << "the source got its block back " << source_->releases() << " times";
    OnChecking::TearDown();
  }
  Bytes lazy() { return lazy_bytes(source_, *home_); }
  std::vector<std::byte> part(std::size_t start, std::size_t end) const {
    const auto all = source_->content().subspan(start, end - start);
    return {all.begin(), all.end()};
  }

  const Ref<LazySource> source_ = LazySource::make(counting(1000));
};

// bytes:W-05, D13: what never reads.
TEST_F(LazyBytes, FactsCutsAndPrintingReadNothing) {
  Bytes bytes = lazy();
  const CopyCount copies;
  EXPECT_EQ(bytes.len(), 1000u);
  EXPECT_EQ(bytes.capacity(), 1000u);
  EXPECT_FALSE(bytes.is_empty());
  EXPECT_TRUE(bytes.is_shared());
  EXPECT_FALSE(bytes.is_resident());
  EXPECT_EQ(bytes.align(), 16u);
  EXPECT_EQ(bytes.property(), AllocationProperty::file);
  EXPECT_EQ(bytes.retained_bytes(), 0u);
  EXPECT_EQ(&bytes.home(), home_.get());
  EXPECT_EQ(fmt::format("{}", bytes), "Bytes { data: <not read>, len: 1000 }");
  ASSERT_TRUE(bytes.shared().has_value());
  Bytes clone = bytes.clone().value();
  const Bytes window = bytes.view(10, 20).value();
  Bytes right = clone.split(300, SplitPolicy::owned).value();
  EXPECT_FALSE(bytes.equals(right).value()) << "lengths differ";
  EXPECT_TRUE(bytes.equals(bytes.clone().value()).value()) << "one range";
  ASSERT_TRUE(clone.join(std::move(right)).has_value());
  clone.truncate(5);
  ASSERT_TRUE(bytes.extend({}).has_value());
  ASSERT_TRUE(bytes.reserve(0).has_value());
  ASSERT_TRUE(bytes.resize(1000).has_value());
  ASSERT_TRUE(bytes.compact().has_value());
  EXPECT_EQ(bytes.try_into_owned<int>().error().code, ErrorCode::not_resident);
  EXPECT_EQ(bytes.try_into_vec<int>().error().code, ErrorCode::not_resident);
  EXPECT_EQ(bytes.read(Reader::no_copy()).error().code, ErrorCode::would_copy);
  EXPECT_EQ(bytes.write(Writer::no_copy()).error().code, ErrorCode::would_copy);
  EXPECT_EQ(source_->read_count(), 0u);
  EXPECT_EQ(backing_->calls, 0u);
  EXPECT_EQ(copies.so_far(), 0u);
}

TEST_F(LazyBytes, TheFirstReadServesEveryClone) {  // bytes:W-12
  const Bytes bytes = lazy();
  const Bytes clone = bytes.clone().value();
  ASSERT_TRUE(bytes.read().has_value());
  EXPECT_EQ(content(bytes), counting(1000));
  EXPECT_TRUE(clone.is_resident());
  EXPECT_EQ(clone.data(), bytes.data());
  EXPECT_EQ(clone.read(Reader::no_copy()).value().data(), bytes.data());
  EXPECT_EQ(source_->reads(), (std::vector<Read>{{0, 1000}}));
  EXPECT_EQ(bytes.property(), AllocationProperty::native) << "the mirror's place, bytes:W-22";
  EXPECT_EQ(bytes.retained_bytes(), 1008u);
  const Bytes window = bytes.view(100, 200).value();
  EXPECT_EQ(window.data(), bytes.data() + 100) << "a window of the mirror";
  EXPECT_EQ(source_->read_count(), 1u);
}

TEST_F(LazyBytes, AViewReadsItsRangeAloneAndNotItsParent) {
  const Bytes bytes = lazy();
  const Bytes view = bytes.view(100, 300).value();
  const Bytes inner = view.view(50, 60).value();
  ASSERT_TRUE(inner.read().has_value());
  EXPECT_EQ(content(inner), part(150, 160));
  EXPECT_FALSE(view.is_resident() || bytes.is_resident());
  ASSERT_TRUE(view.read().has_value());
  EXPECT_EQ(content(view), part(100, 300));
  EXPECT_FALSE(bytes.is_resident());
  EXPECT_EQ(source_->reads(), (std::vector<Read>{{150, 10}, {100, 200}}));
}

// bytes:W-04: policy and errors through any nesting.
TEST_F(LazyBytes, PolicyAndErrorsPassThroughAnyNesting) {
  Bytes bytes = lazy();
  ASSERT_TRUE(bytes.shared().has_value());
  Bytes nested = bytes.view(1, 999).value().view(1, 900).value().split(100).value();
  EXPECT_EQ(nested.read(Reader::no_copy()).error().code, ErrorCode::would_copy);
  EXPECT_EQ(nested.write(Writer::no_copy()).error().code, ErrorCode::would_copy);
  source_->fail_all(true);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(nested.read().error().code, ErrorCode::read_failed);
    EXPECT_EQ(nested.read().error().native, 5);
    EXPECT_EQ(nested.write().error().code, ErrorCode::read_failed);
    EXPECT_EQ(nested.hash().error().code, ErrorCode::read_failed);
    EXPECT_EQ(nested.equals(bytes.view(0, nested.len()).value()).error().code,
              ErrorCode::read_failed);
    EXPECT_EQ(nested.extend(counting(1)).error().code, ErrorCode::read_failed);
    EXPECT_EQ(nested.resize(2000).error().code, ErrorCode::read_failed);
    EXPECT_EQ(nested.reserve(1).error().code, ErrorCode::read_failed);
    std::vector<std::byte> to(10);
    EXPECT_EQ(nested.copy_into(to).error().code, ErrorCode::read_failed);
    EXPECT_FALSE(nested.is_resident());
    EXPECT_EQ(nested.len(), 799u);
  }
  source_->fail_all(false);
  nested.write().value()[0] = std::byte{0};  // no failure poisoned anything
  EXPECT_EQ(bytes.read().value()[102], counting(1000)[102]);
}

TEST_F(LazyBytes, AFailedFirstReadIsRetryableAndItsMirrorIsWiped) {
  const auto wiping = Home::make(backing_, {.wipe = Wipe::on_release}).value();
  const Bytes bytes = lazy_bytes(source_, *wiping);
  source_->fail_nth(1);
  EXPECT_EQ(bytes.read().error().code, ErrorCode::read_failed);
  ASSERT_EQ(backing_->freed.size(), 1u);
  auto& mirror = backing_->freed[0].bytes;
  mirror.resize(1000);  // the rest belongs to the backing
  EXPECT_EQ(mirror, std::vector<std::byte>(1000));
  EXPECT_EQ(bytes.read().value().size(), 1000u);
}

TEST_F(LazyBytes, AWriteReadsStraightIntoABlockOfItsOwn) {
  Bytes bytes = lazy();
  const Bytes clone = bytes.clone().value();
  const CopyCount copies;
  bytes.write().value()[0] = std::byte{0};
  EXPECT_EQ(copies.so_far(), 0u);
  EXPECT_EQ(backing_->allocations, 1u);
  EXPECT_TRUE(bytes.is_exclusive());
  EXPECT_FALSE(clone.is_resident()) << "the others stay lazy";
  EXPECT_EQ(clone.read().value()[0], counting(1000)[0]);
}

TEST_F(LazyBytes, TheLastHandleOfAMirrorTakesItOver) {  // D16
  Bytes bytes = lazy();
  ASSERT_TRUE(bytes.read().has_value());
  const std::byte* const mirror = bytes.data();
  const CopyCount copies;
  ASSERT_TRUE(bytes.write(Writer::no_copy()).has_value());
  EXPECT_EQ(bytes.data(), mirror);
  EXPECT_EQ(copies.so_far(), 0u);
  EXPECT_EQ(source_->releases(), 1u) << "stealing a mirror drops the source";
}

TEST_F(LazyBytes, AStolenMirrorOfAnUnsettledHandleIsFound) {
  const Bytes reader = lazy();
  Bytes writer = reader.clone().value();
  ASSERT_TRUE(reader.read().has_value());  // `writer` has never looked
  const Bytes window = writer.view(10, 20).value();
  EXPECT_EQ(content(window), part(10, 20));
  writer.truncate(500);
  EXPECT_EQ(content(writer), part(0, 500));
  EXPECT_EQ(source_->read_count(), 1u);
}

TEST_F(LazyBytes, ExtendTakesItsOwnBytesThoughAnotherHandleReadThem) {
  Bytes bytes = lazy();
  ASSERT_TRUE(bytes.clone().value().read().has_value());  // `bytes` has never looked
  ASSERT_TRUE(bytes.extend(bytes.span()).has_value());    // and moves to a larger block
  ASSERT_EQ(bytes.len(), 2000u);
  for (const std::size_t start : {0u, 1000u}) {
    EXPECT_TRUE(std::ranges::equal(bytes.span().subspan(start, 1000), source_->content()));
  }
}

TEST_F(LazyBytes, ASourceThatTheHostReachesIsAskedWhetherItStayedTheSame) {
  /// Memory of somebody who may say that it is no longer what it was.
  class Changing final : public Source {
   public:
    Changing() : Source({.id = "changing", .capabilities = Capabilities::host_access}) {}
    std::vector<std::byte> memory = counting(100);
    bool changed = false;

   private:
    Result<void> do_verify(Block) noexcept override {
      if (!changed) return {};
      return Error::make(ErrorCode::source_changed, "verify", info().id);
    }
    Freed do_deallocate(Block, const Release&) noexcept override { return Freed::now; }
  };
  const auto changing = Ref<Changing>::adopt(new Changing);
  const Block block{reinterpret_cast<std::uintptr_t>(changing->memory.data()), 100};
  Bytes bytes = Bytes::from_source(changing, block, AllocationProperty::other, *home_).value();
  const Bytes window = bytes.view(10, 20).value();
  EXPECT_TRUE(bytes.is_resident());
  EXPECT_EQ(window.read().value()[0], counting(100)[10]);
  changing->changed = true;
  EXPECT_EQ(window.read().error().code, ErrorCode::source_changed);
  EXPECT_EQ(bytes.write().error().code, ErrorCode::source_changed);
  (void)lazy();
}

TEST_F(LazyBytes, SplitsOfUnreadValuesAreUnitsOfTheirOwn) {  // D12, bytes:W-02
  for (const bool shared_with_another : {false, true}) {
    Bytes left = lazy_bytes(LazySource::make(counting(100)), *home_);
    const Bytes other = shared_with_another ? left.clone().value() : Bytes();
    Bytes right = left.split(40, SplitPolicy::owned, 64).value();
    EXPECT_EQ(left.align(), 64u);
    EXPECT_EQ(right.align(), 64u);
    right.write().value()[0] = std::byte{0};
    EXPECT_FALSE(left.is_resident());
    ASSERT_TRUE(left.read().has_value());
    EXPECT_TRUE(is_aligned(reinterpret_cast<std::uintptr_t>(left.data()), 64));
    auto first = counting(100);
    first.resize(40);
    EXPECT_EQ(content(left), first);
    EXPECT_EQ(left.len(), 40u);
    EXPECT_EQ(right.len(), 60u);
    EXPECT_FALSE(other.has_block() && other.is_resident());
  }
  ASSERT_TRUE(lazy().read().has_value());
}

TEST_F(LazyBytes, SplitAfterAWriteKeepsTheWrite) {  // bytes:W-02
  Bytes bytes = lazy();
  bytes.write().value()[0] = std::byte{77};
  bytes.write().value()[999] = std::byte{78};
  const Bytes right = bytes.split(500).value();
  EXPECT_EQ(bytes[0], std::byte{77});
  EXPECT_EQ(right[499], std::byte{78});
}

TEST_F(LazyBytes, JoinOfUnreadNeighboursStaysLazy) {  // D17
  Bytes left = lazy();
  Bytes right = left.split(400).value();
  Bytes rest = right.split(100).value();
  EXPECT_EQ(left.join(std::move(rest)).error().code, ErrorCode::not_adjacent);
  ASSERT_TRUE(left.join(std::move(right)).has_value());
  ASSERT_TRUE(left.join(std::move(rest)).has_value());
  EXPECT_FALSE(left.is_resident());
  ASSERT_TRUE(left.read().has_value());
  EXPECT_EQ(content(left), counting(1000));
  EXPECT_EQ(source_->reads(), (std::vector<Read>{{0, 1000}}));
}

TEST_F(LazyBytes, TruncateNarrowsTheUnitOrOnlyTheValue) {  // D15
  Bytes sole = lazy();
  sole.truncate(10);
  ASSERT_TRUE(sole.read().has_value());
  EXPECT_EQ(source_->reads(), (std::vector<Read>{{0, 10}}));

  Bytes one = sole.view(0, 0).value();
  one = lazy_bytes(LazySource::make(counting(100)), *home_);
  const Bytes other = one.clone().value();
  node_pool::fail_nth(1);  // no node for a narrower unit
  one.truncate(10);
  node_pool::fail_nth(0);
  ASSERT_TRUE(one.read().has_value());
  EXPECT_EQ(content(one), counting(10));
  EXPECT_TRUE(other.is_resident()) << "the old unit was filled";
}

TEST_F(LazyBytes, RangesGoStraightIntoTheCallersBuffer) {  // bytes:W-03, bytes:W-26
  const Bytes bytes = lazy().view(10, 20).value();
  std::vector<std::byte> to(5);
  ASSERT_TRUE(bytes.copy_into(to, 5).has_value());
  EXPECT_EQ(to, part(15, 20));
  std::vector<std::byte> more(20);
  EXPECT_EQ(bytes.copy_into(more).error().code, ErrorCode::out_of_range);
  EXPECT_EQ(bytes.copy_into(more, SIZE_MAX).error().code, ErrorCode::out_of_range);
  EXPECT_EQ(source_->reads(), (std::vector<Read>{{15, 5}}));
  EXPECT_EQ(backing_->calls, 0u);

  std::vector<std::byte> all;
  std::vector<std::byte> scratch(4);
  ASSERT_TRUE(bytes
                  .read_chunks(scratch,
                               [&](std::span<const std::byte> piece) {
                                 all.insert(all.end(), piece.begin(), piece.end());
                                 return Result<void>();
                               })
                  .has_value());
  EXPECT_EQ(all, part(10, 20));
  EXPECT_EQ(source_->read_count(), 4u);
  EXPECT_FALSE(bytes.is_resident());
}

TEST_F(LazyBytes, CompactOfAMirrorLetsTheSourceGo) {
  Bytes bytes = lazy();
  ASSERT_TRUE(bytes.read().has_value());
  const CopyCount copies;
  ASSERT_TRUE(bytes.compact().has_value());
  EXPECT_EQ(copies.so_far(), 0u);
  EXPECT_EQ(source_->releases(), 1u);
  EXPECT_TRUE(bytes.is_shared());
}

TEST_F(LazyBytes, AFailingCompactKeepsTheSource) {  // D8
  Bytes bytes = lazy();
  ASSERT_TRUE(bytes.read().has_value());
  bytes.truncate(10);
  const std::size_t retained = bytes.retained_bytes();
  backing_->fail_nth(1);
  EXPECT_EQ(bytes.compact().error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(source_->releases(), 0u);
  EXPECT_EQ(bytes.retained_bytes(), retained);
}

TEST_F(LazyBytes, EveryFailingStepOfMakingAndReadingChangesNothing) {
  for (std::uint64_t nth = 1;; ++nth) {
    const auto source = LazySource::make(counting(100));
    node_pool::fail_nth(nth);
    auto made = Bytes::from_source(source, source->block(), AllocationProperty::file, *home_);
    if (made) {
      node_pool::fail_nth(0);
      EXPECT_GT(nth, 2u);
      break;
    }
    EXPECT_EQ(made.error().code, ErrorCode::out_of_memory);
    EXPECT_EQ(source->releases(), 0u) << "the block stays the caller's";
  }
  const Bytes bytes = lazy();
  backing_->fail_nth(1);
  EXPECT_EQ(bytes.read().error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(source_->read_count(), 0u);
  EXPECT_EQ(bytes.read().value().size(), 1000u);
}

// `span()` of a value that a clone has read leads into the mirror, which growth gives back.
TEST_F(LazyBytes, ExtendAcceptsItsOwnBytesOfAMirrorThatAnotherHandleRead) {
  Bytes bytes = lazy();
  ASSERT_TRUE(bytes.clone().value().read().has_value());
  ASSERT_TRUE(bytes.extend(bytes.span()).has_value());
  auto expected = part(0, 1000);
  const auto twice = part(0, 1000);
  expected.insert(expected.end(), twice.begin(), twice.end());
  EXPECT_EQ(content(bytes), expected);
}

TEST_F(LazyBytes, ABlockOfNoBytesIsAnEmptyValueAndOneBeyondEverySizeIsRefused) {
  const Block huge{source_->block().address, size_max + 1};
  const auto refused = Bytes::from_source(source_, huge, AllocationProperty::file, *home_);
  EXPECT_EQ(refused.error().code, ErrorCode::too_large);
  EXPECT_EQ(source_->releases(), 0u);
  const Block nothing{source_->block().address, 0};
  const Bytes empty =
      Bytes::from_source(source_, nothing, AllocationProperty::file, *home_).value();
  EXPECT_EQ(source_->releases(), 1u);
  EXPECT_TRUE(empty.read().has_value());
  EXPECT_FALSE(empty.has_block());
  EXPECT_EQ(&empty.home(), home_.get());
}

// bytes:W-02 of a value that was read before: what is written is the mirror, and no file's.
TEST_F(LazyBytes, SplitAfterAWriteToTheMirrorKeepsTheWrite) {
  for (const bool again : {false, true}) {
    const auto source = LazySource::make(counting(1000));
    Bytes bytes = lazy_bytes(source, *home_);
    ASSERT_TRUE(bytes.read().has_value());
    bytes.write().value()[600] = std::byte{77};
    if (again) {
      ASSERT_TRUE(bytes.shared().has_value());
    }
    const Bytes right = bytes.split(500, SplitPolicy::owned, again ? 8 : 1).value();
    EXPECT_EQ(right.read().value()[100], std::byte{77});
    EXPECT_EQ(bytes.read().value()[0], source->content()[0]);
    EXPECT_EQ(source->read_count(), 1u);
  }
  const Bytes unused = lazy();
}

}  // namespace
}  // namespace assay
