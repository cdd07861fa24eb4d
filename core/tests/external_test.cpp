#include "assay/backing/external.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>

#include "assay/base/system.hpp"
#include "assay/buffer/bytes.hpp"
#include "checking_backing.hpp"

namespace assay {
namespace {

using test::counting;

/// Foreign memory that counts how often it was given back, and what it held then.
struct Owner {
  std::vector<std::byte> memory = counting(100);
  int released = 0;
  std::vector<std::byte> at_release{};

  static void release(void* context, std::span<std::byte> memory) noexcept {
    auto& owner = *static_cast<Owner*>(context);
    ++owner.released;
    owner.at_release.assign(memory.begin(), memory.end());
  }
  [[nodiscard]] ExternalMemory handed_over(ExternalAccess access) {
    return {memory, access, &Owner::release, this};
  }
};

TEST(External, ImmutableMemoryIsBornSharedAndNeverWritten) {
  Owner owner;
  {
    auto made = Bytes::from_external(owner.handed_over(ExternalAccess::immutable));
    Bytes bytes = std::move(made).value();
    EXPECT_TRUE(bytes.is_shared());
    EXPECT_EQ(bytes.data(), owner.memory.data());
    EXPECT_EQ(bytes.write(Writer::no_copy()).error().code, ErrorCode::would_copy);
    EXPECT_EQ(bytes.try_into_owned<unsigned char>().error().code, ErrorCode::not_supported);
    const Bytes view = bytes.view(10, 20).value();
    const auto before = payload_bytes_copied();
    bytes.write().value()[0] = std::byte{0};  // alone or not, an immutable block is forked
    EXPECT_EQ(payload_bytes_copied() - before, 100u);
    EXPECT_EQ(owner.released, 0);
    EXPECT_EQ(bytes.property(), AllocationProperty::native);
    EXPECT_EQ(view[0], counting(100)[10]);
  }
  EXPECT_EQ(owner.released, 1);
  EXPECT_EQ(owner.at_release, counting(100));
}

TEST(External, APrivateForkTellsWhereItsBytesAreNow) {  // bytes:W-22
  Owner owner;
  ExternalMemory memory = owner.handed_over(ExternalAccess::immutable);
  memory.property = AllocationProperty::file;
  Bytes bytes = Bytes::from_external(memory).value();
  EXPECT_EQ(bytes.property(), AllocationProperty::file);
  ASSERT_TRUE(bytes.write().has_value());
  EXPECT_EQ(bytes.property(), AllocationProperty::native);
  EXPECT_EQ(owner.released, 1) << "the source goes with its last handle";
}

TEST(External, WritableMemoryIsExclusiveAndGoesBackOnce) {
  Owner owner;
  {
    Bytes left = Bytes::from_external(owner.handed_over(ExternalAccess::writable)).value();
    EXPECT_TRUE(left.is_exclusive());
    Bytes right = left.split(50).value();
    left.write(Writer::no_copy()).value()[0] = std::byte{0xee};
    EXPECT_EQ(owner.memory[0], std::byte{0xee});
    ASSERT_TRUE(right.extend(counting(10)).has_value());
    EXPECT_EQ(right.len(), 60u);
    EXPECT_EQ(owner.released, 0);
  }
  EXPECT_EQ(owner.released, 1);
}

TEST(External, WritableMemoryIsWipedWhenTheHomeSaysSo) {  // fault:B-17
  const auto home =
      Home::make(Ref<Backing>::retain(&Home::host().backing()), {.wipe = Wipe::on_release}).value();
  Owner written;
  Owner constant;
  {
    const Bytes a =
        Bytes::from_external(written.handed_over(ExternalAccess::writable), *home).value();
    const Bytes b =
        Bytes::from_external(constant.handed_over(ExternalAccess::immutable), *home).value();
  }
  EXPECT_EQ(written.at_release, std::vector<std::byte>(100));
  EXPECT_EQ(constant.at_release, counting(100)) << "constant memory cannot be wiped";
}

TEST(External, AlignmentIsTheAddressesOwn) {  // bytes:W-09
  alignas(64) static const std::array<std::byte, 128> data{};
  const auto at = [&](std::size_t offset) {
    return Bytes::from_external(ExternalMemory::constant(std::span(data).subspan(offset)))
        .value()
        .align();
  };
  EXPECT_EQ(at(1), 1u);
  EXPECT_EQ(at(24), 8u);
  EXPECT_GE(at(0), 64u);
  EXPECT_LE(at(0), page_size());
}

TEST(External, EveryFailedNodeLeavesTheMemoryWithItsOwner) {  // fault:B-08
  Owner owner;
  for (std::uint64_t nth = 1; nth <= 2; ++nth) {
    node_pool::fail_nth(nth);
    const auto refused = Bytes::from_external(owner.handed_over(ExternalAccess::writable));
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
    EXPECT_FALSE(node_pool::failure_pending());
    EXPECT_EQ(owner.released, 0);

    std::vector<int> numbers(10, 3);
    const int* const data = numbers.data();
    node_pool::fail_nth(nth);
    ASSERT_FALSE(Bytes::from_vector(std::move(numbers)).has_value());
    EXPECT_EQ(numbers, std::vector<int>(10, 3));  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(numbers.data(), data);
  }
  EXPECT_TRUE(Bytes::from_external(owner.handed_over(ExternalAccess::writable)).has_value());
  EXPECT_EQ(owner.released, 1);
}

TEST(External, NothingToKeepGoesBackAtOnce) {
  Owner owner;
  const ExternalMemory nothing{{}, ExternalAccess::immutable, &Owner::release, &owner};
  const Bytes bytes = Bytes::from_external(nothing).value();
  EXPECT_EQ(owner.released, 1);
  EXPECT_FALSE(bytes.has_block());
}

TEST(External, AMappingIsUnmappedByItsLastView) {
  const std::size_t size = page_size();
  void* const mapping =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapping, MAP_FAILED);
  static int unmapped = 0;
  const auto unmap = [](void*, std::span<std::byte> memory) noexcept {
    munmap(memory.data(), memory.size());
    ++unmapped;
  };
  {
    Bytes view;
    {
      const std::span<const std::byte> memory(static_cast<std::byte*>(mapping), size);
      const Bytes all = Bytes::from_external(ExternalMemory::constant(memory, unmap)).value();
      view = all.view(size / 2, size).value();
    }
    EXPECT_EQ(unmapped, 0);
    EXPECT_EQ(view[0], std::byte{0});
  }
  EXPECT_EQ(unmapped, 1);
}

}  // namespace
}  // namespace assay
