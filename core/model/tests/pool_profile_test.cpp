// Pools where the driver or the devices differ: older drivers, two devices, little memory; and the
// report, fault plans and the getters by location.
#include <set>
#include <string>

#include "stream_driver.hpp"

namespace assay::model_tests {
namespace {

constexpr std::uint64_t mebibyte = 1ULL << 20;

MemPoolProps device_pool(Device device = 0) {
  MemPoolProps wanted{};
  wanted.alloc_type = AllocationType::pinned;
  wanted.location = {LocationType::device, device};
  return wanted;
}

Status create(Driver& driver, const MemPoolProps& wanted) {
  MemPool made = nullptr;
  const Status status = driver.cu.cuMemPoolCreate(&made, &wanted);
  if (made != nullptr) {
    EXPECT_EQ(driver.cu.cuMemPoolDestroy(made), Status::success);
  }
  return status;
}

TEST(PoolProfile, WithoutPools) {
  const auto body = [] {
    play("no_pools");
    Driver driver;
    const DriverTable& cu = driver.cu;
    int supported = 7;
    EXPECT_EQ(cu.cuDeviceGetAttribute(&supported, DeviceAttribute::memory_pools_supported, 0),
              Status::success);
    EXPECT_EQ(supported, 0);
    MemPool pool = nullptr;
    DevicePointer address = 0;
    const Stream stream = driver.stream();
    EXPECT_EQ(cu.cuMemAllocAsync(&address, 512, stream), Status::not_supported);
    EXPECT_EQ(cu.cuMemFreeAsync(4096, stream), Status::not_supported);
    EXPECT_EQ(cu.cuDeviceGetDefaultMemPool(&pool, 0), Status::not_supported);
    EXPECT_EQ(cu.cuDeviceGetMemPool(&pool, 0), Status::not_supported);
    EXPECT_EQ(create(driver, device_pool()), Status::not_supported);
    leave();
  };
  ASSAY_EXPECT_CHILD(body, 0);
}

TEST(PoolProfile, OlderDrivers) {
  for (const bool before_12_2 : {true, false}) {
    const auto body = [&] {
      play(before_12_2 ? "driver_11_8" : "driver_12_2");
      Driver driver;
      const DriverTable& cu = driver.cu;
      EXPECT_NE(cu.cuMemPoolCreate, nullptr);
      EXPECT_EQ(cu.cuMemGetDefaultMemPool, nullptr);
      EXPECT_EQ(cu.cuMemGetMemPool, nullptr);
      EXPECT_EQ(cu.cuMemSetMemPool, nullptr);
      EXPECT_EQ(create(driver, device_pool()), Status::success);
      MemPoolProps wanted = device_pool();
      wanted.max_size = 64 * mebibyte;
      EXPECT_EQ(create(driver, wanted), before_12_2 ? Status::invalid_value : Status::success);
      wanted = device_pool();
      wanted.alloc_type = AllocationType::managed;
      EXPECT_EQ(create(driver, wanted), Status::invalid_value);
      wanted = device_pool();
      wanted.location = {LocationType::host, 0};
      EXPECT_EQ(create(driver, wanted), Status::not_supported);
      leave();
    };
    ASSAY_EXPECT_CHILD(body, 0);
  }
}

TEST(PoolProfile, ManagedPoolsNeedConcurrentAccess) {
  const auto body = [] {
    play("no_concurrent_managed_access");
    Driver driver;
    MemPoolProps wanted = device_pool();
    wanted.alloc_type = AllocationType::managed;
    EXPECT_EQ(create(driver, wanted), Status::not_supported);
    MemPool pool = nullptr;
    Location where{LocationType::none, 0};
    EXPECT_EQ(driver.cu.cuMemGetDefaultMemPool(&pool, &where, AllocationType::managed),
              Status::not_supported);
    leave();
  };
  ASSAY_EXPECT_CHILD(body, 0);
}

TEST(PoolProfile, ReserveIsOfTheDevicesCapacity) {
  const auto body = [] {
    play("small_capacity");  // 96 MiB
    Driver driver;
    const DriverTable& cu = driver.cu;
    const Stream stream = driver.stream();
    DevicePointer large = 0;
    DevicePointer rest = 0;
    DevicePointer more = 0;
    EXPECT_EQ(cu.cuMemAllocAsync(&large, 97 * mebibyte, stream), Status::out_of_memory);
    EXPECT_EQ(cu.cuMemAllocAsync(&large, 65 * mebibyte, stream), Status::success);
    EXPECT_EQ(cu.cuMemAlloc_v2(&more, mebibyte), Status::out_of_memory);  // three steps
    EXPECT_EQ(cu.cuMemAllocAsync(&rest, 31 * mebibyte, stream), Status::success);
    EXPECT_EQ(cu.cuMemAllocAsync(&more, 512, stream), Status::out_of_memory);
    EXPECT_EQ(cu.cuMemFreeAsync(large, stream), Status::success);
    driver.sync(stream);
    EXPECT_EQ(cu.cuMemAlloc_v2(&more, 32 * mebibyte), Status::out_of_memory);  // one piece
    EXPECT_EQ(cu.cuMemFreeAsync(rest, stream), Status::success);
    driver.sync(stream);
    EXPECT_EQ(cu.cuMemAlloc_v2(&more, 90 * mebibyte), Status::success);
    // Less than a step is left.
    EXPECT_EQ(cu.cuMemAllocAsync(&rest, 4 * mebibyte, stream), Status::success);
    leave();
  };
  ASSAY_EXPECT_CHILD(body, 0);
}

/// Two devices, a context on each, and a stream in each context.
struct TwoDevices : Driver {
  TwoDevices() {
    EXPECT_EQ(cu.cuCtxCreate_v2(&other, 0, 1), Status::success);
    there = stream();
    EXPECT_EQ(cu.cuCtxSetCurrent(context), Status::success);
    here = stream();
  }
  void set_access(MemPool pool, Device device, AccessFlags flags, Status expected) {
    const AccessDesc wanted{{LocationType::device, device}, flags};
    EXPECT_EQ(cu.cuMemPoolSetAccess(pool, &wanted, 1), expected);
  }
  AccessFlags access(MemPool pool, Device device) {
    AccessFlags flags = AccessFlags::none;
    Location where{LocationType::device, device};
    EXPECT_EQ(cu.cuMemPoolGetAccess(&flags, pool, &where), Status::success);
    return flags;
  }

