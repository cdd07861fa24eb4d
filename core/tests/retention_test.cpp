// What values keep alive, counted once a block.
#include "assay/buffer/retention.hpp"

#include "assay/backing/heap.hpp"
#include "assay/backing/quota.hpp"
#include "assay/buffer/unified_buffer.hpp"
#include "bytes_fixture.hpp"
#include "driver_backings.hpp"
#include "lazy_source.hpp"

namespace assay {
namespace {

using test::CopyCount;
using test::counting;
using test::made;
using RetentionTest = test::OnChecking;

// fault:B-07
TEST(Retention, TinyViewsTellWhatTheyKeepAndTheTenantPaysForItUntilTheyAreCompacted) {
  constexpr std::size_t parents = 100;
  constexpr std::size_t parent_size = std::size_t{4} << 20;
  const auto tenant = Tenant::make();
  const auto home = Home::make(Quota::make(tenant, Heap::make())).value();
  std::vector<Bytes> views;
  for (std::size_t i = 0; i < parents; ++i) {
    Bytes parent = Bytes::with_capacity(parent_size, *home).value();
    ASSERT_TRUE(parent.extend(counting(64)).has_value());
    ASSERT_TRUE(parent.shared().has_value());
    views.push_back(parent.view(4, 8).value());
  }
  const CopyCount copies;
  const Retention before = retention_of(views).value();
  EXPECT_EQ(before.logical_bytes, 4 * parents);
  EXPECT_GE(before.retained_bytes, parents * parent_size);
  EXPECT_LT(before.retained_bytes, parents * (parent_size + (std::size_t{1} << 16)));
  EXPECT_GE(tenant->account().charged, parents * parent_size);
  EXPECT_EQ(copies.so_far(), 0u);

  for (Bytes& view : views) ASSERT_TRUE(view.compact().has_value());
  const std::size_t least = home->backing().footprint({.size = 4});
  EXPECT_EQ(retention_of(views).value(), (Retention{4 * parents, least * parents}));
  EXPECT_EQ(tenant->account().charged, least * parents);
  for (const Bytes& view : views)
    EXPECT_EQ(test::content(view), test::content(made(8).split(4).value()));
}

TEST_F(RetentionTest, EveryBlockCountsOnceHoweverManyValuesShareIt) {
  std::vector<Bytes> values;
  values.push_back(made(1000, 1, *home_));
  values.push_back(values[0].split(600).value());  // an exclusive half
  ASSERT_TRUE(values[1].shared().has_value());     // a child of that block
  values.push_back(values[1].view(10, 20).value());
  values.push_back(made(50, 1, *home_));
  values.emplace_back();
  std::size_t each = 0;
  for (const Bytes& value : values) each += value.retained_bytes();
  EXPECT_EQ(each, 3 * 1008u + 64u) << "a value alone tells all that it keeps";
  EXPECT_EQ(retention_of(values).value(), (Retention{600 + 400 + 10 + 50, 1008 + 64}));
  EXPECT_EQ(retention_of({}).value(), Retention{});
}

TEST_F(RetentionTest, NothingIsReadAndAFileKeepsNothingUntilItIs) {
  const auto source = test::LazySource::make(counting(1000));
  std::vector<Bytes> values;
  values.push_back(test::lazy_bytes(source, *home_));
  values.push_back(values[0].clone().value());
  values.push_back(values[0].view(0, 100).value());
  EXPECT_EQ(retention_of(values).value(), (Retention{2100, 0}));
  EXPECT_EQ(source->read_count(), 0u);
  ASSERT_TRUE(values[0].read().has_value());
  EXPECT_EQ(retention_of(values).value(), (Retention{2100, 1008})) << "one mirror for both clones";
  EXPECT_EQ(source->read_count(), 1u);
}

TEST_F(RetentionTest, SumsThatNoSizeHoldsAreRefused) {
  // Foreign memory that nobody looks at: its length alone counts.
  static std::byte one{};
  const auto huge = [&](std::size_t size) {
    return Bytes::from_external(ExternalMemory::constant({&one, size}), *home_).value();
  };
  std::vector<Bytes> values;
  values.push_back(huge(size_max - 1));
  values.push_back(huge(1));
  EXPECT_EQ(retention_of(values).value(), (Retention{size_max, size_max}));
  values.push_back(huge(1));
  EXPECT_EQ(retention_of(values).error().code, ErrorCode::too_large);
}

}  // namespace

namespace cuda {
namespace {

using RetentionOfDevices = DriverBackings;

TEST_F(RetentionOfDevices, UnreadPartsOfOneDeviceBlockCountItOnce) {
  const auto device = Device::make(context_).value();
  auto buffer = UnifiedBuffer::create(1000, {.backing = device, .wipe = Wipe::no}).value();
  std::vector<Bytes> values;
  values.push_back(buffer.freeze().value());
  values.push_back(values[0].split(400).value());
  const std::size_t block = device->footprint({.size = 1000});
  EXPECT_EQ(retention_of(values).value(), (Retention{1000, block}));
  ASSERT_TRUE(values[1].read().has_value());
  EXPECT_EQ(retention_of(values).value(), (Retention{1000, values[1].retained_bytes()}));
}

}  // namespace
}  // namespace cuda
}  // namespace assay
