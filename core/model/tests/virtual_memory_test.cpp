// Virtual memory management: reservations, physical memory, mappings, and what outlives what.
#include <algorithm>
#include <cstring>

#include "virtual_fixture.hpp"

namespace assay::cuda::model_test {
namespace {

/// Every test leaves nothing behind.
struct VirtualMemoryTest : testing::Test {
  void SetUp() override {
    start();
    control().forget_diagnoses();
    for (const std::uint32_t object : objects) before.push_back(control().live_objects(object));
    unit = granularity();
  }
  void TearDown() override {
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(control().live_objects(objects[i]), before[i]) << "object " << objects[i];
    }
  }

  static constexpr std::uint32_t objects[] = {assay_model_reservation, assay_model_physical,
                                              assay_model_mapping};
  std::vector<std::uint64_t> before;
  std::size_t unit = 0;
};

std::size_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT_STATUS(0, cuMemGetInfo_v2(&free, &total));
  return free;
}

TEST_F(VirtualMemoryTest, MappedMemoryKeepsBytesAndIsNeverZeroWhenFresh) {
  const DevicePointer address = mapped_memory(2 * unit);
  std::vector<unsigned char> bytes = bytes_at(address, 4096);
  EXPECT_EQ(std::memchr(bytes.data(), 0, bytes.size()), nullptr);
  bytes = bytes_at(address + 2 * unit - 4096, 4096);
  EXPECT_EQ(std::memchr(bytes.data(), 0, bytes.size()), nullptr);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 7);
  EXPECT_STATUS(0, cuMemcpyHtoD_v2(address + unit - 100, bytes.data(), bytes.size()));
  EXPECT_EQ(bytes_at(address + unit - 100, bytes.size()), bytes);
  EXPECT_STATUS(0, cuMemsetD8_v2(address, 9, unit));
  EXPECT_EQ(bytes_at(address, 5), std::vector<unsigned char>(5, 9));
  unmap_and_free(address, 2 * unit);
}

TEST_F(VirtualMemoryTest, GranularityIsThatOfTheProfile) {
  EXPECT_EQ(granularity(), std::size_t{2} << 20);
  EXPECT_EQ(granularity(GranularityFlags::recommended), std::size_t{2} << 20);
  const AllocationProp good = device_properties();
  AllocationProp bad = good;
  std::size_t size = 42;
  EXPECT_STATUS(1, cuMemGetAllocationGranularity(nullptr, &good, GranularityFlags::minimum));
  EXPECT_STATUS(1, cuMemGetAllocationGranularity(&size, nullptr, GranularityFlags::minimum));
  EXPECT_STATUS(1, cuMemGetAllocationGranularity(&size, &good, static_cast<GranularityFlags>(2)));
  bad.type = AllocationType::managed;
  EXPECT_STATUS(1, cuMemGetAllocationGranularity(&size, &bad, GranularityFlags::minimum));
  bad = device_properties(1);
  EXPECT_STATUS(101, cuMemGetAllocationGranularity(&size, &bad, GranularityFlags::minimum));
  EXPECT_EQ(size, 42U);
}

TEST_F(VirtualMemoryTest, AReservationIsAlignedAndRefusesBadArguments) {
  DevicePointer address = 42;
  EXPECT_STATUS(1, cuMemAddressReserve(nullptr, unit, 0, 0, 0));
  EXPECT_STATUS(1, cuMemAddressReserve(&address, 0, 0, 0, 0));
  EXPECT_STATUS(1, cuMemAddressReserve(&address, unit + 1, 0, 0, 0));
  EXPECT_STATUS(1, cuMemAddressReserve(&address, unit, 3 * unit, 0, 0));
  EXPECT_STATUS(1, cuMemAddressReserve(&address, unit, 0, 1234, 0));
  EXPECT_STATUS(1, cuMemAddressReserve(&address, unit, 0, 0, 1));
  EXPECT_STATUS(2, cuMemAddressReserve(&address, ~std::size_t{0} / 4096 * 4096, 0, 0, 0));
  EXPECT_STATUS(2, cuMemAddressReserve(&address, unit, std::size_t{1} << 62, 0, 0));
  EXPECT_EQ(address, 42U);
  for (const std::size_t alignment : {std::size_t{0}, unit, 64 * unit, std::size_t{1} << 30}) {
    const DevicePointer aligned = reserve(3 * unit, alignment);
    EXPECT_EQ(aligned % std::max(alignment, unit), 0U);
    EXPECT_STATUS(0, cuMemAddressFree(aligned, 3 * unit));
  }
}

