// Mistakes 20 to 40: order, pools, handles, virtual memory, the process, the ABI.
#include <sys/wait.h>
#include <unistd.h>
#include <bit>

#include <cstring>

#include "assay/cuda/abi/kernels.hpp"
#include "mistakes.hpp"

namespace assay::model_tests {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t unit = std::size_t{2} << 20;  ///< the granularity of the profile

/// Memory of the current pool, in order in a stream.
DevicePointer pooled(Driver& d, Stream in) {
  DevicePointer address = 0;
  expect_status(Status::success, d.cu.cuMemAllocAsync(&address, page, in));
  return address;
}

void set(Driver& d, DevicePointer address, Stream in) {
  expect_status(Status::success, d.cu.cuMemsetD8Async(address, 1, page, in));
}

MemPool make_pool(Driver& d, std::size_t max_size = 0) {
  MemPoolProps wanted{};
  wanted.alloc_type = AllocationType::pinned;
  wanted.location = {LocationType::device, 0};
  wanted.max_size = max_size;
  MemPool made = nullptr;
  expect_status(Status::success, d.cu.cuMemPoolCreate(&made, &wanted));
  return made;
}

std::uint64_t reserved(Driver& d, MemPool pool) {
  std::uint64_t bytes = 0;
  expect_status(Status::success,
                d.cu.cuMemPoolGetAttribute(pool, MemPoolAttribute::reserved_mem_current, &bytes));
  return bytes;
}

TEST_F(Mistakes, 20_UseAcrossStreamsWithoutAnEvent) {
  Driver& d = start();
  const Stream one = d.stream();
  const Stream two = d.stream();
  const DevicePointer block = pooled(d, one);
  const Event made = d.event();
  expect_status(Status::success, d.cu.cuEventRecord(made, one));
  expect_status(Status::success, d.cu.cuStreamWaitEvent(two, made, 0));
  set(d, block, two);
  expect_status(Status::success, d.cu.cuMemFreeAsync(block, one));  // and no event back
  expect_diagnosed(
      "pool_free_races_use",
      {"cuMemFreeAsync (call ", "made by cuMemAllocAsync (call ", "cuMemsetD8Async (call "});
}

TEST_F(Mistakes, 21_UseAfterTheFreeAndASecondFree) {
  Driver& d = start();
  const Stream in = d.stream();
  const DevicePointer block = pooled(d, in);
  expect_status(Status::success, d.cu.cuMemFreeAsync(block, in));
  set(d, block, in);
  expect_diagnosed("pool_use_after_free",
                   {"cuMemsetD8Async (call ", "made by cuMemAllocAsync (call ",
                    "free by cuMemFreeAsync (call "});
  expect_status(Status::invalid_value, d.cu.cuMemFreeAsync(block, in));
  expect_diagnosed("pool_free_twice", {"cuMemFreeAsync (call ", "cuMemAllocAsync (call "});
}

TEST_F(Mistakes, 22_PoolMemoryUsedTooSoonInAnotherStream) {
  Driver& d = start();
  const Stream one = d.stream();
  const DevicePointer block = pooled(d, one);
  set(d, block, d.stream());
  expect_diagnosed("pool_use_unordered",
                   {"cuMemsetD8Async (call ", "made by cuMemAllocAsync (call "});
  expect_status(Status::success, d.cu.cuCtxSynchronize());
  expect_status(Status::success, d.cu.cuMemFreeAsync(block, one));
}

TEST_F(Mistakes, 23_PoolDestroyedWithLiveMemory) {
  Driver& d = start();
  const Stream in = d.stream();
  const std::uint64_t before = d.control.live_objects(assay_model_pool);
  const MemPool pool = make_pool(d);
  DevicePointer block = 0;
  expect_status(Status::success, d.cu.cuMemAllocFromPoolAsync(&block, page, pool, in));
  expect_status(Status::success, d.cu.cuMemPoolDestroy(pool));
  EXPECT_EQ(d.control.live_objects(assay_model_pool), before + 1);  // until the last block is freed
  const std::string report = report_text();
  EXPECT_NE(report.find("destroyed by cuMemPoolDestroy (call "), std::string::npos) << report;
  set(d, block, in);
  expect_status(Status::success, d.cu.cuMemFreeAsync(block, in));
  d.sync(in);
  EXPECT_EQ(d.control.live_objects(assay_model_pool), before);
}

TEST_F(Mistakes, 24_ReleaseThresholdTakenForACap) {
  Driver& d = start();
  const Stream in = d.stream();
  const MemPool pool = make_pool(d);
  std::uint64_t threshold = page;
  expect_status(Status::success,
                d.cu.cuMemPoolSetAttribute(pool, MemPoolAttribute::release_threshold, &threshold));
  DevicePointer block = 0;
  expect_status(Status::success, d.cu.cuMemAllocFromPoolAsync(&block, 64 * page, pool, in));
  expect_status(Status::success, d.cu.cuMemFreeAsync(block, in));
  const MemPool capped = make_pool(d, std::size_t{32} << 20);  // what caps is the largest size
  expect_status(Status::out_of_memory,
                d.cu.cuMemAllocFromPoolAsync(&block, std::size_t{64} << 20, capped, in));
  d.sync(in);
  expect_status(Status::success, d.cu.cuMemPoolDestroy(pool));
  expect_status(Status::success, d.cu.cuMemPoolDestroy(capped));
}

TEST_F(Mistakes, 25_TrimWithoutAWait) {
  Driver& d = start();
  const Stream in = d.stream();
  const MemPool pool = make_pool(d);
  DevicePointer block = 0;
  expect_status(Status::success, d.cu.cuMemAllocFromPoolAsync(&block, page, pool, in));
  expect_status(Status::success, d.cu.cuMemFreeAsync(block, in));
  expect_status(Status::success, d.cu.cuMemPoolTrimTo(pool, 0));
  EXPECT_NE(reserved(d, pool), 0u);  // the host has not seen the free
  d.sync(in);
  expect_status(Status::success, d.cu.cuMemPoolTrimTo(pool, 0));
  EXPECT_EQ(reserved(d, pool), 0u);
  expect_status(Status::success, d.cu.cuMemPoolDestroy(pool));
}

TEST_F(Mistakes, 26_DestroyedStreamOrEventUsed) {
  Driver& d = start();
  const Stream in = d.stream();
  expect_status(Status::success, d.cu.cuStreamDestroy_v2(in));
  expect_status(Status::context_is_destroyed, d.cu.cuMemsetD8Async(d.device(), 1, page, in));
  expect_diagnosed("stream_destroyed", {"cuMemsetD8Async (call ", "made by cuStreamCreate (call ",
                                        "ended by cuStreamDestroy_v2 (call "});
  const Event mark = d.event();
  expect_status(Status::success, d.cu.cuEventDestroy_v2(mark));
  expect_status(Status::context_is_destroyed, d.cu.cuEventQuery(mark));
  expect_diagnosed("event_destroyed", {"cuEventQuery (call ", "made by cuEventCreate (call ",
                                       "ended by cuEventDestroy_v2 (call "});
}

TEST_F(Mistakes, 27_ElapsedTimeOfEventsThatHaveNone) {
  Driver& d = start();
  float ms = 0;
  const Event timed = d.event();
  expect_status(Status::success, d.cu.cuEventRecord(timed, d.stream()));
  expect_status(Status::invalid_handle, d.cu.cuEventElapsedTime(&ms, timed, d.event()));
  expect_diagnosed("elapsed_without_time",
                   {"cuEventElapsedTime (call ", "made by cuEventCreate (call ", "never recorded"});
  expect_status(Status::invalid_handle,
                d.cu.cuEventElapsedTime(&ms, d.event(event_disable_timing), timed));
  expect_diagnosed("elapsed_without_time", {"without timing"});
}

TEST_F(Mistakes, 28_DriverCalledInAHostFunction) {
  Driver& d = start();
  struct Seen {
    Driver* driver;
    Stream in;
    Status freed = Status::success;
    Status waited = Status::success;
  } seen{&d, d.stream()};
  const auto function = [](void* user) {
    auto& all = *static_cast<Seen*>(user);
    all.freed = all.driver->cu.cuMemFree_v2(page);
    all.waited = all.driver->cu.cuStreamSynchronize(all.in);
  };
  expect_status(Status::success, d.cu.cuLaunchHostFunc(seen.in, function, &seen));
  d.sync(seen.in);
  expect_status(Status::not_permitted, seen.freed);
  expect_status(Status::not_permitted, seen.waited);
  expect_diagnosed("call_in_host_function", {"cuMemFree_v2 (call ", "of cuLaunchHostFunc (call "});
  expect_diagnosed("call_in_host_function",
                   {"cuStreamSynchronize (call ", "of cuLaunchHostFunc (call ", "for ever"});
}

/// Of device 0.
AllocationHandle physical(Driver& d, std::size_t bytes, Status expected = Status::success) {
  AllocationProp properties{};
  properties.type = AllocationType::pinned;
  properties.location = {LocationType::device, 0};
  AllocationHandle handle = 0;
  expect_status(expected, d.cu.cuMemCreate(&handle, bytes, &properties, 0));
  return handle;
}

DevicePointer reserve(Driver& d, std::size_t bytes) {
  DevicePointer address = 0;
  expect_status(Status::success, d.cu.cuMemAddressReserve(&address, bytes, 0, 0, 0));
  return address;
}

void give_access(Driver& d, DevicePointer address, std::size_t bytes) {
  const AccessDesc access{{LocationType::device, 0}, AccessFlags::read_write};
  expect_status(Status::success, d.cu.cuMemSetAccess(address, bytes, &access, 1));
}

/// Two units reserved, the first of them mapped; the handle is released.
DevicePointer half_mapped(Driver& d) {
  const DevicePointer address = reserve(d, 2 * unit);
  const AllocationHandle handle = physical(d, unit);
  expect_status(Status::success, d.cu.cuMemMap(address, unit, 0, handle, 0));
  expect_status(Status::success, d.cu.cuMemRelease(handle));
  return address;
}

void end_half_mapped(Driver& d, DevicePointer address) {
  expect_status(Status::success, d.cu.cuMemUnmap(address, unit));
  expect_status(Status::success, d.cu.cuMemAddressFree(address, 2 * unit));
}

TEST_F(Mistakes, 29_SizesOffTheGranularity) {
  Driver& d = start();
  physical(d, page, Status::invalid_value);
  expect_diagnosed("physical_size", {"cuMemCreate (call ", "granularity, 2097152"});
  const DevicePointer address = half_mapped(d);
  expect_status(Status::invalid_value, d.cu.cuMemMap(address + unit, page, 0, 1, 0));
  expect_diagnosed("map_alignment", {"cuMemMap (call ", "granularity, 2097152"});
  DevicePointer out = 0;
  expect_status(Status::invalid_value, d.cu.cuMemAddressReserve(&out, unit, 3, 0, 0));
  expect_diagnosed("reserve_alignment", {"cuMemAddressReserve (call ", "alignment 3"});
  end_half_mapped(d, address);
}

TEST_F(Mistakes, 30_MappedWhereItCannotBe) {
  Driver& d = start();
  const DevicePointer address = half_mapped(d);
  const AllocationHandle handle = physical(d, unit);
  expect_status(Status::invalid_value, d.cu.cuMemMap(address, unit, 0, handle, 0));
  expect_diagnosed("map_mapped", {"cuMemMap (call ", "made by cuMemMap (call "});
  expect_status(Status::invalid_value, d.cu.cuMemMap(address + unit, unit, unit, handle, 0));
  expect_diagnosed("map_offset", {"cuMemMap (call ", "offset 2097152"});
  expect_status(Status::invalid_value, d.cu.cuMemMap(address + unit, 2 * unit, 0, handle, 0));
  expect_diagnosed("map_outside", {"cuMemMap (call ", "reserved by cuMemAddressReserve (call "});
  expect_status(Status::success, d.cu.cuMemRelease(handle));
  end_half_mapped(d, address);
}

TEST_F(Mistakes, 31_MappedMemoryUsedBeforeAccessIsSet) {
  Driver& d = start();
  const DevicePointer address = half_mapped(d);
  expect_status(Status::invalid_value, d.cu.cuMemsetD8_v2(address, 1, page));
  expect_diagnosed("access_denied", {"cuMemsetD8_v2 (call ", "made by cuMemMap (call "});
  end_half_mapped(d, address);
  expect_fault(
      [] {
        Driver child;
        static_cast<void>(*reinterpret_cast<volatile char*>(half_mapped(child)));
      },
      "host_access_device: .*made by cuMemMap \\(call ");
}

TEST_F(Mistakes, 32_UnmappedInPartOrFreedWhileMapped) {
  Driver& d = start();
  const DevicePointer address = half_mapped(d);
  expect_status(Status::invalid_value, d.cu.cuMemUnmap(address, unit / 2));
  expect_diagnosed("unmap_range", {"cuMemUnmap (call ", "made by cuMemMap (call "});
  expect_status(Status::invalid_value, d.cu.cuMemAddressFree(address, 2 * unit));
  expect_diagnosed("reservation_mapped", {"cuMemAddressFree (call ", "made by cuMemMap (call "});
  expect_status(Status::invalid_value, d.cu.cuMemAddressFree(address, unit));
  expect_diagnosed("reservation_unknown",
                   {"cuMemAddressFree (call ", "reserved by cuMemAddressReserve (call "});
  end_half_mapped(d, address);
}

TEST_F(Mistakes, 33_UnmappedWithWorkInFlight) {
  Driver& d = start();
  const Stream in = d.stream();
  const DevicePointer address = half_mapped(d);
  give_access(d, address, unit);
  set(d, address, in);
  expect_status(Status::success, d.cu.cuMemUnmap(address, unit));
  expect_diagnosed("unmap_in_flight", {"cuMemUnmap (call ", "of cuMemsetD8Async (call "});
  expect_status(Status::illegal_address, d.cu.cuStreamSynchronize(in));
  expect_diagnosed("access_after_unmap", {"cuMemsetD8Async (call ", "mapped by cuMemMap (call "});
}

TEST_F(Mistakes, 34_HandleKeptAfterItWasRetained) {
  Driver& d = start();
  const std::uint64_t before = d.control.live_objects(assay_model_physical);
  const DevicePointer address = half_mapped(d);
  AllocationHandle kept = 0;
  expect_status(Status::success,
                d.cu.cuMemRetainAllocationHandle(&kept, reinterpret_cast<void*>(address)));
  end_half_mapped(d, address);
  EXPECT_EQ(d.control.live_objects(assay_model_physical), before + 1);
  const std::string report = report_text();
  EXPECT_NE(report.find("last retained by cuMemRetainAllocationHandle (call "), std::string::npos)
      << report;
  expect_status(Status::success, d.cu.cuMemRelease(kept));
}

TEST_F(Mistakes, 35_FreedByTheWrongFunction) {
  Driver& d = start();
  const DevicePointer address = half_mapped(d);
  expect_status(Status::invalid_value, d.cu.cuMemFree_v2(address));
  expect_diagnosed("free_wrong_kind", {"cuMemFree_v2 (call ", "made by cuMemMap (call "});
  end_half_mapped(d, address);
  expect_status(Status::invalid_value, d.cu.cuMemFreeHost(reinterpret_cast<void*>(d.managed())));
  expect_diagnosed("free_wrong_kind", {"cuMemFreeHost (call ", "made by cuMemAllocManaged (call "});
}

TEST_F(Mistakes, 36_UsedInAForkedChild) {
  expect_child([] {
    Driver d;
    const DevicePointer block = d.device();
    const pid_t child = fork();
    if (child == 0) {
      expect_status(Status::not_initialized, d.cu.cuMemFree_v2(block));
      expect_diagnosed("forked_child", {"cuMemFree_v2 (call ", "where cuInit (call "});
      _exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    expect_status(Status::success, d.cu.cuMemFree_v2(block));
  });
}

/// Outlives the driver, whose exit handler is registered by cuInit.
struct FreesLate {
  DevicePointer block = 0;
  ~FreesLate() {
    if (block == 0) return;
    const bool refused = model().cu.cuMemFree_v2(block) == Status::deinitialized &&
                         model().cu.cuMemFree_v2(block) == Status::deinitialized;
    _exit(refused ? touched_memory_faulted : 1);
  }
};

TEST_F(Mistakes, 37_CalledDuringStaticDestruction) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        static_cast<void>(model());
        static FreesLate late;
        late.block = Driver().device();
        std::exit(1);
      },
      testing::ExitedWithCode(touched_memory_faulted),
      "shutting_down: cuMemFree_v2 \\(call .*exit handler, which cuInit \\(call ");
  if (!HasFailure()) note_diagnosed();
}

