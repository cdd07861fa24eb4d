// The tests of the original's `Bytes`, said again for ours: those whose statement no other test
// makes. Each names the one that it stands for; docs/origins.md has the whole list. Where a single
// owner now takes its block over, a second handle is kept alive.
#include <gtest/gtest.h>

#include "assay/buffer/unified_buffer.hpp"
#include "bytes_fixture.hpp"
#include "driver_backings.hpp"
#include "scratch_file.hpp"

namespace assay {
namespace {

using test::content;
using test::CopyCount;
using test::counting;
using test::made;
using Upstream = test::OnChecking;

std::vector<std::byte> part(std::size_t start, std::size_t end) {
  const auto all = counting(end);
  return {all.begin() + static_cast<std::ptrdiff_t>(start), all.end()};
}

Bytes from_static(std::span<const std::byte> memory) {
  ExternalMemory external = ExternalMemory::constant(memory);
  external.property = AllocationProperty::file;
  return Bytes::from_external(external).value();
}

// base :: test_into_vec. Ours is one refusal more: an adopted vector is given back as its own type
// alone, and bytes as any fitting type by try_into_owned. The length counts, not the room.
TEST_F(Upstream, ElementsThatDoNotFitAreRefusedAndTheValueStays) {
  Bytes bytes = Bytes::with_capacity(6, *home_).value();
  ASSERT_TRUE(bytes.extend(counting(4)).has_value());
  EXPECT_EQ((bytes.try_into_owned<std::array<std::byte, 3>>().error().code),
            ErrorCode::out_of_range);
  EXPECT_EQ(bytes.try_into_owned<std::uint64_t>().error().code, ErrorCode::out_of_range);
  EXPECT_EQ(content(bytes), counting(4));
  const auto pairs = bytes.try_into_owned<std::array<std::byte, 2>>().value();
  EXPECT_EQ(pairs.get_deleter().size(), 2u);
  EXPECT_EQ(pairs[1][1], counting(4)[3]);
}

// base :: test_grow; shared_arc :: test_shared_extend
TEST_F(Upstream, AppendsToEmptyAndToFullAndToShared) {
  Bytes empty = Bytes::with_capacity(0, *home_).value();
  ASSERT_TRUE(empty.extend(counting(4)).has_value());
  ASSERT_TRUE(empty.extend(counting(4, 5)).has_value());
  EXPECT_EQ(content(empty), counting(8));
  Bytes shared = made(3, 1, *home_);
  ASSERT_TRUE(shared.shared().has_value());
  const Bytes other = shared.clone().value();
  ASSERT_TRUE(shared.extend(counting(3, 4)).has_value());
  EXPECT_EQ(content(shared), counting(6));
  EXPECT_EQ(content(other), counting(3));
}

// base :: test_large_elems, test_from_bytes_vec_try_into_vec_aligned_type. A vector of bytes stays
// one; its bytes are given as wider elements by try_into_owned, without a copy.
TEST(UpstreamBase, SixteenByteElementsEverySoOften) {
  using Wide = std::array<std::uint64_t, 2>;
  for (int round = 0; round < 64; ++round) {
    Bytes bytes = Bytes::from_vector(std::vector<Wide>(1, Wide{7, 8})).value();
    ASSERT_TRUE(bytes.extend(counting(16)).has_value());
    ASSERT_EQ(bytes.align(), 16u);
    const CopyCount copies;
    const auto elements = bytes.try_into_owned<Wide>().value();
    ASSERT_EQ(elements.get_deleter().size(), 2u);
    ASSERT_EQ(elements[0], (Wide{7, 8}));
    ASSERT_EQ(copies.so_far(), 0u);
  }
}

// base :: test_split_and_use, test_split_native_over_aligned_shared, .._owned; shared_arc ::
// test_shared_split, test_shared_split_then_clone. Of an exclusive value both policies give
// exclusive halves (D9), so the clone of a half is a copy; of a shared one it is a handle.
TEST_F(Upstream, ClonesOfHalvesHoldTheirHalf) {
  for (const bool is_shared : {false, true}) {
    for (const SplitPolicy policy : {SplitPolicy::shared, SplitPolicy::owned}) {
      Bytes left = made(16, 1, *home_);
      Bytes other;
      if (is_shared) {
        ASSERT_TRUE(left.shared().has_value());
        other = left.clone().value();
      }
      Bytes right = left.split(8, policy).value();
      const Bytes left_clone = left.clone().value();
      const Bytes right_clone = right.clone().value();
      for (auto& byte : left.write().value()) byte = std::byte{0};
      right.write().value()[7] = std::byte{0};
      EXPECT_EQ(content(left_clone), part(0, 8));
      EXPECT_EQ(content(right_clone), part(8, 16));
      EXPECT_EQ(right[0], counting(9)[8]);
      if (is_shared) {
        EXPECT_EQ(content(other), counting(16));
      }
    }
  }
}

// base :: test_view_shared_then_mutate; shared_arc :: test_shared_copy_on_write,
// test_shared_view_is_zero_copy, test_shared_try_into_vec_never_succeeds. Ours never succeeds while
// another handle lives, and gives the vector back once it is alone.
TEST(UpstreamShared, ViewsAreWindowsThatForkAndDoNotConvert) {
  Bytes source = Bytes::from_vector(std::vector<std::uint8_t>{1, 2, 3, 4, 5}).value();
  ASSERT_TRUE(source.shared().has_value());
  const CopyCount copies;
  Bytes window = source.view(1, 4).value();
  EXPECT_EQ(window.data(), source.data() + 1);
  EXPECT_EQ(copies.so_far(), 0u);
  EXPECT_EQ(window.try_into_vec<std::uint8_t>().error().code, ErrorCode::not_unique);
  EXPECT_EQ(source.try_into_vec<std::uint8_t>().error().code, ErrorCode::not_unique);
  window.write().value()[0] = std::byte{99};
  EXPECT_EQ(source[1], std::byte{2});
  EXPECT_EQ(source.try_into_vec<std::uint8_t>().value(),
            (std::vector<std::uint8_t>{1, 2, 3, 4, 5}));
}

// shared_arc :: test_shared_no_copy_write_errors_until_cow
TEST_F(Upstream, AWriteWithoutACopyIsRefusedUntilOneWasAllowed) {
  Bytes bytes = made(8, 1, *home_);
  ASSERT_TRUE(bytes.shared().has_value());
  const Bytes other = bytes.clone().value();
  EXPECT_EQ(bytes.write(Writer::no_copy()).error().code, ErrorCode::would_copy);
  EXPECT_TRUE(bytes.read(Reader::no_copy()).has_value());
  ASSERT_TRUE(bytes.write().has_value());
  EXPECT_TRUE(bytes.write(Writer::no_copy()).has_value());
}

// shared :: test_from_static, test_from_vec, test_split, test_split_at_zero, test_split_at_len,
// test_duplicate, test_split_preserves_property, test_duplicate_preserves_property,
// test_property_file, test_bytes_from_shared_with_file_property, test_copy_into
TEST(UpstreamExternal, WindowsOfForeignMemoryKeepContentAndProperty) {
  const auto memory = counting(5);
  const CopyCount copies;
  for (const std::size_t at : {0u, 2u, 5u}) {
    Bytes left = from_static(memory);
    EXPECT_EQ(left.property(), AllocationProperty::file);
    const Bytes duplicate = left.clone().value();
    EXPECT_EQ(duplicate.capacity(), 5u);
    EXPECT_EQ(duplicate.property(), AllocationProperty::file);
    EXPECT_EQ(duplicate.data(), memory.data());
    const Bytes right = left.split(at).value();
    EXPECT_EQ(content(left), part(0, at));
    EXPECT_EQ(content(right), part(at, 5));
    // An empty part has no bytes in the file, and says native.
    if (at != 0) {
      EXPECT_EQ(left.property(), AllocationProperty::file);
    }
    if (at != 5) {
      EXPECT_EQ(right.property(), AllocationProperty::file);
    }
  }
  EXPECT_EQ(copies.so_far(), 0u);
  std::vector<std::byte> three(3);
  ASSERT_TRUE(from_static(memory).copy_into(three).has_value());
  EXPECT_EQ(three, counting(3));
}

// shared :: test_grow_fails, test_try_detach_always_succeeds, test_try_into_vec_fails_for_shared_
// bytes, test_alignment_reports_max_align. Ours: growth moves to the home, memory that must not be
// written is never given away (there it was copied first, bytes:W-14), and align() is the
// address's.
TEST(UpstreamExternal, ForeignMemoryIsNeitherGrownNorGivenAwayButForked) {
  alignas(64) static const std::array<std::byte, 8192> memory{};
  Bytes bytes = from_static(memory);
  EXPECT_GE(bytes.align(), 64u);
  const CopyCount copies;
  EXPECT_EQ(bytes.try_into_vec<std::uint8_t>().error().code, ErrorCode::not_supported);
  EXPECT_EQ((bytes.try_into_owned<std::array<std::uint64_t, 2>>().error().code),
            ErrorCode::not_supported);
  EXPECT_EQ(copies.so_far(), 0u);
  EXPECT_EQ(bytes.data(), memory.data());
  ASSERT_TRUE(bytes.extend(counting(1)).has_value());
  EXPECT_EQ(copies.so_far(), 8193u);
  EXPECT_EQ(bytes.property(), AllocationProperty::native);
  EXPECT_EQ(bytes.try_into_owned<std::uint8_t>().value().get_deleter().size(), 8193u);
}

// shared :: test_copy_on_write, test_clone_before_mutation_is_cheap, test_clone_after_mutation_
// copies. Ours is exclusive after its fork, so a clone of it copies until it is shared again.
TEST(UpstreamExternal, ClonesAreCheapBeforeAForkAndDeepAfter) {
  const auto memory = counting(5);
  Bytes bytes = from_static(memory);
  const CopyCount copies;
  EXPECT_EQ(bytes.clone().value(), bytes);
  EXPECT_EQ(copies.so_far(), 0u);
  bytes.write().value()[0] = std::byte{99};
  EXPECT_EQ(bytes[0], std::byte{99});
  EXPECT_EQ(memory, counting(5));
  EXPECT_EQ(copies.so_far(), 5u);
  EXPECT_EQ(bytes.clone().value(), bytes);
  EXPECT_EQ(copies.so_far(), 10u);
}

// shared :: test_slices_from_static_region, test_multiple_slices_share_underlying_data. Ours say
// the alignment that each has.
TEST(UpstreamExternal, SlicesOfOneRegionOverlapInPlace) {
  alignas(16) static const std::array<std::byte, 64> memory{};
  const Bytes all = from_static(memory);
  const Bytes first = all.view(0, 32).value();
  const Bytes second = all.view(32, 64).value();
  const Bytes middle = all.view(17, 40).value();
  EXPECT_EQ(first.data() + 32, second.data());
  EXPECT_EQ(middle.data(), first.data() + 17);
  EXPECT_GE(first.align(), 16u);
  EXPECT_GE(second.align(), 16u);
  EXPECT_EQ(middle.align(), 1u);
}

// file :: test_no_copy_read_and_length_do_not_materialize, test_from_file, test_split_file (three),
// test_view_file_is_zero_copy, test_memory_mut_on_duplicated_file
TEST_F(Upstream, FilesAreReadWhenTheyAreNeededAndNeverWritten) {
  const test::ScratchFile file(counting(50));
  const Bytes all = Bytes::from_file(file.path(), {}, *home_).value();
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(all.read(Reader::no_copy()).error().code, ErrorCode::would_copy);
    EXPECT_EQ(all.len(), 50u);
    EXPECT_EQ(all.capacity(), 50u);
  }
  for (const std::size_t at : {0u, 20u, 50u}) {
    Bytes left = all.clone().value();
    const Bytes right = left.split(at).value();
    EXPECT_EQ(left.read().value().size(), at);
    ASSERT_TRUE(right.read().has_value());
    EXPECT_EQ(content(right), part(at, 50));
  }
  const Bytes view = all.view(10, 20).value();
  ASSERT_TRUE(view.read().has_value());
  EXPECT_EQ(content(view), part(10, 20));
  Bytes clone = all.clone().value();
  clone.write().value()[0] = std::byte{99};
  ASSERT_TRUE(all.read().has_value());
  EXPECT_EQ(content(all), counting(50));
  EXPECT_TRUE(all.read(Reader::no_copy()).has_value());
  EXPECT_TRUE(all.equals(made(50, 1, *home_)).value());
}

// A bundle reader, the original's model of a user that copies nothing: one value, many views.
TEST(UpstreamBundle, OneFileGivesAllItsEntriesWithoutACopy) {
  constexpr std::size_t entry = 96;
  const test::ScratchFile file(counting(entry * 10));
  const CopyCount copies;
  std::vector<Bytes> entries;
  {
    const Bytes bundle = Bytes::map_file(file.path()).value();
    for (std::size_t i = 0; i < 10; ++i) {
      entries.push_back(bundle.view(i * entry, (i + 1) * entry).value());
    }
  }
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_TRUE(entries[i].read(Reader::no_copy()).has_value());
    EXPECT_EQ(content(entries[i]), part(i * entry, (i + 1) * entry));
    EXPECT_GE(entries[i].align(), 32u);
  }
  EXPECT_EQ(copies.so_far(), 0u);
}

}  // namespace