TEST_F(VirtualMemoryTest, AReservationIsFreedByItsAddressAndSize) {
  const std::uint64_t reserved = control().live_bytes(assay_model_reservation);
  const DevicePointer address = reserve(4 * unit);
  EXPECT_STATUS(1, cuMemAddressFree(address, 2 * unit));
  EXPECT_STATUS(1, cuMemAddressFree(address, 8 * unit));
  EXPECT_STATUS(1, cuMemAddressFree(address + unit, 3 * unit));
  EXPECT_STATUS(1, cuMemAddressFree(0, 0));
  map_new(address + unit, unit);
  EXPECT_STATUS(1, cuMemAddressFree(address, 4 * unit));
  EXPECT_TRUE(diagnosed(
      {"reservation_unknown: cuMemAddressFree (call ", "reserved by cuMemAddressReserve (call "}));
  EXPECT_TRUE(
      diagnosed({"reservation_mapped: cuMemAddressFree (call ", "made by cuMemMap (call "}));
  EXPECT_EQ(control().live_bytes(assay_model_reservation), reserved + 4 * unit);
  EXPECT_STATUS(0, cuMemUnmap(address + unit, unit));
  EXPECT_STATUS(0, cuMemAddressFree(address, 4 * unit));
  EXPECT_STATUS(1, cuMemAddressFree(address, 4 * unit));
}

TEST_F(VirtualMemoryTest, PhysicalMemoryRefusesBadArguments) {
  AllocationHandle handle = 42;
  const AllocationProp good = device_properties();
  EXPECT_STATUS(1, cuMemCreate(nullptr, unit, &good, 0));
  EXPECT_STATUS(1, cuMemCreate(&handle, unit, nullptr, 0));
  EXPECT_STATUS(1, cuMemCreate(&handle, 0, &good, 0));
  EXPECT_STATUS(1, cuMemCreate(&handle, unit / 2, &good, 0));
  EXPECT_STATUS(1, cuMemCreate(&handle, unit, &good, 1));
  EXPECT_STATUS(2, cuMemCreate(&handle, std::size_t{1} << 60, &good, 0));
  const auto refused = [&](unsigned code, auto change) {
    AllocationProp bad = good;
    change(bad);
    EXPECT_STATUS(code, cuMemCreate(&handle, unit, &bad, 0));
  };
  refused(1, [](auto& bad) { bad.type = AllocationType::invalid; });
  refused(1, [](auto& bad) { bad.type = AllocationType::managed; });
  refused(1, [](auto& bad) { bad.location.type = LocationType::none; });
  refused(1, [](auto& bad) { bad.location.type = LocationType::host_numa_current; });
  refused(101, [](auto& bad) { bad.location.id = 1; });
  refused(101, [](auto& bad) { bad.location.id = -1; });
  refused(801, [](auto& bad) { bad.location.type = LocationType::host; });
  refused(801, [](auto& bad) { bad.location.type = LocationType::host_numa; });
  refused(801, [](auto& bad) { bad.requested_handle_types = HandleType::posix_file_descriptor; });
  EXPECT_EQ(handle, 42U);
}