TEST_F(Mistakes, 38_ErrorOfEarlierWorkIgnored) {
  Driver& d = start();
  Module module = nullptr;
  Function fill = nullptr;
  expect_status(Status::success, d.cu.cuModuleLoadData(&module, kernel_ptx));
  expect_status(Status::success, d.cu.cuModuleGetFunction(&fill, module, FillParameters::entry));
  FillParameters bad{8, 1, 1, 0};
  void* arguments[] = {&bad.address, &bad.words, &bad.value, &bad.step};
  const Stream in = d.stream();
  expect_status(Status::success,
                d.cu.cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, in, arguments, nullptr));
  static_cast<void>(d.cu.cuStreamSynchronize(in));  // the error was here
  DevicePointer block = 0;
  expect_status(Status::illegal_address, d.cu.cuMemAlloc_v2(&block, page));
  expect_diagnosed("poisoned", {"cuMemAlloc_v2 (call ", "the fault of cuLaunchKernel (call ",
                                "which cuStreamSynchronize (call ", "answers 700"});
}

TEST_F(Mistakes, 39_CalledByAPrototypeOfTheOtherAbi) {
  Driver& d = start();
  const DevicePointer managed = d.managed();
  constexpr auto prefer = Advise::set_preferred_location;
  const Location cpu_of_the_first{std::bit_cast<LocationType>(device_cpu), 0};
  expect_status(Status::invalid_value,
                d.cu.cuMemAdvise_v2(managed, page, prefer, cpu_of_the_first));
  expect_diagnosed("location_looks_ordinal", {"cuMemAdvise_v2 (call ", "first ABI"});
  const auto host_of_the_second = static_cast<Device>(LocationType::host);
  expect_status(Status::invalid_device,
                d.cu.cuMemAdvise(managed, page, prefer, host_of_the_second));
  expect_diagnosed("ordinal_looks_location", {"cuMemAdvise (call ", "second ABI"});
}

TEST_F(Mistakes, 40_FreshMemoryTakenForZero) {
  Driver& d = start();
  const std::vector<std::uint8_t> bytes = d.bytes_at(d.device());
  EXPECT_EQ(std::memchr(bytes.data(), 0, bytes.size()), nullptr);
  const DevicePointer managed = d.managed();
  EXPECT_EQ(std::memchr(reinterpret_cast<const void*>(managed), 0, page), nullptr);
}

}  // namespace
}  // namespace assay::model_tests
