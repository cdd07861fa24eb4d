// Range attributes' arguments, and pointer attributes of every kind of memory.
#include <array>
#include <set>

#include "model_fixture.hpp"

namespace assay::cuda::model_test {
namespace {

struct AttributesTest : testing::Test {
  void SetUp() override { context = start(); }
  Context context = nullptr;
};

TEST_F(AttributesTest, RangeQueriesRefuseBadArguments) {
  const DevicePointer memory = managed_memory(4096);
  std::array<int, 4> data{7, 7, 7, 7};
  constexpr auto one = RangeAttribute::read_mostly;
  constexpr auto list = RangeAttribute::accessed_by;
  EXPECT_STATUS(1, cuMemRangeGetAttribute(nullptr, 4, one, memory, 1));
  EXPECT_STATUS(1, cuMemRangeGetAttribute(data.data(), 8, one, memory, 1));
  EXPECT_STATUS(1, cuMemRangeGetAttribute(data.data(), 0, list, memory, 1));
  EXPECT_STATUS(1, cuMemRangeGetAttribute(data.data(), 6, list, memory, 1));
  EXPECT_STATUS(1,
                cuMemRangeGetAttribute(data.data(), 4, static_cast<RangeAttribute>(9), memory, 1));
  EXPECT_STATUS(1,
                cuMemRangeGetAttribute(data.data(), 4, static_cast<RangeAttribute>(0), memory, 1));
  EXPECT_EQ(data, (std::array<int, 4>{7, 7, 7, 7}));
  EXPECT_STATUS(0, cuMemFree_v2(memory));
}

TEST_F(AttributesTest, PluralRangeQueryGivesAllOrNothing) {
  const DevicePointer memory = managed_memory(4096);
  int read_mostly = 7;
  std::array<int, 2> accessed{7, 7};
  int preferred = 7;
  std::array<void*, 3> data{&read_mostly, accessed.data(), &preferred};
  std::array<std::size_t, 3> sizes{4, 8, 4};
  std::array<RangeAttribute, 3> attributes{RangeAttribute::read_mostly, RangeAttribute::accessed_by,
                                           RangeAttribute::preferred_location};
  EXPECT_STATUS(
      0, cuMemRangeGetAttributes(data.data(), sizes.data(), attributes.data(), 3, memory, 4096));
  EXPECT_EQ(read_mostly, 0);
  EXPECT_EQ(accessed, (std::array<int, 2>{-2, -2}));
  EXPECT_EQ(preferred, -2);
  read_mostly = 7;
  sizes[2] = 3;
  EXPECT_STATUS(
      1, cuMemRangeGetAttributes(data.data(), sizes.data(), attributes.data(), 3, memory, 4096));
  EXPECT_STATUS(
      1, cuMemRangeGetAttributes(data.data(), sizes.data(), attributes.data(), 0, memory, 4096));
  EXPECT_EQ(read_mostly, 7);
  EXPECT_STATUS(0, cuMemFree_v2(memory));
}

TEST(AttributesProfile, OlderDriverHasNoTypedLocations) {
  const Environment variable(model_profile_variable, "driver_11_8");
  in_fresh_process([] {
    start();
    const DevicePointer memory = managed_memory(4096);
    int value = 0;
    EXPECT_STATUS(
        0, cuMemRangeGetAttribute(&value, 4, RangeAttribute::last_prefetch_location, memory, 1));
    EXPECT_STATUS(
        1, cuMemRangeGetAttribute(&value, 4, RangeAttribute::preferred_location_type, memory, 1));
    EXPECT_STATUS(1, cuDeviceGetAttribute(&value, DeviceAttribute::numa_id, 0));
    EXPECT_STATUS(0, cuDeviceGetAttribute(&value, DeviceAttribute::memory_pools_supported, 0));
  });
}

template <class Value>
Value query(PointerAttribute attribute, DevicePointer address) {
  Value value{};
  EXPECT_STATUS(0, cuPointerGetAttribute(&value, attribute, address));
  return value;
}

TEST_F(AttributesTest, PointersOfEveryKind) {
  static char registered[100];
  void* pinned = nullptr;
  EXPECT_STATUS(0, cuMemHostAlloc(&pinned, 100, 0));
  EXPECT_STATUS(0, cuMemHostRegister_v2(registered, 100, 0));
  struct Row {
    DevicePointer base;
    unsigned type;
    unsigned managed;
    bool host;
  };
  const std::array<Row, 4> rows{{
      {device_memory(100), 2, 0, false},
      {managed_memory(100), 2, 1, true},
      {reinterpret_cast<DevicePointer>(pinned), 1, 0, true},
      {reinterpret_cast<DevicePointer>(&registered), 1, 0, true},
  }};
  std::set<std::uint64_t> ids;
  for (const Row& row : rows) {
    const DevicePointer inside = row.base + 99;
    EXPECT_EQ(query<Context>(PointerAttribute::context, inside), context);
    EXPECT_EQ(query<unsigned>(PointerAttribute::memory_type, inside), row.type);
    EXPECT_EQ(query<unsigned>(PointerAttribute::is_managed, inside), row.managed);
    EXPECT_EQ(query<DevicePointer>(PointerAttribute::device_pointer, inside), inside);
    EXPECT_EQ(query<int>(PointerAttribute::device_ordinal, inside), 0);
    EXPECT_EQ(query<DevicePointer>(PointerAttribute::range_start_addr, inside), row.base);
    EXPECT_EQ(query<std::size_t>(PointerAttribute::range_size, inside), 100U);
    EXPECT_EQ(query<unsigned>(PointerAttribute::mapped, inside), 1U);
    EXPECT_EQ(query<MemPool>(PointerAttribute::mempool_handle, inside), nullptr);
    EXPECT_EQ(query<unsigned>(PointerAttribute::access_flags, inside), 3U);
    EXPECT_TRUE(ids.insert(query<std::uint64_t>(PointerAttribute::buffer_id, inside)).second);
    DevicePointer host = 0;
    EXPECT_STATUS(row.host ? 0 : 1,
                  cuPointerGetAttribute(&host, PointerAttribute::host_pointer, inside));
    EXPECT_EQ(host, row.host ? inside : 0);
    EXPECT_STATUS(1, cuPointerGetAttribute(&host, PointerAttribute::context, row.base + 100));
  }
  EXPECT_STATUS(0, cuMemFree_v2(rows[0].base));
  EXPECT_STATUS(0, cuMemFree_v2(rows[1].base));
  EXPECT_STATUS(0, cuMemFreeHost(pinned));
  EXPECT_STATUS(0, cuMemHostUnregister(registered));
}

TEST_F(AttributesTest, BufferIdTellsANewOwner) {
  const DevicePointer first = device_memory(64);
  const auto id = query<std::uint64_t>(PointerAttribute::buffer_id, first);
  EXPECT_STATUS(0, cuMemFree_v2(first));
  std::uint64_t other = 0;
  EXPECT_STATUS(1, cuPointerGetAttribute(&other, PointerAttribute::buffer_id, first));
  const DevicePointer second = device_memory(64);
  EXPECT_NE(query<std::uint64_t>(PointerAttribute::buffer_id, second), id);
  EXPECT_STATUS(0, cuMemFree_v2(second));
}

TEST_F(AttributesTest, PluralPointerQueryGivesDefaultsForOtherMemory) {
  int local = 0;
  auto managed = 7U;
  auto type = 7U;
  int ordinal = 7;
  auto owner = reinterpret_cast<Context>(std::uintptr_t{7});
  std::array<PointerAttribute, 4> attributes{
      PointerAttribute::is_managed, PointerAttribute::memory_type, PointerAttribute::device_ordinal,
      PointerAttribute::context};
  std::array<void*, 4> data{&managed, &type, &ordinal, &owner};
  EXPECT_STATUS(0, cuPointerGetAttributes(4, attributes.data(), data.data(),
                                          reinterpret_cast<DevicePointer>(&local)));
  EXPECT_EQ(managed, 0U);
  EXPECT_EQ(type, 0U);
  EXPECT_EQ(ordinal, device_invalid);
  EXPECT_EQ(owner, nullptr);

  const DevicePointer memory = device_memory(64);
  void* host = &local;
  attributes[3] = PointerAttribute::host_pointer;
  data[3] = &host;
  EXPECT_STATUS(0, cuPointerGetAttributes(4, attributes.data(), data.data(), memory));
  EXPECT_EQ(type, 2U);
  EXPECT_EQ(ordinal, 0);
  EXPECT_EQ(host, nullptr);
  attributes[0] = static_cast<PointerAttribute>(99);
  EXPECT_STATUS(1, cuPointerGetAttributes(4, attributes.data(), data.data(), memory));
  EXPECT_STATUS(1, cuPointerGetAttributes(0, attributes.data(), data.data(), memory));
  EXPECT_STATUS(0, cuMemFree_v2(memory));
}

TEST_F(AttributesTest, OnlySyncMemopsCanBeSet) {
  const DevicePointer memory = device_memory(64);
  EXPECT_EQ(query<unsigned>(PointerAttribute::sync_memops, memory), 0U);
  unsigned value = 1;
  EXPECT_STATUS(0, cuPointerSetAttribute(&value, PointerAttribute::sync_memops, memory));
  EXPECT_EQ(query<unsigned>(PointerAttribute::sync_memops, memory), 1U);
  EXPECT_STATUS(1, cuPointerSetAttribute(&value, PointerAttribute::is_managed, memory));
  EXPECT_STATUS(1, cuPointerSetAttribute(nullptr, PointerAttribute::sync_memops, memory));
  EXPECT_STATUS(1, cuPointerSetAttribute(&value, PointerAttribute::sync_memops, 64));
  EXPECT_STATUS(1, cuPointerGetAttribute(&value, static_cast<PointerAttribute>(99), memory));
  EXPECT_STATUS(1, cuPointerGetAttribute(nullptr, PointerAttribute::is_managed, memory));
  EXPECT_STATUS(0, cuMemFree_v2(memory));
}

}  // namespace
}  // namespace assay::cuda::model_test