TEST_F(VirtualMemoryTest, PhysicalMemoryTakesOfTheCapacityUntilHandleAndMappingAreGone) {
  const std::size_t before_all = free_bytes();
  const AllocationHandle handle = create(3 * unit);
  EXPECT_EQ(free_bytes(), before_all - 3 * unit);
  EXPECT_EQ(control().live_bytes(assay_model_physical), 3 * unit);
  const DevicePointer address = reserve(8 * unit);
  map(address, 3 * unit, handle);
  map(address + 4 * unit, 3 * unit, handle);
  EXPECT_EQ(free_bytes(), before_all - 3 * unit);
  EXPECT_STATUS(0, cuMemRelease(handle));
  EXPECT_STATUS(0, cuMemUnmap(address, 3 * unit));
  EXPECT_EQ(free_bytes(), before_all - 3 * unit);
  open(address + 4 * unit, 3 * unit);
  EXPECT_STATUS(0, cuMemsetD8_v2(address + 4 * unit, 1, 3 * unit));
  EXPECT_STATUS(0, cuMemUnmap(address + 4 * unit, 3 * unit));
  EXPECT_EQ(free_bytes(), before_all);
  EXPECT_EQ(control().live_objects(assay_model_physical), before[1]);
  EXPECT_STATUS(0, cuMemAddressFree(address, 8 * unit));
}

TEST_F(VirtualMemoryTest, BeyondTheCapacityIsOutOfMemory) {
  control().set_capacity(control().live_bytes(assay_model_device) + 4 * unit);
  const AllocationHandle handle = create(3 * unit);
  const AllocationProp properties = device_properties();
  AllocationHandle more = 0;
  EXPECT_STATUS(2, cuMemCreate(&more, 2 * unit, &properties, 0));
  DevicePointer block = 0;
  EXPECT_STATUS(2, cuMemAlloc_v2(&block, 2 * unit));
  EXPECT_STATUS(0, cuMemRelease(handle));
  EXPECT_STATUS(0, cuMemCreate(&more, 4 * unit, &properties, 0));
  EXPECT_STATUS(0, cuMemRelease(more));
  control().set_capacity(0);
}

TEST_F(VirtualMemoryTest, OneHandleMappedTwiceShowsTheSameBytes) {
  const AllocationHandle handle = create(2 * unit);
  const DevicePointer address = reserve(4 * unit);
  map(address, 2 * unit, handle);
  map(address + 2 * unit, unit, handle);  // smaller than the handle
  open(address, 3 * unit);
  EXPECT_STATUS(0, cuMemsetD8_v2(address + 2 * unit, 0x21, unit));
  EXPECT_EQ(bytes_at(address + unit - 4, 4), std::vector<unsigned char>(4, 0x21));
  EXPECT_STATUS(0, cuMemUnmap(address, 2 * unit));
  map(address, 2 * unit, handle);  // the bytes are the handle's, not the mapping's
  open(address, 2 * unit);
  EXPECT_EQ(bytes_at(address, 4), std::vector<unsigned char>(4, 0x21));
  EXPECT_STATUS(0, cuMemRelease(handle));
  unmap_and_free(address, 3 * unit, 4 * unit);
}

TEST_F(VirtualMemoryTest, AMappingGoesWhereOneReservationHasRoom) {
  const DevicePointer address = reserve(4 * unit);
  const AllocationHandle handle = create(2 * unit);
  EXPECT_STATUS(1, cuMemMap(address, 0, 0, handle, 0));
  EXPECT_STATUS(1, cuMemMap(address, unit / 2, 0, handle, 0));
  EXPECT_STATUS(1, cuMemMap(address + 4096, unit, 0, handle, 0));
  EXPECT_STATUS(1, cuMemMap(address, unit, unit, handle, 0));
  EXPECT_STATUS(1, cuMemMap(address, unit, 0, handle, 1));
  EXPECT_STATUS(1, cuMemMap(address, 3 * unit, 0, handle, 0));
  EXPECT_STATUS(1, cuMemMap(address + 3 * unit, 2 * unit, 0, handle, 0));
  EXPECT_STATUS(1, cuMemMap(address - unit, 2 * unit, 0, handle, 0));
  EXPECT_STATUS(1, cuMemMap(0, unit, 0, handle, 0));
  EXPECT_STATUS(1, cuMemMap(~DevicePointer{0} - unit + 1, 2 * unit, 0, handle, 0));
  const DevicePointer block = device_memory(unit);
  EXPECT_STATUS(1, cuMemMap(block / unit * unit, unit, 0, handle, 0));
  EXPECT_STATUS(0, cuMemFree_v2(block));
  EXPECT_EQ(control().live_objects(assay_model_mapping), before[2]);

  map(address + unit, 2 * unit, handle);
  for (const std::size_t at : {std::size_t{0}, unit, 2 * unit}) {
    EXPECT_STATUS(1, cuMemMap(address + at, 2 * unit, 0, handle, 0));
  }
  EXPECT_EQ(control().live_bytes(assay_model_mapping), 2 * unit);
  map(address, unit, handle);
  map(address + 3 * unit, unit, handle);
  EXPECT_STATUS(0, cuMemRelease(handle));
  EXPECT_STATUS(1, cuMemMap(address, unit, 0, handle, 0));
  unmap_and_free(address, 4 * unit);
  EXPECT_TRUE(diagnosed({"map_mapped: cuMemMap (call ", "made by cuMemMap (call "}));
  EXPECT_TRUE(
      diagnosed({"map_outside: cuMemMap (call ", "reserved by cuMemAddressReserve (call "}));
}