namespace cuda {
namespace {

using UpstreamDevice = DriverBackings;

// core runtime_tests/read_lazy :: test_read_lazy
TEST_F(UpstreamDevice, ADeviceValueIsReadOnceAndItsViewsByThemselves) {
  auto buffer = UnifiedBuffer::create(1000, {.backing = Device::make(context_).value()}).value();
  ASSERT_TRUE(buffer.write_at(0, test::counting(1000)).has_value());
  const Bytes bytes = buffer.freeze().value();
  const SourceReads before = source_reads();
  EXPECT_EQ(bytes.property(), AllocationProperty::device);
  EXPECT_EQ(bytes.len(), 1000u);
  EXPECT_EQ(bytes.capacity(), 1000u);
  EXPECT_EQ(bytes.read(Reader::no_copy()).error().code, ErrorCode::would_copy);
  const Bytes view = bytes.view(400, 800).value();
  EXPECT_EQ(view.property(), AllocationProperty::device);
  EXPECT_EQ(source_reads(), before);
  EXPECT_EQ(view.read().value()[0], test::counting(401)[400]);
  EXPECT_EQ(bytes.property(), AllocationProperty::device) << "the parent was not read";
  ASSERT_TRUE(bytes.read().has_value());
  ASSERT_TRUE(bytes.read(Reader::no_copy()).has_value());
  EXPECT_EQ(source_reads().bytes - before.bytes, 1400u);
}

// core runtime_tests/file :: test_kernel_load_file, as far as Bytes goes: a region of a file of
// 4 MiB goes to the device straight from where it is and comes back as it was.
TEST_F(UpstreamDevice, ARegionOfALargeFileGoesToTheDeviceAndBack) {
  constexpr std::size_t size = std::size_t{4} << 20;
  const auto all = test::counting(size + 100);
  const test::ScratchFile file(all);
  const Bytes region = Bytes::map_file(file.path(), {.offset = 50, .size = size}).value();
  auto buffer = UnifiedBuffer::create(size, {.backing = Device::make(context_).value()}).value();
  ASSERT_TRUE(buffer.write_at(0, region.read().value()).has_value());
  const Bytes back = buffer.freeze().value();
  EXPECT_TRUE(back.equals(region).value());
}

}  // namespace
}  // namespace cuda
}  // namespace assay