  Context other = nullptr;
  Stream here = nullptr;
  Stream there = nullptr;
};

TEST(PoolProfile, AccessIsByDevice) {
  const auto body = [] {
    play("two_devices");
    TwoDevices driver;
    const DriverTable& cu = driver.cu;
    MemPool pool = nullptr;
    ASSERT_EQ(cu.cuDeviceGetDefaultMemPool(&pool, 0), Status::success);
    EXPECT_EQ(driver.access(pool, 0), AccessFlags::read_write);
    EXPECT_EQ(driver.access(pool, 1), AccessFlags::none);
    DevicePointer address = 0;
    ASSERT_EQ(cu.cuMemAllocFromPoolAsync(&address, 4096, pool, driver.there), Status::success);
    // A copy is refused; a kernel would fault.
    EXPECT_EQ(cu.cuMemsetD8Async(address, 1, 64, driver.there), Status::invalid_value);
    driver.set_access(pool, 1, AccessFlags::read_write, Status::success);
    EXPECT_EQ(driver.access(pool, 1), AccessFlags::read_write);
    EXPECT_EQ(cu.cuMemsetD8Async(address, 1, 64, driver.there), Status::success);
    driver.set_access(pool, 1, AccessFlags::none, Status::success);
    EXPECT_EQ(driver.access(pool, 1), AccessFlags::none);
    EXPECT_EQ(cu.cuStreamSynchronize(driver.there), Status::illegal_address);  // it was late
    EXPECT_TRUE(diagnosed("access_forbidden"));
    EXPECT_TRUE(diagnosed("made by cuMemAllocFromPoolAsync (call "));
    EXPECT_TRUE(diagnosed("last set by cuMemPoolSetAccess (call "));
    leave();
  };
  ASSAY_EXPECT_CHILD(body, 0);
}

TEST(PoolProfile, AccessThatCannotBe) {
  const auto body = [] {
    play("two_devices");
    TwoDevices driver;
    const DriverTable& cu = driver.cu;
    MemPool pool = nullptr;
    ASSERT_EQ(cu.cuDeviceGetDefaultMemPool(&pool, 0), Status::success);
    driver.set_access(nullptr, 1, AccessFlags::read_write, Status::invalid_value);
    driver.set_access(pool, 2, AccessFlags::read_write, Status::invalid_device);
    driver.set_access(pool, 0, AccessFlags::none, Status::invalid_device);
    driver.set_access(pool, 1, static_cast<AccessFlags>(8), Status::invalid_value);
    const AccessDesc host{{LocationType::host, 0}, AccessFlags::read_write};
    EXPECT_EQ(cu.cuMemPoolSetAccess(pool, &host, 1), Status::invalid_value);
    EXPECT_EQ(cu.cuMemPoolSetAccess(pool, nullptr, 1), Status::invalid_value);
    const AccessDesc many[3] = {{{LocationType::device, 1}, AccessFlags::read_write},
                                {{LocationType::device, 1}, AccessFlags::read_write},
                                {{LocationType::device, 1}, AccessFlags::read_write}};
    EXPECT_EQ(cu.cuMemPoolSetAccess(pool, many, 3), Status::invalid_value);
    const AccessDesc half[2] = {many[0], {{LocationType::device, 7}, AccessFlags::none}};
    EXPECT_EQ(cu.cuMemPoolSetAccess(pool, half, 2), Status::invalid_device);
    EXPECT_EQ(driver.access(pool, 1), AccessFlags::none);  // all or nothing
    AccessFlags flags = AccessFlags::none;
    Location where{LocationType::device, 7};
    EXPECT_EQ(cu.cuMemPoolGetAccess(&flags, pool, &where), Status::invalid_device);
    where = {LocationType::none, 0};
    EXPECT_EQ(cu.cuMemPoolGetAccess(&flags, pool, &where), Status::invalid_value);
    EXPECT_EQ(cu.cuMemPoolGetAccess(nullptr, pool, &where), Status::invalid_value);
    EXPECT_EQ(cu.cuMemPoolGetAccess(&flags, pool, nullptr), Status::invalid_value);
    leave();
  };
  ASSAY_EXPECT_CHILD(body, 0);
}

TEST(PoolProfile, EachDeviceHasItsPools) {
  const auto body = [] {
    play("two_devices");
    TwoDevices driver;
    const DriverTable& cu = driver.cu;
    MemPool first = nullptr;
    MemPool second = nullptr;
    ASSERT_EQ(cu.cuDeviceGetDefaultMemPool(&first, 0), Status::success);
    ASSERT_EQ(cu.cuDeviceGetDefaultMemPool(&second, 1), Status::success);
    EXPECT_NE(first, second);
    EXPECT_EQ(cu.cuDeviceSetMemPool(0, second), Status::invalid_value);
    EXPECT_EQ(cu.cuDeviceSetMemPool(2, second), Status::invalid_device);
    // The pool of the stream's device, whatever is current.
    DevicePointer address = 0;
    ASSERT_EQ(cu.cuMemAllocAsync(&address, 4096, driver.there), Status::success);
    MemPool owner = nullptr;
    EXPECT_EQ(cu.cuPointerGetAttribute(&owner, PointerAttribute::mempool_handle, address),
              Status::success);
    EXPECT_EQ(owner, second);
    int ordinal = -1;
    EXPECT_EQ(cu.cuPointerGetAttribute(&ordinal, PointerAttribute::device_ordinal, address),
              Status::success);
    EXPECT_EQ(ordinal, 1);
    unsigned flags = 7;  // of the current context's device
    EXPECT_EQ(cu.cuPointerGetAttribute(&flags, PointerAttribute::access_flags, address),
              Status::success);
    EXPECT_EQ(flags, 0U);
    leave();
  };
  ASSAY_EXPECT_CHILD(body, 0);
}

struct LocationPoolTest : DriverTest {};

TEST_F(LocationPoolTest, GettersByLocationAndType) {
  MemPool of_device = nullptr;
  ASSERT_EQ(cu.cuDeviceGetDefaultMemPool(&of_device, 0), Status::success);
  const auto get = [&](Location where, AllocationType type) {
    MemPool found = nullptr;
    MemPool current = nullptr;
    EXPECT_EQ(cu.cuMemGetDefaultMemPool(&found, &where, type), Status::success);
    EXPECT_EQ(cu.cuMemGetMemPool(&current, &where, type), Status::success);
    EXPECT_EQ(found, current);
    return found;
  };
  const MemPool host = get({LocationType::host, 5}, AllocationType::pinned);
  const MemPool managed_device = get({LocationType::device, 0}, AllocationType::managed);
  const MemPool managed_any = get({LocationType::none, 3}, AllocationType::managed);
  EXPECT_EQ(get({LocationType::device, 0}, AllocationType::pinned), of_device);
  EXPECT_EQ(get({LocationType::host, 0}, AllocationType::pinned), host);
  const MemPool node = get({LocationType::host_numa, 0}, AllocationType::pinned);
  EXPECT_EQ((std::set<MemPool>{of_device, host, managed_device, managed_any, node}.size()), 5U);

  MemPool found = nullptr;
  const auto refuse = [&](Location where, AllocationType type, Status expected) {
    EXPECT_EQ(cu.cuMemGetDefaultMemPool(&found, &where, type), expected);
    EXPECT_EQ(cu.cuMemGetMemPool(&found, &where, type), expected);
    EXPECT_EQ(cu.cuMemSetMemPool(&where, type, of_device), expected);
  };
  refuse({LocationType::none, 0}, AllocationType::pinned, Status::invalid_value);
  refuse({LocationType::host_numa, 9}, AllocationType::pinned, Status::invalid_value);
  refuse({LocationType::device, 9}, AllocationType::pinned, Status::invalid_device);
  refuse({LocationType::device, 0}, AllocationType::invalid, Status::invalid_value);
  Location where{LocationType::host, 0};
  EXPECT_EQ(cu.cuMemGetDefaultMemPool(nullptr, &where, AllocationType::pinned),
            Status::invalid_value);
  EXPECT_EQ(cu.cuMemGetDefaultMemPool(&found, nullptr, AllocationType::pinned),
            Status::invalid_value);
  EXPECT_EQ(cu.cuMemSetMemPool(&where, AllocationType::pinned, of_device), Status::invalid_value);
}

TEST_F(LocationPoolTest, SettingByLocationIsSettingOfTheDevice) {
  const MemPoolProps wanted = device_pool();
  MemPool mine = nullptr;
  ASSERT_EQ(cu.cuMemPoolCreate(&mine, &wanted), Status::success);
  Location where{LocationType::device, 0};
  EXPECT_EQ(cu.cuMemSetMemPool(&where, AllocationType::managed, mine), Status::invalid_value);
  EXPECT_EQ(cu.cuMemSetMemPool(&where, AllocationType::pinned, mine), Status::success);
  MemPool current = nullptr;
  EXPECT_EQ(cu.cuDeviceGetMemPool(&current, 0), Status::success);
  EXPECT_EQ(current, mine);
  EXPECT_EQ(cu.cuMemPoolDestroy(mine), Status::success);
  EXPECT_EQ(cu.cuMemGetMemPool(&current, &where, AllocationType::pinned), Status::success);
  EXPECT_NE(current, mine);
}

TEST_F(LocationPoolTest, FaultPlansReachPools) {
  const Stream one = stream();
  DevicePointer address = 0;
  ASSERT_EQ(cu.cuMemAllocAsync(&address, size, one), Status::success);
  ASSERT_EQ(control.set_faults("cuMemAllocAsync:1:2,cuMemFreeAsync:1:999,cuMemPoolTrimTo:1:801"),
            0);
  DevicePointer none = 0;
  EXPECT_EQ(cu.cuMemAllocAsync(&none, size, one), Status::out_of_memory);
  EXPECT_EQ(none, 0U);
  EXPECT_EQ(cu.cuMemFreeAsync(address, one), Status::unknown);
  EXPECT_EQ(cu.cuMemPoolTrimTo(nullptr, 0), Status::not_supported);
  EXPECT_EQ(control.faults_injected(), 3U);
  EXPECT_EQ(control.live_objects(assay_model_pooled), 1U);  // the free did nothing
  EXPECT_EQ(cu.cuMemFreeAsync(address, one), Status::success);
  EXPECT_EQ(control.set_faults(""), 0);
}

std::string report_of(const assay_model_control& control) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  control.report(ends[1]);
  close(ends[1]);
  std::string text;
  char part[4096];
  for (ssize_t got = 0; (got = read(ends[0], part, sizeof part)) > 0;) {
    text.append(part, static_cast<std::size_t>(got));
  }
  close(ends[0]);
  return text;
}

TEST(PoolProfile, TheReportNamesWhatIsLeft) {
  const auto body = [] {
    Driver driver;
    const DriverTable& cu = driver.cu;
    const Stream stream = driver.stream();
    const MemPoolProps wanted = device_pool();
    MemPool pool = nullptr;
    ASSERT_EQ(cu.cuMemPoolCreate(&pool, &wanted), Status::success);
    DevicePointer kept = 0;
    DevicePointer freed = 0;
    ASSERT_EQ(cu.cuMemAllocFromPoolAsync(&kept, 4096, pool, stream), Status::success);
    ASSERT_EQ(cu.cuMemAllocFromPoolAsync(&freed, 512, pool, stream), Status::success);
    EXPECT_EQ(cu.cuMemFreeAsync(freed, stream), Status::success);  // and not waited for
    EXPECT_EQ(cu.cuMemPoolDestroy(pool), Status::success);
    const std::string report = report_of(driver.control);
    const auto has = [&](const char* part) {
      EXPECT_NE(report.find(part), std::string::npos) << part << " in\n" << report;
    };
    has("pool objects 1,");
    has("pooled objects 1, bytes 4096");
    has("live pooled memory ");
    has("live pool made by cuMemPoolCreate (call ");
    has("destroyed by cuMemPoolDestroy (call ");
    has("with 1 block not freed");
    EXPECT_EQ(report.find("+ 512 bytes"), std::string::npos) << report;
    leave();
  };
  ASSAY_EXPECT_CHILD(body, 0);
}

TEST(PoolProfile, WorkThatRunsByItselfIsJudgedAlike) {
  const auto body = [] {
    setenv(model_eager_variable, "1", 1);
    Driver driver;
    const DriverTable& cu = driver.cu;
    const Stream one = driver.stream();
    const Stream two = driver.stream();
    for (int i = 0; i < 50; ++i) {
      DevicePointer address = 0;
      ASSERT_EQ(cu.cuMemAllocAsync(&address, 4096, one), Status::success);
      const Event made = driver.event();
      EXPECT_EQ(cu.cuEventRecord(made, one), Status::success);
      EXPECT_EQ(cu.cuStreamWaitEvent(two, made, 0), Status::success);
      EXPECT_EQ(cu.cuMemsetD8Async(address, 1, 4096, two), Status::success);
      EXPECT_EQ(cu.cuMemFreeAsync(address, two), Status::success);
      EXPECT_EQ(driver.control.diagnosis_count(), 0U);
    }
    DevicePointer address = 0;
    ASSERT_EQ(cu.cuMemAllocAsync(&address, 4096, one), Status::success);
    EXPECT_EQ(cu.cuMemFreeAsync(address, two), Status::success);
    EXPECT_TRUE(diagnosed("pool_free_unordered"));
    driver.sync(two);
    leave();
  };
  ASSAY_EXPECT_CHILD(body, 0);
}

}  // namespace
}  // namespace assay::model_tests