TEST_F(VirtualMemoryTest, AHandleIsDeadAfterItsReleaseAlsoWhileItsMemoryIsMapped) {
  const DevicePointer address = reserve(2 * unit);
  const AllocationHandle handle = create(unit);
  map(address, unit, handle);
  EXPECT_STATUS(0, cuMemRelease(handle));
  AllocationProp properties{};
  EXPECT_STATUS(1, cuMemMap(address + unit, unit, 0, handle, 0));
  EXPECT_STATUS(1, cuMemGetAllocationPropertiesFromHandle(&properties, handle));
  EXPECT_TRUE(diagnosed({"handle_dead: cuMemMap (call ", "released by cuMemRelease (call "}));
  EXPECT_STATUS(1, cuMemGetAllocationPropertiesFromHandle(&properties, 0));
  unmap_and_free(address, unit, 2 * unit);
}

TEST_F(VirtualMemoryTest, ASecondReleaseNamesBothAndTheMakerToo) {
  const AllocationHandle handle = create(unit);
  EXPECT_STATUS(0, cuMemRelease(handle));
  EXPECT_EQ(control().diagnosis_count(), 0U);
  EXPECT_STATUS(1, cuMemRelease(handle));
  EXPECT_TRUE(diagnosed({"release_twice: cuMemRelease (call ", "made by cuMemCreate (call ",
                         "released by cuMemRelease (call "}));
  EXPECT_STATUS(1, cuMemRelease(0x1234));
  EXPECT_TRUE(diagnosed({"release_unknown", "cuMemRelease"}));
  const AllocationHandle next = create(unit);
  EXPECT_NE(next, handle);  // never reused
  EXPECT_STATUS(0, cuMemRelease(next));
}

TEST_F(VirtualMemoryTest, ARetainedHandleIsTheSameAndIsReleasedOnceMore) {
  const DevicePointer address = reserve(2 * unit);
  const AllocationHandle handle = create(unit);
  map(address, unit, handle);
  AllocationHandle retained = 0;
  const auto pointer = [](DevicePointer at) { return reinterpret_cast<void*>(at); };
  EXPECT_STATUS(0, cuMemRetainAllocationHandle(&retained, pointer(address + unit - 1)));
  EXPECT_EQ(retained, handle);
  EXPECT_STATUS(1, cuMemRetainAllocationHandle(&retained, pointer(address + unit)));
  EXPECT_STATUS(1, cuMemRetainAllocationHandle(nullptr, pointer(address)));
  const DevicePointer block = device_memory(64);
  EXPECT_STATUS(1, cuMemRetainAllocationHandle(&retained, pointer(block)));
  EXPECT_STATUS(0, cuMemFree_v2(block));
  EXPECT_STATUS(0, cuMemRelease(handle));
  EXPECT_STATUS(0, cuMemRelease(handle));
  EXPECT_STATUS(1, cuMemRelease(handle));
  // Without a reference left, the mapping still gives one.
  EXPECT_STATUS(0, cuMemRetainAllocationHandle(&retained, pointer(address)));
  EXPECT_EQ(retained, handle);
  EXPECT_STATUS(0, cuMemUnmap(address, unit));
  map(address + unit, unit, retained);
  EXPECT_STATUS(0, cuMemRelease(retained));
  EXPECT_STATUS(0, cuMemUnmap(address + unit, unit));
  EXPECT_STATUS(0, cuMemAddressFree(address, 2 * unit));
}

