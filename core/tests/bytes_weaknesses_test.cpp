// Weaknesses of the original that no other test of Bytes would notice coming back. The whole list,
// with the test that closes each: docs/origins.md.
#include <gtest/gtest.h>

#include "assay/backing/slab_pool.hpp"
#include "assay/buffer/unified_buffer.hpp"
#include "bytes_fixture.hpp"
#include "driver_backings.hpp"
#include "lazy_source.hpp"
#include "scratch_file.hpp"

namespace assay {
namespace {

using test::content;
using test::CopyCount;
using test::counting;
using test::made;
using BytesWeaknesses = test::OnChecking;

std::vector<std::byte> extended(std::vector<std::byte> bytes, std::size_t first) {
  const auto more = counting(1, static_cast<unsigned>(first));
  bytes.insert(bytes.end(), more.begin(), more.end());
  return bytes;
}

// bytes:W-10: what growth promises is what was asked for, not where the block happens to lie.
TEST(BytesWeakness, AlignAfterGrowthDoesNotDependOnTheAddress) {
  for (const std::size_t alignment : {1u, 4u, 64u}) {
    const auto home =
        Home::make(Ref<Backing>::retain(&Home::host().backing()), {.alignment = alignment}).value();
    for (int round = 0; round < 200; ++round) {
      Bytes bytes = made(1 + static_cast<std::size_t>(round), 1, *home);
      ASSERT_TRUE(bytes.extend(counting(1000)).has_value());
      ASSERT_EQ(bytes.align(), alignment);
      ASSERT_TRUE(is_aligned(reinterpret_cast<std::uintptr_t>(bytes.data()), alignment));
    }
  }
}

// bytes:W-17: twice an odd length need not be a multiple of anything.
TEST_F(BytesWeaknesses, ValuesOfEveryOriginGrowByOneByteFromAnOddLength) {
  const auto bytes = counting(101);
  const test::ScratchFile file(bytes);
  const auto source = test::LazySource::make(bytes);
  const auto pool = Home::make(SlabPool::make(backing_)).value();
  std::vector<std::uint8_t> elements(101);
  std::memcpy(elements.data(), bytes.data(), 101);
  Bytes parent = made(150, 1, *home_);
  ASSERT_TRUE(parent.shared().has_value());

  std::vector<Bytes> values;
  values.push_back(parent.view(0, 101).value());
  values.push_back(Bytes::from_external(ExternalMemory::constant(bytes), *home_).value());
  values.push_back(Bytes::from_vector(std::move(elements), *home_).value());
  values.push_back(Bytes::from_file(file.path(), {}, *home_).value());
  values.push_back(Bytes::map_file(file.path(), {}, *home_).value());
  values.push_back(test::lazy_bytes(source, *home_));
  values.push_back(made(101, 1, *pool));
  for (Bytes& value : values) {
    ASSERT_TRUE(value.extend(counting(1, 7)).has_value());
    EXPECT_EQ(content(value), extended(bytes, 7));
    EXPECT_GE(value.capacity(), 102u);
    EXPECT_TRUE(is_aligned(reinterpret_cast<std::uintptr_t>(value.data()), value.align()));
    ASSERT_TRUE(value.extend(counting(101, 8)).has_value());
    EXPECT_EQ(value.len(), 203u);
  }
}

template <class E>
void gives_elements_only_where_they_fit(Home& home) {
  for (const std::size_t offset : {0u, 1u, 2u, 4u, 8u, 16u}) {
    for (const std::size_t size : {0u, 1u, 15u, 16u, 32u, 33u}) {
      Bytes whole = made(64, 1, home);
      Bytes value = whole.split(offset).value();
      value.truncate(size);
      const std::vector<std::byte> before = content(value);
      const auto address = reinterpret_cast<std::uintptr_t>(value.data());
      const bool fits = size % sizeof(E) == 0 && is_aligned(address, alignof(E));
      const CopyCount copies;
      auto elements = value.try_into_owned<E>();
      ASSERT_EQ(elements.has_value(), fits) << offset << ' ' << size << ' ' << sizeof(E);
      EXPECT_EQ(copies.so_far(), 0u);
      if (!fits) {
        const ErrorCode why =
            size % sizeof(E) != 0 ? ErrorCode::out_of_range : ErrorCode::invalid_alignment;
        EXPECT_EQ(elements.error().code, why);
        EXPECT_EQ(content(value), before);
      } else if (size != 0) {
        EXPECT_EQ(std::memcmp(elements.value().get(), before.data(), size), 0);
      }
    }
  }
}

// bytes:W-18: block alignment x element alignment x remainder. The fixture checks that every block
// goes back with the size and alignment that it was made with, whatever type let go of it.
TEST_F(BytesWeaknesses, ElementsAreGivenAwayByAddressAndLengthAndFreedAsTheyWereMade) {
  for (const std::size_t alignment : {1u, 4u, 16u, 64u}) {
    const auto home = Home::make(backing_, {.alignment = alignment}).value();
    gives_elements_only_where_they_fit<std::uint8_t>(*home);
    gives_elements_only_where_they_fit<std::uint16_t>(*home);
    gives_elements_only_where_they_fit<std::uint32_t>(*home);
    gives_elements_only_where_they_fit<double>(*home);
    gives_elements_only_where_they_fit<std::array<std::uint64_t, 2>>(*home);
  }
}

template <class E>
void vector_comes_back_as_itself_alone() {
  for (const std::size_t spare : {0u, 1u, 7u}) {
    std::vector<E> elements(6, E{3});
    elements.reserve(6 + spare);
    const auto* const data = elements.data();
    Bytes bytes = Bytes::from_vector(std::move(elements)).value();
    EXPECT_EQ(bytes.try_into_vec<std::byte>().error().code, ErrorCode::not_supported);
    EXPECT_EQ(bytes.len(), 6 * sizeof(E));
    const auto back = bytes.try_into_vec<E>().value();
    EXPECT_EQ(back, std::vector<E>(6, E{3}));
    EXPECT_EQ(back.data(), data);
  }
}

TEST(BytesWeakness, AVectorComesBackAsItselfAndAsNoOtherType) {  // bytes:W-18
  vector_comes_back_as_itself_alone<std::uint8_t>();
  vector_comes_back_as_itself_alone<std::uint16_t>();
  vector_comes_back_as_itself_alone<float>();
  vector_comes_back_as_itself_alone<double>();
}

TEST_F(BytesWeaknesses, CompactingKeepsTheAlignmentThatWasAskedFor) {  // fault:B-12
  const Ref<Home> home = Home::make(backing_, {.alignment = 4096}).value();
  Bytes bytes = test::made(100'000, 1, *home);
  bytes.truncate(100);
  ASSERT_TRUE(bytes.compact().has_value());
  EXPECT_EQ(bytes.align(), 4096u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes.data()) % 4096, 0u);
}

// bytes:W-24, fault:B-12
TEST_F(BytesWeaknesses, LargeAlignmentsHoldThroughEveryOperation) {
  for (const std::size_t alignment : {64u, 4096u}) {
    const auto home = Home::make(backing_, {.alignment = alignment}).value();
    const auto holds = [&](const Bytes& value) {
      return value.align() == alignment &&
             is_aligned(reinterpret_cast<std::uintptr_t>(value.data()), alignment);
    };
    for (const std::size_t size : {alignment - 1, alignment, alignment + 1}) {
      Bytes value = made(size, 1, *home);
      EXPECT_TRUE(holds(value));
      EXPECT_TRUE(holds(value.clone().value()));
      ASSERT_TRUE(value.shared().has_value());
      Bytes other = value.clone().value();
      Bytes right = other.split(3, SplitPolicy::owned, alignment).value();
      EXPECT_TRUE(holds(other));
      EXPECT_TRUE(holds(right));
      EXPECT_EQ(content(right), content(made(size).split(3).value()));
      Bytes window = value.view(1, size).value();
      ASSERT_TRUE(window.write().has_value());
      EXPECT_TRUE(holds(window)) << "a fork has the block's alignment, not the window's";
      ASSERT_TRUE(value.extend(counting(10'000)).has_value());
      EXPECT_TRUE(holds(value)) << "growth keeps it";
    }
  }
}

// bytes:W-25: what failed, as a value: comparable, with errno and figures, and the path beside it.
TEST_F(BytesWeaknesses, ErrorsCarryTheNativeCodeAndTheFiguresAndCompare) {
  const auto missing = Bytes::from_file("/nonexistent/file");
  EXPECT_EQ(missing.error().code, ErrorCode::io);
  EXPECT_EQ(missing.error().native, ENOENT);
  EXPECT_EQ(missing.error(), Bytes::from_file("/nonexistent/other").error());

  const test::ScratchFile file(counting(100));
  const Bytes bytes = Bytes::from_file(file.path(), {}, *home_).value();
  EXPECT_STREQ(bytes.path(), file.path());
  EXPECT_STREQ(bytes.view(5, 10).value().path(), file.path());
  const Error split = made(10, 1, *home_).split(11).error();
  EXPECT_EQ(split.requested, 11u);
  EXPECT_EQ(split.limit, 10u);
  EXPECT_NE(split, made(10, 1, *home_).split(12).error());
  EXPECT_NE(describe(split).find("split"), std::string::npos) << describe(split);

  const auto source = test::LazySource::make(counting(10));
  const Bytes unread = test::lazy_bytes(source, *home_);
  source->fail_all(true);
  EXPECT_EQ(unread.read().error().native, 5);
  EXPECT_EQ(unread.read().error(), unread.read().error());
}

// bytes:W-26
TEST_F(BytesWeaknesses, HugeRegionsAreRefusedWhenTheyAreOpened) {
  const test::ScratchFile file(counting(100));
  const std::uint64_t last = UINT64_MAX;
  for (const FileRegion region :
       {FileRegion{.offset = last, .size = 1}, FileRegion{.offset = last, .size = last - 1},
        FileRegion{.offset = 1, .size = last - 1}, FileRegion{.offset = 50, .size = last - 49},
        FileRegion{.offset = std::uint64_t{1} << 63, .size = std::uint64_t{1} << 63},
        FileRegion{.offset = last}, FileRegion{.offset = 101}}) {
    for (const auto& opened : {Bytes::from_file(file.path(), region, *home_).error(),
                               Bytes::map_file(file.path(), region, *home_).error()}) {
      EXPECT_EQ(opened.code, ErrorCode::out_of_range);
    }
  }
  // What is huge inside a region that is not, is refused as well.
  const Bytes bytes = Bytes::from_file(file.path(), {.offset = 90, .size = 10}, *home_).value();
  EXPECT_EQ(bytes.view(1, SIZE_MAX).error().code, ErrorCode::out_of_range);
  std::vector<std::byte> to(5);
  EXPECT_EQ(bytes.copy_into(to, SIZE_MAX - 2).error().code, ErrorCode::out_of_range);
}

// fault:B-16: shrinking writes nothing, growing again only what is new.
TEST_F(BytesWeaknesses, ResizingUpAndDownTouchesOnlyWhatIsNew) {
  Bytes all = made(4096 + 32, 1, *home_);
  Bytes bytes = all.split(16).value();
  Bytes after = bytes.split(4096).value();
  std::vector<std::byte> expected = content(bytes);
  for (const std::size_t len : {100u, 0u, 50u, 50u, 49u, 4096u}) {
    ASSERT_TRUE(bytes.resize(len).has_value());
    expected.resize(len);
    EXPECT_EQ(content(bytes), expected) << len;
    for (auto& byte : bytes.write().value()) byte = std::byte{0x5a};
    expected.assign(len, std::byte{0x5a});
  }
  EXPECT_EQ(content(all), counting(16));
  EXPECT_EQ(content(after), counting(16, 4096 + 16 + 1));
}

// fault:B-17: whatever makes a block go back, nothing of a secret goes with it.
TEST_F(BytesWeaknesses, BlocksLeftByGrowthForksAndCompactingAreWiped) {
  const auto home = Home::make(backing_, {.wipe = Wipe::on_release}).value();
  {
    Bytes secret = made(64, 1, *home);
    ASSERT_TRUE(secret.extend(counting(1000)).has_value());
    ASSERT_TRUE(secret.shared().has_value());
    Bytes fork = secret.clone().value();
    ASSERT_TRUE(fork.write().has_value());
    Bytes window = secret.view(10, 20).value();
    secret = Bytes();
    ASSERT_TRUE(window.compact().has_value());
    fork.truncate(1);
    ASSERT_TRUE(fork.compact().has_value());
  }
  EXPECT_GE(backing_->freed.size(), 4u);
  for (const auto& freed : backing_->freed) {
    std::vector<std::byte> bytes = freed.bytes;
    bytes.resize(freed.request.size);
    EXPECT_EQ(std::ranges::count(bytes, std::byte{0}) +
                  std::ranges::count(bytes, std::byte{0xcd}),  // never written
              std::ssize(bytes));
  }
}

}  // namespace

namespace cuda {
namespace {

class BytesWeaknessesOfDevices : public DriverBackings {
 protected:
  UnifiedBuffer buffer(std::size_t size) {
    auto made = UnifiedBuffer::create(size, {.backing = Device::make(context_).value()}).value();
    EXPECT_TRUE(made.write_at(0, test::counting(size)).has_value());
    return made;
  }
};

// bytes:W-01, bytes:W-16: whoever holds the values, nobody is left who could change the device's
// bytes through assay; and what is written to a value stays in it.
TEST_F(BytesWeaknessesOfDevices, AFrozenBufferIsASnapshotAgainstBothSides) {
  UnifiedBuffer device = buffer(1000);
  Bytes first = device.freeze().value();
  const Bytes clone = first.clone().value();
  EXPECT_EQ(device.size(), 0u) << "freezing consumes the buffer";
  EXPECT_EQ(device.write_at(0, test::counting(1, 99)).error().code, ErrorCode::out_of_range);
  EXPECT_EQ(UnifiedBuffer::detach(first).error().code, ErrorCode::not_unique);
  ASSERT_TRUE(device.resize(1000).has_value());  // another buffer, on the host
  ASSERT_TRUE(device.write_at(0, test::counting(1000, 99)).has_value());

  for (auto& byte : first.write().value()) byte = std::byte{0};
  ASSERT_TRUE(clone.read().has_value());
  EXPECT_EQ(test::content(clone), test::counting(1000)) << "written bytes went to a fork";
  EXPECT_EQ(UnifiedBuffer::detach(first).value().size(), 1000u) << "which is host memory";
}

TEST_F(BytesWeaknessesOfDevices, GrowthKeepsHomeAndProperty) {  // bytes:W-21
  for (const Ref<Backing>& backing :
       {Ref<Backing>(Pinned::make(context_).value()), Ref<Backing>(Managed::make(context_).value()),
        Ref<Backing>(SlabPool::make(Pinned::make(context_).value()))}) {
    const auto home = Home::make(backing, {.alignment = 256}).value();
    Bytes value = test::made(100, 1, *home);
    const auto grown = [&](Bytes& bytes) {
      EXPECT_TRUE(bytes.extend(test::counting(200'000)).has_value());
      EXPECT_EQ(&bytes.home(), home.get());
      EXPECT_EQ(bytes.property(), AllocationProperty::pinned);
      EXPECT_EQ(bytes.align(), 256u);
      EXPECT_EQ(&bytes.home().backing(), backing.get());
    };
    Bytes exclusive = value.clone().value();
    grown(exclusive);
    ASSERT_TRUE(value.shared().has_value());
    Bytes other = value.clone().value();
    grown(other);
    grown(value);
    EXPECT_EQ(backing->usage().live_blocks, 3u);
  }
}

}  // namespace
}  // namespace cuda
}  // namespace assay
