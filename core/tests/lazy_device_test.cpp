// Device memory as lazy Bytes: frozen, read on demand, given back. Over the driver's model.
#include <gtest/gtest.h>

#include <thread>

#include "assay/buffer/unified_buffer.hpp"
#include "bytes_fixture.hpp"
#include "driver_backings.hpp"

namespace assay::cuda {
namespace {

using test::content;
using test::counting;

class LazyDevice : public DriverBackings {
 protected:
  UnifiedBuffer buffer(std::size_t size, Wipe wipe = Wipe::no) {
    auto made =
        UnifiedBuffer::create(size, {.backing = Device::make(context_).value(), .wipe = wipe})
            .value();
    EXPECT_TRUE(made.write_at(0, counting(size)).has_value());
    return made;
  }
};

TEST_F(LazyDevice, AFrozenBufferIsReadWhenItIsFirstNeeded) {  // bytes:W-13
  Bytes bytes = buffer(1000).freeze().value();
  const SourceReads before = source_reads();
  EXPECT_EQ(bytes.property(), AllocationProperty::device);
  EXPECT_FALSE(bytes.is_resident());
  EXPECT_GE(bytes.retained_bytes(), 1000u);
  const Bytes clone = bytes.clone().value();
  const Bytes view = bytes.view(400, 800).value();
  const Bytes right = bytes.split(900).value();
  EXPECT_EQ(source_reads(), before);

  auto expected = counting(1000);
  ASSERT_TRUE(view.read().has_value());
  EXPECT_EQ(content(view), std::vector(expected.begin() + 400, expected.begin() + 800));
  EXPECT_EQ(source_reads().bytes - before.bytes, 400u);
  EXPECT_FALSE(clone.is_resident());
  ASSERT_TRUE(clone.read().has_value());
  EXPECT_EQ(content(clone), expected);
  EXPECT_EQ(clone.property(), AllocationProperty::native);
}

TEST_F(LazyDevice, AWrittenValueIsOnTheHostAndTheDeviceGoesFree) {
  Bytes bytes = buffer(1000).freeze().value();
  bytes.write().value()[0] = std::byte{0};
  EXPECT_EQ(live_blocks(), 0u) << "nothing needs the device block any more";
  EXPECT_EQ(bytes[999], counting(1000)[999]);
}

TEST_F(LazyDevice, DetachGivesTheDeviceBlockBackWhileItIsWholeAndSole) {  // D23
  for (const bool read : {false, true}) {
    auto made = buffer(1000);
    Bytes bytes = made.freeze().value();
    EXPECT_TRUE(made.is_empty());
    if (read) {
      ASSERT_TRUE(bytes.read().has_value());
    }
    {
      Bytes clone = bytes.clone().value();
      EXPECT_EQ(UnifiedBuffer::detach(bytes).error().code, ErrorCode::not_unique);
    }
    {
      const Bytes right = bytes.view(500, 1000).value();
      EXPECT_EQ(UnifiedBuffer::detach(bytes).error().code, ErrorCode::not_unique);
    }
    auto back = UnifiedBuffer::detach(bytes).value();
    EXPECT_TRUE(bytes.is_empty());
    EXPECT_FALSE(back.host_addressable());
    EXPECT_EQ(back.size(), 1000u);
    std::vector<std::byte> seen(1000);
    ASSERT_TRUE(back.read_at(0, seen).has_value());
    EXPECT_EQ(seen, counting(1000));
  }
  Bytes parts = buffer(1000).freeze().value();
  Bytes right = parts.split(500).value();
  parts = Bytes();
  EXPECT_EQ(UnifiedBuffer::detach(right).error().code, ErrorCode::out_of_range);
  EXPECT_EQ(right.len(), 500u);
}

TEST_F(LazyDevice, MirrorsOfAWipedBufferAreWiped) {
  const auto checking = test::CheckingBacking::make();
  const auto home = Home::make(checking).value();
  ASSERT_FALSE(home->wipes());
  {
    const Bytes bytes = buffer(256, Wipe::on_release).freeze(*home).value();
    ASSERT_TRUE(bytes.read().has_value());
    EXPECT_TRUE(bytes.home().wipes());
  }
  ASSERT_EQ(checking->freed.size(), 1u);
  EXPECT_TRUE(checking->freed[0].all_zero());
  EXPECT_EQ(live_blocks(), 0u);
}

TEST_F(LazyDevice, TheFirstReadComesFromAnyThread) {
  const Bytes bytes = buffer(4096).freeze().value();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { EXPECT_EQ(bytes.read().value()[4095], counting(4096)[4095]); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(LazyDevice, AnEmptyBufferFreezesToAnEmptyValue) {
  auto made = buffer(16);
  made.shrink(0);
  EXPECT_TRUE(made.freeze().value().is_empty());
  EXPECT_EQ(live_blocks(), 0u);
}

}  // namespace
}  // namespace assay::cuda