TEST_F(VirtualMemoryTest, PropertiesAreGivenBack) {
  AllocationProp set = device_properties();
  set.alloc_flags.gpu_direct_rdma_capable = 1;
  AllocationHandle handle = 0;
  EXPECT_STATUS(0, cuMemCreate(&handle, unit, &set, 0));
  AllocationProp got{};
  EXPECT_STATUS(1, cuMemGetAllocationPropertiesFromHandle(nullptr, handle));
  EXPECT_STATUS(0, cuMemGetAllocationPropertiesFromHandle(&got, handle));
  EXPECT_EQ(got.type, set.type);
  EXPECT_EQ(got.location.type, set.location.type);
  EXPECT_EQ(got.location.id, set.location.id);
  EXPECT_EQ(got.requested_handle_types, set.requested_handle_types);
  EXPECT_EQ(got.alloc_flags.gpu_direct_rdma_capable, 1);
  EXPECT_STATUS(0, cuMemRelease(handle));
}

TEST_F(VirtualMemoryTest, AnUnmapTakesWholeMappingsOrNothing) {
  const DevicePointer address = reserve(6 * unit);
  map_new(address, 2 * unit);
  map_new(address + 2 * unit, unit);
  map_new(address + 4 * unit, unit);
  open(address, 3 * unit);
  EXPECT_STATUS(0, cuMemsetD8_v2(address, 3, 3 * unit));
  EXPECT_STATUS(1, cuMemUnmap(address, 0));
  EXPECT_STATUS(1, cuMemUnmap(address, unit));
  EXPECT_STATUS(1, cuMemUnmap(address + unit, unit));
  EXPECT_STATUS(1, cuMemUnmap(address + unit, 2 * unit));
  EXPECT_STATUS(1, cuMemUnmap(address, 2 * unit + 4096));
  EXPECT_STATUS(1, cuMemUnmap(address, 4 * unit));  // a tail that was never mapped
  EXPECT_STATUS(1, cuMemUnmap(address, 5 * unit));  // a hole
  EXPECT_STATUS(1, cuMemUnmap(address + 3 * unit, unit));
  EXPECT_STATUS(1, cuMemUnmap(address, ~std::size_t{0}));
  EXPECT_TRUE(diagnosed({"unmap_range: cuMemUnmap (call ", "made by cuMemMap (call "}));
  EXPECT_EQ(control().live_bytes(assay_model_mapping), 4 * unit);
  EXPECT_EQ(bytes_at(address + 3 * unit - 4, 4), std::vector<unsigned char>(4, 3));
  EXPECT_STATUS(0, cuMemUnmap(address, 3 * unit));
  EXPECT_STATUS(1, cuMemUnmap(address, 3 * unit));
  EXPECT_STATUS(0, cuMemUnmap(address + 4 * unit, unit));
  EXPECT_STATUS(0, cuMemAddressFree(address, 6 * unit));
}

TEST_F(VirtualMemoryTest, ANewMappingStartsWithoutTheAccessOfTheOldOne) {
  const DevicePointer address = mapped_memory(unit);
  EXPECT_STATUS(0, cuMemUnmap(address, unit));
  map_new(address, unit);
  EXPECT_STATUS(1, cuMemsetD8_v2(address, 1, 1));
  unmap_and_free(address, unit);
}

