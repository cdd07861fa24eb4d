// Pools of stream-ordered memory: their life, limits, attributes, access and accounting.
#include <cstring>

#include "stream_driver.hpp"

namespace assay::model_tests {
namespace {

constexpr std::uint64_t step = 32ULL << 20;

struct PoolTest : DriverTest {
  MemPool pool(std::size_t max_size = 0) {
    MemPoolProps wanted = properties();
    wanted.max_size = max_size;
    MemPool made = nullptr;
    EXPECT_EQ(cu.cuMemPoolCreate(&made, &wanted), Status::success);
    return made;
  }
  static MemPoolProps properties() {
    MemPoolProps wanted{};
    wanted.alloc_type = AllocationType::pinned;
    wanted.location = {LocationType::device, 0};
    return wanted;
  }
  DevicePointer allocate(MemPool from, std::size_t bytes, Stream in) {
    DevicePointer address = 0;
    EXPECT_EQ(cu.cuMemAllocFromPoolAsync(&address, bytes, from, in), Status::success);
    return address;
  }
  std::uint64_t attribute(MemPool of, MemPoolAttribute which) {
    std::uint64_t value = 0;
    EXPECT_EQ(cu.cuMemPoolGetAttribute(of, which, &value), Status::success);
    return value;
  }
  std::uint64_t reserved(MemPool of) {
    return attribute(of, MemPoolAttribute::reserved_mem_current);
  }
  std::uint64_t used(MemPool of) { return attribute(of, MemPoolAttribute::used_mem_current); }
  std::size_t free_bytes() {
    std::size_t free = 0;
    std::size_t total = 0;
    EXPECT_EQ(cu.cuMemGetInfo_v2(&free, &total), Status::success);
    return free;
  }
  void expect_clean() { EXPECT_EQ(control.diagnosis_count(), 0U) << control.diagnosis(0); }
};

TEST_F(PoolTest, MemoryIsUsedInStreamOrder) {
  const Stream one = stream();
  DevicePointer address = 0;
  ASSERT_EQ(cu.cuMemAllocAsync(&address, size, one), Status::success);
  EXPECT_EQ(address % 512, 0U);
  EXPECT_EQ(control.live_objects(assay_model_pooled), 1U);
  EXPECT_EQ(control.live_bytes(assay_model_pooled), size);
  std::uint8_t* host = pinned();
  EXPECT_EQ(cu.cuMemsetD8Async(address, 7, size, one), Status::success);
  EXPECT_EQ(cu.cuMemcpyDtoHAsync_v2(host, address, size, one), Status::success);
  EXPECT_EQ(cu.cuMemFreeAsync(address, one), Status::success);
  EXPECT_EQ(control.live_objects(assay_model_pooled), 0U);
  sync(one);
  EXPECT_EQ(std::vector<std::uint8_t>(host, host + size), filled(7));
  EXPECT_EQ(control.live_objects(assay_model_pooled), 0U);
  EXPECT_EQ(cu.cuMemFreeHost(host), Status::success);
  expect_clean();
}

TEST_F(PoolTest, FreshMemoryIsNeverZero) {
  const Stream one = stream();
  DevicePointer address = 0;
  ASSERT_EQ(cu.cuMemAllocAsync(&address, size, one), Status::success);
  sync(one);
  const std::vector<std::uint8_t> bytes = bytes_at(address);
  EXPECT_EQ(std::memchr(bytes.data(), 0, bytes.size()), nullptr);
  EXPECT_EQ(cu.cuMemFreeAsync(address, one), Status::success);
}

TEST_F(PoolTest, ArgumentsOfAllocationAndFree) {
  const Stream one = stream();
  const auto no_stream = reinterpret_cast<Stream>(~std::uintptr_t{0});
  DevicePointer address = 0;
  EXPECT_EQ(cu.cuMemAllocAsync(nullptr, size, one), Status::invalid_value);
  EXPECT_EQ(cu.cuMemAllocAsync(&address, 0, one), Status::invalid_value);
  EXPECT_EQ(cu.cuMemAllocAsync(&address, size, no_stream), Status::invalid_handle);
  EXPECT_EQ(cu.cuMemAllocAsync(&address, std::size_t{1} << 46, one), Status::out_of_memory);
  EXPECT_EQ(cu.cuMemAllocAsync(&address, ~std::size_t{0}, one), Status::out_of_memory);
  EXPECT_EQ(cu.cuMemAllocFromPoolAsync(&address, size, nullptr, one), Status::invalid_value);
  EXPECT_EQ(address, 0U);
  EXPECT_EQ(cu.cuMemFreeAsync(0, one), Status::invalid_value);

  ASSERT_EQ(cu.cuMemAllocAsync(&address, size, one), Status::success);
  EXPECT_EQ(cu.cuMemFreeAsync(address, no_stream), Status::invalid_handle);
  expect_clean();
  EXPECT_EQ(cu.cuMemFreeAsync(address + 512, one), Status::invalid_value);
  EXPECT_EQ(cu.cuMemFreeAsync(address, one), Status::success);
}

TEST_F(PoolTest, SecondFreeNamesBoth) {
  const Stream one = stream();
  for (const bool waited : {false, true}) {
    for (const bool in_order : {false, true}) {
      control.forget_diagnoses();
      DevicePointer address = 0;
      ASSERT_EQ(cu.cuMemAllocAsync(&address, size, one), Status::success);
      EXPECT_EQ(cu.cuMemFreeAsync(address, one), Status::success);
      if (waited) sync(one);
      expect_clean();
      EXPECT_EQ(in_order ? cu.cuMemFreeAsync(address, one) : cu.cuMemFree_v2(address),
                Status::invalid_value);
      EXPECT_TRUE(diagnosed("pool_free_twice"));
      EXPECT_TRUE(diagnosed("made by cuMemAllocAsync (call "));
      EXPECT_TRUE(diagnosed("freed by cuMemFreeAsync (call "));
    }
  }
}

TEST_F(PoolTest, FreesOfOtherMemoryAreRefused) {
  const Stream one = stream();
  const DevicePointer plain = device();
  EXPECT_EQ(cu.cuMemFreeAsync(plain, one), Status::invalid_value);
  EXPECT_TRUE(diagnosed("pool_free_foreign"));
  EXPECT_TRUE(diagnosed("made by cuMemAlloc_v2 (call "));
  EXPECT_EQ(cu.cuMemFree_v2(plain), Status::success);
  EXPECT_EQ(cu.cuMemFreeAsync(plain, one), Status::invalid_value);
  EXPECT_TRUE(diagnosed("free_twice"));
}

TEST_F(PoolTest, PlainFreeDoesNotWait) {
  const Stream one = stream();
  DevicePointer address = 0;
  ASSERT_EQ(cu.cuMemAllocAsync(&address, size, one), Status::success);
  Gate gate(*this, one);
  EXPECT_EQ(cu.cuMemsetD8Async(address, 1, size, one), Status::success);
  EXPECT_EQ(cu.cuMemFree_v2(address), Status::success);  // behind a closed gate: it returns
  EXPECT_TRUE(diagnosed("free_in_flight"));
  EXPECT_EQ(control.live_objects(assay_model_pooled), 0U);
  gate.open();
  sync(one);  // and the late work meets stale memory, which is there

  control.forget_diagnoses();
  ASSERT_EQ(cu.cuMemAllocAsync(&address, size, one), Status::success);
  EXPECT_EQ(cu.cuMemsetD8Async(address, 1, size, one), Status::success);
  sync(one);
  EXPECT_EQ(cu.cuMemFree_v2(address), Status::success);
  expect_clean();
}

TEST_F(PoolTest, PlainFreeIsAfterWhatTheHostHasSeen) {
  const Stream one = stream();
  const Stream two = stream();
  DevicePointer address = 0;
  ASSERT_EQ(cu.cuMemAllocAsync(&address, size, one), Status::success);
  EXPECT_EQ(cu.cuMemFree_v2(address), Status::success);
  EXPECT_TRUE(diagnosed("pool_free_unordered: cuMemFree_v2 (call "));

  control.forget_diagnoses();
  ASSERT_EQ(cu.cuMemAllocAsync(&address, size, one), Status::success);
  sync(one);
  EXPECT_EQ(cu.cuMemsetD8Async(address, 1, size, two), Status::success);
  sync(one);  // of no avail: the use is in the other
  EXPECT_EQ(cu.cuMemFree_v2(address), Status::success);
  EXPECT_TRUE(diagnosed("free_in_flight: cuMemFree_v2 (call "));

  control.forget_diagnoses();
  ASSERT_EQ(cu.cuMemAllocAsync(&address, size, one), Status::success);
  sync(one);
  EXPECT_EQ(cu.cuMemFree_v2(address), Status::success);
  expect_clean();
}

TEST_F(PoolTest, OnlyTheDefaultStreamNeedsAContext) {
  const Stream one = stream();
  Context popped = nullptr;
  ASSERT_EQ(cu.cuCtxPopCurrent_v2(&popped), Status::success);
  DevicePointer address = 0;
  EXPECT_EQ(cu.cuMemAllocAsync(&address, size, nullptr), Status::invalid_context);
  EXPECT_EQ(cu.cuMemAllocAsync(&address, size, one), Status::success);
  EXPECT_EQ(cu.cuMemFreeAsync(address, nullptr), Status::invalid_context);
  EXPECT_EQ(cu.cuMemFreeAsync(address, one), Status::success);
  EXPECT_EQ(cu.cuCtxPushCurrent_v2(popped), Status::success);
}

TEST_F(PoolTest, MemoryOutlivesItsContext) {
  Context other = nullptr;
  ASSERT_EQ(cu.cuCtxCreate_v2(&other, 0, 0), Status::success);
  const Stream theirs = stream();
  DevicePointer address = 0;
  ASSERT_EQ(cu.cuMemAllocAsync(&address, size, theirs), Status::success);
  EXPECT_EQ(cu.cuMemsetD8Async(address, 3, size, theirs), Status::success);
  sync(theirs);
  ASSERT_EQ(cu.cuCtxDestroy_v2(other), Status::success);
  EXPECT_EQ(bytes_at(address), filled(3));
  EXPECT_EQ(cu.cuMemFreeAsync(address, stream()), Status::success);
  EXPECT_EQ(control.live_objects(assay_model_pooled), 0U);
  expect_clean();
}

TEST_F(PoolTest, AFreeThatIsDroppedWithItsContextIsAFree) {
  Context other = nullptr;
  ASSERT_EQ(cu.cuCtxCreate_v2(&other, 0, 0), Status::success);
  const MemPool mine = pool();
  const DevicePointer address = allocate(mine, size, stream());
  EXPECT_EQ(cu.cuMemFreeAsync(address, nullptr), Status::success);
  ASSERT_EQ(cu.cuCtxDestroy_v2(other), Status::success);
  EXPECT_EQ(cu.cuMemPoolDestroy(mine), Status::success);
  EXPECT_EQ(control.live_objects(assay_model_pool), 0U);
}

TEST_F(PoolTest, PoolsThatCannotBe) {
  const auto create = [&](const MemPoolProps& wanted) {
    MemPool made = nullptr;
    const Status status = cu.cuMemPoolCreate(&made, &wanted);
    EXPECT_EQ(made, nullptr);
    return status;
  };
  MemPool made = nullptr;
  MemPoolProps wanted = properties();
  EXPECT_EQ(cu.cuMemPoolCreate(nullptr, &wanted), Status::invalid_value);
  EXPECT_EQ(cu.cuMemPoolCreate(&made, nullptr), Status::invalid_value);
  wanted.alloc_type = AllocationType::invalid;
  EXPECT_EQ(create(wanted), Status::invalid_value);
  wanted = properties();
  wanted.location.id = 7;
  EXPECT_EQ(create(wanted), Status::invalid_value);
  wanted.location = {LocationType::none, 0};
  EXPECT_EQ(create(wanted), Status::invalid_value);
  wanted.location = {LocationType::host_numa_current, 0};
  EXPECT_EQ(create(wanted), Status::invalid_value);
  wanted = properties();
  wanted.reserved[53] = 1;
  EXPECT_EQ(create(wanted), Status::invalid_value);
  wanted = properties();
  wanted.handle_types = HandleType::posix_file_descriptor;
  EXPECT_EQ(create(wanted), Status::not_supported);
  wanted.location = {LocationType::host, 0};
  EXPECT_EQ(create(wanted), Status::invalid_value);
  wanted = properties();
  wanted.alloc_type = AllocationType::managed;
  wanted.max_size = step;
  EXPECT_EQ(create(wanted), Status::invalid_value);
  wanted = properties();
  wanted.usage = 2;
  EXPECT_EQ(create(wanted), Status::not_supported);
  wanted.usage = 4;
  EXPECT_EQ(create(wanted), Status::invalid_value);
  EXPECT_EQ(control.live_objects(assay_model_pool), 0U);
}

TEST_F(PoolTest, CurrentAndDefaultPool) {
  MemPool preset = nullptr;
  MemPool current = nullptr;
  ASSERT_EQ(cu.cuDeviceGetDefaultMemPool(&preset, 0), Status::success);
  ASSERT_EQ(cu.cuDeviceGetMemPool(&current, 0), Status::success);
  EXPECT_EQ(current, preset);
  EXPECT_EQ(cu.cuDeviceGetMemPool(&current, 3), Status::invalid_device);
  EXPECT_EQ(cu.cuMemPoolDestroy(preset), Status::invalid_value);
  EXPECT_EQ(cu.cuMemPoolDestroy(nullptr), Status::invalid_value);

  const MemPool mine = pool();
  EXPECT_EQ(control.live_objects(assay_model_pool), 1U);
  ASSERT_EQ(cu.cuDeviceSetMemPool(0, mine), Status::success);
  ASSERT_EQ(cu.cuDeviceGetMemPool(&current, 0), Status::success);
  EXPECT_EQ(current, mine);
  const Stream one = stream();
  DevicePointer address = 0;
  ASSERT_EQ(cu.cuMemAllocAsync(&address, size, one), Status::success);
  EXPECT_EQ(used(mine), size);
  MemPool owner = nullptr;
  EXPECT_EQ(cu.cuPointerGetAttribute(&owner, PointerAttribute::mempool_handle, address),
            Status::success);
  EXPECT_EQ(owner, mine);
  EXPECT_EQ(cu.cuMemFreeAsync(address, one), Status::success);
  sync(one);

  EXPECT_EQ(cu.cuMemPoolDestroy(mine), Status::success);
  EXPECT_EQ(cu.cuMemPoolDestroy(mine), Status::invalid_value);
  ASSERT_EQ(cu.cuDeviceGetMemPool(&current, 0), Status::success);
  EXPECT_EQ(current, preset);
  EXPECT_EQ(cu.cuDeviceSetMemPool(0, mine), Status::invalid_value);
  EXPECT_EQ(control.live_objects(assay_model_pool), 0U);
}

TEST_F(PoolTest, DestroyedPoolGoesWithItsLastBlock) {
  const std::size_t before = free_bytes();
  const Stream one = stream();
  const MemPool mine = pool();
  const DevicePointer address = allocate(mine, size, one);
  sync(one);
  EXPECT_EQ(cu.cuMemPoolDestroy(mine), Status::success);
  EXPECT_EQ(control.live_objects(assay_model_pool), 1U);
  EXPECT_EQ(cu.cuMemsetD8Async(address, 1, size, one), Status::success);
  DevicePointer another = 0;
  EXPECT_EQ(cu.cuMemAllocFromPoolAsync(&another, size, mine, one), Status::invalid_value);
  EXPECT_EQ(cu.cuMemFreeAsync(address, one), Status::success);
  EXPECT_EQ(control.live_objects(assay_model_pool), 1U);  // the free has not run
  sync(one);
  EXPECT_EQ(control.live_objects(assay_model_pool), 0U);
  EXPECT_EQ(free_bytes(), before);
  expect_clean();
}

TEST_F(PoolTest, ReserveAndUse) {
  const std::size_t before = free_bytes();
  const Stream one = stream();
  const MemPool mine = pool();
  EXPECT_EQ(reserved(mine), 0U);
  const DevicePointer small = allocate(mine, 12, one);
  EXPECT_EQ(used(mine), 512U);
  EXPECT_EQ(reserved(mine), step);
  EXPECT_EQ(free_bytes(), before - step);
  const DevicePointer large = allocate(mine, step, one);
  EXPECT_EQ(used(mine), step + 512);
  EXPECT_EQ(reserved(mine), 2 * step);
  EXPECT_EQ(cu.cuMemFreeAsync(large, one), Status::success);
  EXPECT_EQ(used(mine), 512U);
  EXPECT_EQ(reserved(mine), 2 * step);

  // Not observed by the host: outstanding.
  EXPECT_EQ(cu.cuMemPoolTrimTo(mine, 0), Status::success);
  EXPECT_EQ(reserved(mine), 2 * step);
  sync(one);  // the threshold is 0
  EXPECT_EQ(reserved(mine), step);
  EXPECT_EQ(cu.cuMemFreeAsync(small, one), Status::success);
  sync(one);
  EXPECT_EQ(reserved(mine), 0U);
  EXPECT_EQ(free_bytes(), before);

  EXPECT_EQ(attribute(mine, MemPoolAttribute::used_mem_high), step + 512);
  EXPECT_EQ(attribute(mine, MemPoolAttribute::reserved_mem_high), 2 * step);
  std::uint64_t mark = 1;
  for (const auto high : {MemPoolAttribute::used_mem_high, MemPoolAttribute::reserved_mem_high}) {
    mark = 1;
    EXPECT_EQ(cu.cuMemPoolSetAttribute(mine, high, &mark), Status::invalid_value);
    mark = 0;
    EXPECT_EQ(cu.cuMemPoolSetAttribute(mine, high, &mark), Status::success);
    EXPECT_EQ(attribute(mine, high), 0U);
  }
  EXPECT_EQ(cu.cuMemPoolSetAttribute(mine, MemPoolAttribute::used_mem_current, &mark),
            Status::invalid_value);
  EXPECT_EQ(cu.cuMemPoolSetAttribute(mine, static_cast<MemPoolAttribute>(99), &mark),
            Status::invalid_value);
  EXPECT_EQ(cu.cuMemPoolGetAttribute(mine, static_cast<MemPoolAttribute>(99), &mark),
            Status::invalid_value);
  EXPECT_EQ(cu.cuMemPoolDestroy(mine), Status::success);
  expect_clean();
}

TEST_F(PoolTest, ThresholdKeepsReserveAndTrimGivesItBack) {
  const Stream one = stream();
  const MemPool mine = pool();
  std::uint64_t threshold = 2 * step;
  EXPECT_EQ(cu.cuMemPoolSetAttribute(mine, MemPoolAttribute::release_threshold, &threshold),
            Status::success);
  std::vector<DevicePointer> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(allocate(mine, step, one));  // beyond the threshold
  EXPECT_EQ(reserved(mine), 4 * step);
  for (const DevicePointer block : blocks) {
    EXPECT_EQ(cu.cuMemFreeAsync(block, one), Status::success);
  }
  sync(one);
  EXPECT_EQ(reserved(mine), 2 * step);
  EXPECT_EQ(cu.cuMemPoolTrimTo(mine, step), Status::success);
  EXPECT_EQ(reserved(mine), step);
  EXPECT_EQ(cu.cuMemPoolTrimTo(mine, 1), Status::success);  // at least that much stays
  EXPECT_EQ(reserved(mine), step);
  EXPECT_EQ(cu.cuMemPoolTrimTo(mine, 0), Status::success);
  EXPECT_EQ(reserved(mine), 0U);
  EXPECT_EQ(cu.cuMemPoolDestroy(mine), Status::success);
}

TEST_F(PoolTest, ReuseFlagsAreOneAndInts) {
  const MemPool mine = pool();
  for (const auto flag : {MemPoolAttribute::reuse_follow_event_dependencies,
                          MemPoolAttribute::reuse_allow_opportunistic,
                          MemPoolAttribute::reuse_allow_internal_dependencies}) {
    int values[2] = {-1, -1};
    EXPECT_EQ(cu.cuMemPoolGetAttribute(mine, flag, values), Status::success);
    EXPECT_EQ(values[0], 1);
    EXPECT_EQ(values[1], -1);
    values[0] = 0;
    EXPECT_EQ(cu.cuMemPoolSetAttribute(mine, flag, values), Status::success);
    values[0] = 7;
    EXPECT_EQ(cu.cuMemPoolGetAttribute(mine, flag, values), Status::success);
    EXPECT_EQ(values[0], 0);
  }
  EXPECT_EQ(cu.cuMemPoolDestroy(mine), Status::success);
}

TEST_F(PoolTest, LargestSizeIsACap) {
  const Stream one = stream();
  const MemPool mine = pool(step + 4096);
  const DevicePointer first = allocate(mine, step, one);
  const DevicePointer second = allocate(mine, 4096, one);
  EXPECT_EQ(reserved(mine), step + 4096);
  DevicePointer third = 0;
  EXPECT_EQ(cu.cuMemAllocFromPoolAsync(&third, 1, mine, one), Status::out_of_memory);
  EXPECT_EQ(cu.cuMemFreeAsync(second, one), Status::success);
  third = allocate(mine, 4096, one);  // in stream order after the free
  EXPECT_EQ(cu.cuMemFreeAsync(third, one), Status::success);
  EXPECT_EQ(cu.cuMemFreeAsync(first, one), Status::success);
  sync(one);
  EXPECT_EQ(reserved(mine), 0U);
  EXPECT_EQ(cu.cuMemPoolDestroy(mine), Status::success);
}

TEST_F(PoolTest, PointerAttributes) {
  const Stream one = stream();
  DevicePointer address = 0;
  ASSERT_EQ(cu.cuMemAllocAsync(&address, size, one), Status::success);
  const auto ask = [&](PointerAttribute which) {
    std::uint64_t value = 0;
    EXPECT_EQ(cu.cuPointerGetAttribute(&value, which, address + 8), Status::success);
    return value;
  };
  Context none{};  // it belongs to none
  EXPECT_EQ(cu.cuPointerGetAttribute(&none, PointerAttribute::context, address),
            Status::invalid_value);
  EXPECT_EQ(ask(PointerAttribute::memory_type), 2U);
  EXPECT_EQ(ask(PointerAttribute::is_managed), 0U);
  EXPECT_EQ(ask(PointerAttribute::device_ordinal), 0U);
  EXPECT_EQ(ask(PointerAttribute::range_start_addr), address);
  EXPECT_EQ(ask(PointerAttribute::range_size), size);
  EXPECT_EQ(ask(PointerAttribute::access_flags), 3U);
  MemPool preset = nullptr;
  ASSERT_EQ(cu.cuDeviceGetDefaultMemPool(&preset, 0), Status::success);
  EXPECT_EQ(ask(PointerAttribute::mempool_handle), reinterpret_cast<std::uintptr_t>(preset));
  DevicePointer base = 0;
  std::size_t bytes = 0;
  EXPECT_EQ(cu.cuMemGetAddressRange_v2(&base, &bytes, address + 8), Status::success);
  EXPECT_EQ(base, address);
  EXPECT_EQ(bytes, size);
  EXPECT_EQ(cu.cuMemFreeAsync(address, one), Status::success);
}

TEST_F(PoolTest, HostPoolsAndManagedPools) {
  const Stream one = stream();
  MemPoolProps wanted = properties();
  wanted.location = {LocationType::host, 99};
  MemPool host = nullptr;
  ASSERT_EQ(cu.cuMemPoolCreate(&host, &wanted), Status::success);
  const AccessDesc grant{{LocationType::device, 0}, AccessFlags::read_write};
  AccessFlags flags = AccessFlags::read;
  Location where{LocationType::device, 0};
  EXPECT_EQ(cu.cuMemPoolGetAccess(&flags, host, &where), Status::success);
  EXPECT_EQ(flags, AccessFlags::none);
  EXPECT_EQ(cu.cuMemPoolSetAccess(host, &grant, 1), Status::success);
  wanted = properties();
  wanted.alloc_type = AllocationType::managed;
  wanted.location = {LocationType::none, 0};
  MemPool managed_pool = nullptr;
  ASSERT_EQ(cu.cuMemPoolCreate(&managed_pool, &wanted), Status::success);

  for (const MemPool each : {host, managed_pool}) {
    const DevicePointer address = allocate(each, size, one);
    EXPECT_EQ(cu.cuMemsetD8Async(address, 9, size, one), Status::success);
    sync(one);
    EXPECT_EQ(*reinterpret_cast<const std::uint8_t*>(address), 9);
    unsigned is_managed = 7;
    EXPECT_EQ(cu.cuPointerGetAttribute(&is_managed, PointerAttribute::is_managed, address),
              Status::success);
    EXPECT_EQ(is_managed, each == managed_pool ? 1U : 0U);
    EXPECT_EQ(cu.cuMemFreeHost(reinterpret_cast<void*>(address)), Status::invalid_value);
    EXPECT_EQ(cu.cuMemFreeAsync(address, one), Status::success);
    sync(one);
    EXPECT_EQ(reserved(each), 0U);
    EXPECT_EQ(cu.cuMemPoolDestroy(each), Status::success);
  }
  EXPECT_EQ(control.live_objects(assay_model_pinned), 0U);
  EXPECT_EQ(control.live_objects(assay_model_managed), 0U);
}

}  // namespace
}  // namespace assay::model_tests