TEST_F(VirtualMemoryTest, OtherFreesRefuseItAndSayWhoseItIs) {
  const DevicePointer address = reserve(2 * unit);
  map_new(address, unit);
  EXPECT_STATUS(1, cuMemFree_v2(address));
  EXPECT_TRUE(diagnosed({"free_wrong_kind: cuMemFree_v2", "mapped memory", "made by cuMemMap"}));
  control().forget_diagnoses();
  EXPECT_STATUS(1, cuMemFree_v2(address + 4096));
  EXPECT_TRUE(diagnosed({"free_wrong_kind: cuMemFree_v2", "made by cuMemMap"}));
  control().forget_diagnoses();
  EXPECT_STATUS(1, cuMemFreeHost(host_view(address)));
  EXPECT_TRUE(diagnosed({"free_wrong_kind: cuMemFreeHost", "made by cuMemMap"}));
  EXPECT_STATUS(1, cuMemFree_v2(address + unit));
  EXPECT_TRUE(diagnosed({"free_unknown", "reserved by cuMemAddressReserve"}));
  const DevicePointer managed = managed_memory(4096);
  EXPECT_STATUS(1, cuMemFreeHost(host_view(managed)));
  EXPECT_STATUS(0, cuMemFree_v2(managed));
  const DevicePointer block = device_memory(unit);
  EXPECT_STATUS(1, cuMemUnmap(block, unit));
  EXPECT_STATUS(0, cuMemFree_v2(block));
  unmap_and_free(address, unit, 2 * unit);
}

TEST_F(VirtualMemoryTest, AdviceAndPrefetchAreForManagedMemory) {
  const DevicePointer address = mapped_memory(unit);
  const Location location{LocationType::device, 0};
  EXPECT_STATUS(1, cuMemAdvise(address, 4096, Advise::set_read_mostly, 0));
  EXPECT_STATUS(1, cuMemAdvise_v2(address, 4096, Advise::set_preferred_location, location));
  EXPECT_STATUS(1, cuMemPrefetchAsync(address, 4096, 0, nullptr));
  EXPECT_STATUS(1, cuMemPrefetchAsync_v2(address, 4096, location, 0, nullptr));
  int value = 0;
  EXPECT_STATUS(
      1, cuMemRangeGetAttribute(&value, sizeof value, RangeAttribute::read_mostly, address, 4096));
  EXPECT_STATUS(1, cuMemHostRegister_v2(host_view(address), 4096, 0));
  unsigned flags = 0;
  EXPECT_STATUS(1, cuMemHostGetFlags(&flags, host_view(address)));
  unmap_and_free(address, unit);
}

TEST_F(VirtualMemoryTest, ItOutlivesTheContext) {
  in_fresh_process([] {
    start();
    const std::size_t size = granularity();
    const DevicePointer address = mapped_memory(size);
    EXPECT_STATUS(0, cuMemsetD8_v2(address, 0x6b, size));
    EXPECT_STATUS(0, cuCtxSynchronize());
    EXPECT_STATUS(0, cuDevicePrimaryCtxReset_v2(0));
    EXPECT_STATUS(0, cuCtxSetCurrent(nullptr));
    EXPECT_EQ(control().live_bytes(assay_model_mapping), size);
    const DevicePointer other = reserve(size);  // no context is needed
    map_new(other, size);
    start();
    EXPECT_EQ(bytes_at(address + 100, 4), std::vector<unsigned char>(4, 0x6b));
    unmap_and_free(address, size);
    unmap_and_free(other, size);
  });
}

TEST_F(VirtualMemoryTest, TheReportNamesWhatIsLeft) {
  const DevicePointer address = mapped_memory(unit);
  AllocationHandle kept = 0;
  EXPECT_STATUS(0, cuMemRetainAllocationHandle(&kept, host_view(address)));
  const ScratchFile file;
  std::FILE* out = std::fopen(file.path().c_str(), "w");
  control().report(fileno(out));
  std::fclose(out);
  const std::string report = file.text();
  for (const char* part :
       {"reservation objects ", "live reservation 0x", "made by cuMemAddressReserve (",
        "live mapped memory 0x", "made by cuMemMap (", "live physical memory of ",
        "made by cuMemCreate (", "references 1, mappings 1",
        "last retained by cuMemRetainAllocationHandle ("}) {
    EXPECT_TRUE(contains(report, part)) << part << " is not in\n" << report;
  }
  unmap_and_free(address, unit);
  EXPECT_STATUS(0, cuMemRelease(kept));
}

}  // namespace
}  // namespace assay::cuda::model_test
