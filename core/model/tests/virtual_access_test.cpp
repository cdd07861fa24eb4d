// Virtual memory management: who may use mapped memory, and work that is late.
#include <thread>

#include "virtual_fixture.hpp"

namespace assay::cuda::model_test {
namespace {

struct VirtualAccessTest : testing::Test {
  void SetUp() override {
    start();
    control().forget_diagnoses();
    unit = granularity();
  }
  std::size_t unit = 0;
};

/// A closed gate in a stream of its own.
struct GatedStream {
  GatedStream() {
    void* memory = nullptr;
    EXPECT_STATUS(0, cuMemHostAlloc(&memory, 64, 0));
    word = static_cast<std::uint32_t*>(memory);
    *word = 0;
    EXPECT_STATUS(0, cuStreamCreate(&stream, stream_non_blocking));
    EXPECT_STATUS(0, cuStreamWaitValue32_v2(stream, reinterpret_cast<DevicePointer>(memory), 1,
                                            wait_value_geq));
  }
  void open() const { __atomic_store_n(word, 1U, __ATOMIC_RELEASE); }
  Stream stream = nullptr;
  std::uint32_t* word = nullptr;
};

TEST_F(VirtualAccessTest, NothingMayBeUsedBeforeAccessIsSet) {
  const DevicePointer address = reserve(2 * unit);
  std::vector<unsigned char> bytes(64);
  const auto refused = [&] {
    EXPECT_STATUS(1, cuMemcpyHtoD_v2(address, bytes.data(), bytes.size()));
    EXPECT_STATUS(1, cuMemcpyDtoH_v2(bytes.data(), address, bytes.size()));
    EXPECT_STATUS(1, cuMemcpyHtoDAsync_v2(address, bytes.data(), bytes.size(), nullptr));
    EXPECT_STATUS(1, cuMemcpyDtoHAsync_v2(bytes.data(), address, bytes.size(), nullptr));
    EXPECT_STATUS(1, cuMemcpyDtoD_v2(address, address + 4096, 64));
    EXPECT_STATUS(1, cuMemcpy(address, reinterpret_cast<DevicePointer>(bytes.data()), 64));
    EXPECT_STATUS(1, cuMemsetD8_v2(address, 1, 64));
    EXPECT_STATUS(1, cuMemsetD32Async(address, 1, 16, nullptr));
    EXPECT_STATUS(1, cuStreamWriteValue32_v2(nullptr, address, 1, 0));
    EXPECT_STATUS(1, cuStreamWaitValue32_v2(nullptr, address, 1, wait_value_geq));
  };
  refused();  // reserved
  map_new(address, unit);
  EXPECT_EQ(access_of(address), 0U);
  refused();  // mapped
  open(address, unit);
  EXPECT_EQ(access_of(address + unit - 1), 3U);
  EXPECT_STATUS(0, cuMemcpyHtoD_v2(address, bytes.data(), bytes.size()));
  EXPECT_STATUS(0, cuStreamWriteValue32_v2(nullptr, address, 1, 0));
  EXPECT_STATUS(0, cuCtxSynchronize());
  open(address, unit, 0, AccessFlags::none);
  refused();
  EXPECT_TRUE(diagnosed({"access_denied: cuMemsetD8_v2 (call ", "made by cuMemMap (call ",
                         "device 0 was not given that access, none was ever set"}));
  EXPECT_TRUE(diagnosed({"access_denied: cuMemsetD8_v2", "last set by cuMemSetAccess (call "}));
  unmap_and_free(address, unit, 2 * unit);
}

TEST_F(VirtualAccessTest, ReadAccessIsNoWriteAccess) {
  const DevicePointer address = mapped_memory(unit);
  EXPECT_STATUS(0, cuMemsetD8_v2(address, 5, 64));
  EXPECT_STATUS(0, cuCtxSynchronize());
  open(address, unit, 0, AccessFlags::read);
  EXPECT_EQ(access_of(address), 1U);
  EXPECT_EQ(bytes_at(address, 64), std::vector<unsigned char>(64, 5));
  EXPECT_STATUS(1, cuMemsetD8_v2(address, 6, 64));
  EXPECT_STATUS(1, cuMemcpyDtoD_v2(address, address + 4096, 64));
  EXPECT_STATUS(1, cuStreamWriteValue32_v2(nullptr, address, 1, 0));
  EXPECT_EQ(bytes_at(address, 64), std::vector<unsigned char>(64, 5));
  unmap_and_free(address, unit);
}

TEST_F(VirtualAccessTest, AccessIsSetForWholeMappingsAndKnownDevices) {
  const DevicePointer address = reserve(4 * unit);
  map_new(address, 2 * unit);
  map_new(address + 2 * unit, unit);
  const AccessDesc good = for_device(0, AccessFlags::read_write);
  EXPECT_STATUS(1, cuMemSetAccess(address, unit, &good, 1));
  EXPECT_STATUS(1, cuMemSetAccess(address + unit, unit, &good, 1));
  EXPECT_STATUS(1, cuMemSetAccess(address + unit, 2 * unit, &good, 1));
  EXPECT_STATUS(1, cuMemSetAccess(address, 4 * unit, &good, 1));
  EXPECT_STATUS(1, cuMemSetAccess(address, 0, &good, 1));
  EXPECT_STATUS(1, cuMemSetAccess(address, 3 * unit, nullptr, 1));
  EXPECT_STATUS(1, cuMemSetAccess(address, 3 * unit, &good, 0));
  const DevicePointer block = device_memory(unit);
  EXPECT_STATUS(1, cuMemSetAccess(block, unit, &good, 1));
  EXPECT_STATUS(0, cuMemFree_v2(block));
  const auto refused = [&](unsigned code, AccessDesc bad) {
    const AccessDesc both[] = {good, bad};
    EXPECT_STATUS(code, cuMemSetAccess(address, 3 * unit, both, 2));
  };
  refused(101, for_device(1, AccessFlags::read));
  refused(101, for_device(-1, AccessFlags::read));
  refused(1, for_device(0, static_cast<AccessFlags>(2)));
  refused(1, {{LocationType::host, 0}, AccessFlags::read_write});
  refused(1, {{LocationType::none, 0}, AccessFlags::read_write});
  EXPECT_EQ(access_of(address), 0U);  // nothing was set meanwhile
  EXPECT_STATUS(0, cuMemSetAccess(address, 3 * unit, &good, 1));
  EXPECT_EQ(access_of(address), 3U);
  EXPECT_EQ(access_of(address + 2 * unit), 3U);

  unsigned long long flags = 42;
  const Location known{LocationType::device, 0};
  const Location unknown{LocationType::device, 1};
  const Location host{LocationType::host, 0};
  EXPECT_STATUS(1, cuMemGetAccess(&flags, &known, address + 3 * unit));
  EXPECT_STATUS(1, cuMemGetAccess(nullptr, &known, address));
  EXPECT_STATUS(1, cuMemGetAccess(&flags, nullptr, address));
  EXPECT_STATUS(101, cuMemGetAccess(&flags, &unknown, address));
  EXPECT_STATUS(1, cuMemGetAccess(&flags, &host, address));
  EXPECT_EQ(flags, 42U);
  unmap_and_free(address, 3 * unit, 4 * unit);
}

TEST_F(VirtualAccessTest, ACopyMayRunOverAdjacentMappingsOfOneReservation) {
  const DevicePointer address = reserve(4 * unit);
  map_new(address, unit);
  map_new(address + unit, unit);
  map_new(address + 2 * unit, unit);
  open(address, 2 * unit);
  std::vector<unsigned char> bytes(unit + 200);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i % 251);
  EXPECT_STATUS(0, cuMemcpyHtoD_v2(address + unit - 100, bytes.data(), unit + 100));
  EXPECT_EQ(bytes_at(address + unit - 100, unit + 100),
            std::vector<unsigned char>(bytes.begin(), bytes.end() - 100));
  // The third mapping is not open yet.
  EXPECT_STATUS(1, cuMemcpyHtoD_v2(address + unit - 100, bytes.data(), unit + 200));
  open(address + 2 * unit, unit, 0, AccessFlags::read);
  EXPECT_STATUS(1, cuMemcpyHtoD_v2(address + unit - 100, bytes.data(), unit + 200));
  EXPECT_EQ(bytes_at(address + unit - 100, unit + 200).size(), unit + 200);
  EXPECT_STATUS(1, cuMemsetD8_v2(address + 2 * unit, 1, unit + 1));
  EXPECT_STATUS(1, cuMemcpyDtoH_v2(bytes.data(), address + 3 * unit - 100, 200));
  EXPECT_STATUS(1, cuMemcpyDtoH_v2(bytes.data(), address + 3 * unit, 100));
  unmap_and_free(address, 3 * unit, 4 * unit);
}

TEST_F(VirtualAccessTest, AKernelMayRunOverAdjacentMappings) {
  const FillKernel fill;
  const DevicePointer address = reserve(2 * unit);
  map_new(address, unit);
  map_new(address + unit, unit);
  open(address, 2 * unit);
  fill.launch(address, 2 * unit);
  EXPECT_STATUS(0, cuCtxSynchronize());
  EXPECT_EQ(bytes_at(address + unit - 8, 10)[8], 0x11);
  EXPECT_EQ(bytes_at(address + 2 * unit - 8, 8)[1], 0x11);
  unmap_and_free(address, 2 * unit);
}

TEST_F(VirtualAccessTest, PointerAttributesTellReservationAndMappingApart) {
  const DevicePointer address = reserve(4 * unit);
  const AllocationHandle handle = create(2 * unit);
  map(address + unit, 2 * unit, handle);
  open(address + unit, 2 * unit, 0, AccessFlags::read);
  const auto value_of = [](PointerAttribute attribute, DevicePointer at, unsigned code = 0) {
    std::uint64_t value = 0;
    EXPECT_STATUS(code, cuPointerGetAttribute(&value, attribute, at));
    return value;
  };
  const DevicePointer inside = address + 2 * unit + 5;
  EXPECT_EQ(value_of(PointerAttribute::range_start_addr, inside), address);
  EXPECT_EQ(value_of(PointerAttribute::range_size, inside), 4 * unit);
  EXPECT_EQ(value_of(PointerAttribute::mapping_base_addr, inside), address + unit);
  EXPECT_EQ(value_of(PointerAttribute::mapping_size, inside), 2 * unit);
  EXPECT_EQ(value_of(PointerAttribute::mapped, inside), 1U);
  EXPECT_EQ(value_of(PointerAttribute::access_flags, inside), 1U);
  EXPECT_EQ(value_of(PointerAttribute::memory_type, inside), 2U);
  EXPECT_EQ(value_of(PointerAttribute::device_pointer, inside), inside);
  EXPECT_EQ(value_of(PointerAttribute::is_managed, inside), 0U);
  EXPECT_EQ(value_of(PointerAttribute::device_ordinal, inside), 0U);
  EXPECT_EQ(value_of(PointerAttribute::mempool_handle, inside), 0U);
  EXPECT_EQ(value_of(PointerAttribute::is_legacy_cuda_ipc_capable, inside), 0U);
  value_of(PointerAttribute::host_pointer, inside, 1);
  value_of(PointerAttribute::context, inside, 1);
  // Reserved, not mapped.
  EXPECT_EQ(value_of(PointerAttribute::mapped, address), 0U);
  EXPECT_EQ(value_of(PointerAttribute::range_start_addr, address + 7), address);
  EXPECT_EQ(value_of(PointerAttribute::range_size, address), 4 * unit);
  value_of(PointerAttribute::memory_type, address, 1);
  // The physical memory has one id, each mapping its own.
  const std::uint64_t block = value_of(PointerAttribute::memory_block_id, inside);
  const std::uint64_t buffer = value_of(PointerAttribute::buffer_id, inside);
  map(address, unit, handle);
  EXPECT_EQ(value_of(PointerAttribute::memory_block_id, address), block);
  EXPECT_NE(value_of(PointerAttribute::buffer_id, address), buffer);

  DevicePointer base = 0;
  std::size_t size = 0;
  EXPECT_STATUS(0, cuMemGetAddressRange_v2(&base, &size, inside));
  EXPECT_EQ(base, address + unit);
  EXPECT_EQ(size, 2 * unit);
  EXPECT_STATUS(500, cuMemGetAddressRange_v2(&base, &size, address + 3 * unit));

  PointerAttribute attributes[] = {PointerAttribute::range_size, PointerAttribute::mapped,
                                   PointerAttribute::memory_type};
  std::uint64_t values[3] = {7, 7, 7};
  void* data[] = {&values[0], &values[1], &values[2]};
  EXPECT_STATUS(0, cuPointerGetAttributes(3, attributes, data, address + 3 * unit));
  EXPECT_EQ(values[0], 4 * unit);
  EXPECT_EQ(values[1] & 0xffffffffU, 0U);
  EXPECT_EQ(values[2] & 0xffffffffU, 0U);
  EXPECT_STATUS(0, cuMemRelease(handle));
  EXPECT_STATUS(0, cuMemUnmap(address, 3 * unit));
  EXPECT_STATUS(0, cuMemAddressFree(address, 4 * unit));
}

// --- What ends a context or a process ---

TEST(VirtualAccessFault, TheHostNeverReachesDeviceMemory) {
  for (const int stage : {0, 1, 2, 3, 4}) {
    expect_access_fault([&] {
      start();
      const std::size_t size = granularity();
      const DevicePointer address = reserve(size);
      if (stage >= 1) map_new(address, size);
      if (stage >= 2) open(address, size);
      if (stage >= 3) EXPECT_STATUS(0, cuMemUnmap(address, size));
      if (stage >= 4) EXPECT_STATUS(0, cuMemAddressFree(address, size));
      const volatile std::byte* view = host_view(address);
      std::exit(static_cast<int>(*view));
    });
  }
}

TEST(VirtualAccessFault, AKernelWithoutAccessPoisonsItsContext) {
  for (const bool read_only : {false, true}) {
    in_fresh_process([&] {
      start();
      const std::size_t size = granularity();
      const DevicePointer address = reserve(2 * size);
      map_new(address, size);
      map_new(address + size, size);
      open(address, size);
      if (read_only) open(address + size, size, 0, AccessFlags::read);
      const FillKernel fill;
      fill.launch(address, 2 * size);
      EXPECT_STATUS(700, cuCtxSynchronize());
      EXPECT_TRUE(
          diagnosed({"access_forbidden: cuLaunchKernel (call ", "made by cuMemMap (call ",
                     read_only ? "last set by cuMemSetAccess (call " : "none was ever set"}))
          << last_diagnosis();
      EXPECT_STATUS(700, cuMemUnmap(address, size));
    });
  }
}

TEST(VirtualAccessFault, AKernelBeyondTheMappedPartPoisons) {
  in_fresh_process([] {
    start();
    const std::size_t size = granularity();
    const DevicePointer address = reserve(2 * size);
    map_new(address, size);
    open(address, size);
    const FillKernel fill;
    fill.launch(address, size + 8);
    EXPECT_STATUS(700, cuCtxSynchronize());
    EXPECT_TRUE(contains(last_diagnosis(), "access_nowhere")) << last_diagnosis();
  });
}

TEST(VirtualAccessFault, AnUnmapUnderWorkIsDiagnosedAndTheWorkPoisons) {
  for (const int second : {0, 1, 2}) {  // neither, that mapping too, the reservation as well
    in_fresh_process([&] {
      start();
      const std::size_t size = granularity();
      const DevicePointer address = reserve(2 * size);
      map_new(address, size);
      map_new(address + size, size);
      open(address, 2 * size);
      const GatedStream gated;
      EXPECT_STATUS(0, cuMemsetD8Async(address + size - 8, 1, 16, gated.stream));
      if (second == 0) {
        EXPECT_STATUS(0, cuMemUnmap(address + size, size));
      } else {
        EXPECT_STATUS(0, cuMemUnmap(address, 2 * size));
      }
      EXPECT_TRUE(diagnosed({"unmap_in_flight: cuMemUnmap (call ",
                             "unfinished cuMemsetD8Async of cuMemsetD8Async (call "}));
      if (second == 2) {
        EXPECT_STATUS(0, cuMemAddressFree(address, 2 * size));
        EXPECT_TRUE(diagnosed({"reservation_in_flight: cuMemAddressFree (call ",
                               "unfinished cuMemsetD8Async of cuMemsetD8Async (call "}));
      }
      gated.open();
      EXPECT_STATUS(700, cuStreamSynchronize(gated.stream));
      EXPECT_TRUE(diagnosed({"access_after_unmap: cuMemsetD8Async (call ",
                             "freed by cuMemUnmap (call ", "it was mapped by cuMemMap (call "}));
      EXPECT_STATUS(700, cuCtxSynchronize());
    });
  }
}

TEST(VirtualAccessFault, WorkNeverReachesWhatWasMappedThereLater) {
  in_fresh_process([] {
    start();
    const std::size_t size = granularity();
    const DevicePointer address = mapped_memory(size);
    const GatedStream gated;
    EXPECT_STATUS(0, cuMemsetD8Async(address, 0x77, size, gated.stream));
    EXPECT_STATUS(0, cuMemUnmap(address, size));
    const AllocationHandle handle = create(size);
    map(address, size, handle);
    EXPECT_TRUE(diagnosed({"map_in_flight: cuMemMap (call ",
                           "unfinished cuMemsetD8Async of cuMemsetD8Async (call "}));
    open(address, size);
    EXPECT_STATUS(0, cuMemsetD8_v2(address, 1, size));
    EXPECT_EQ(bytes_at(address, 1)[0], 1);
    gated.open();
    EXPECT_STATUS(700, cuStreamSynchronize(gated.stream));
  });
}

TEST(VirtualAccessFault, AKernelFindsWhatWasMappedAtItsLaunch) {
  in_fresh_process([] {
    start();
    const std::size_t size = granularity();
    const DevicePointer address = mapped_memory(size);
    const FillKernel fill;
    const GatedStream gated;
    fill.launch(address, size, gated.stream);
    EXPECT_STATUS(0, cuMemUnmap(address, size));
    map_new(address, size);
    open(address, size);
    gated.open();
    EXPECT_STATUS(700, cuStreamSynchronize(gated.stream));
    EXPECT_TRUE(diagnosed({"unmap_in_flight: cuMemUnmap (call ", "unfinished assay_fill of"}));
    EXPECT_TRUE(diagnosed(
        {"access_after_unmap: cuLaunchKernel (call ", "it was mapped by cuMemMap (call "}));
  });
}

TEST(VirtualAccessFault, AccessTakenAwayUnderWorkPoisons) {
  in_fresh_process([] {
    start();
    const std::size_t size = granularity();
    const DevicePointer address = mapped_memory(size);
    const GatedStream gated;
    EXPECT_STATUS(0, cuMemsetD8Async(address, 0x77, size, gated.stream));
    open(address, size, 0, AccessFlags::read);
    gated.open();
    EXPECT_STATUS(700, cuStreamSynchronize(gated.stream));
    EXPECT_TRUE(
        diagnosed({"access_forbidden: cuMemsetD8Async", "last set by cuMemSetAccess (call "}))
        << last_diagnosis();
  });
}

TEST_F(VirtualAccessTest, WhatASynchronousCallHasLeftIsFinishedBeforeAnUnmap) {
  const DevicePointer address = mapped_memory(unit);
  const AllocationHandle handle = create(unit);
  const DevicePointer second = reserve(unit);
  map(second, unit, handle);
  open(second, unit);
  EXPECT_STATUS(0, cuMemsetD8_v2(second, 0x42, unit));  // may return before it is done
  EXPECT_STATUS(0, cuMemUnmap(second, unit));
  map(second, unit, handle);
  open(second, unit);
  EXPECT_EQ(bytes_at(second, 4), std::vector<unsigned char>(4, 0x42));
  EXPECT_EQ(control().diagnosis_count(), 0U);
  EXPECT_STATUS(0, cuMemRelease(handle));
  unmap_and_free(second, unit);
  unmap_and_free(address, unit);
}

TEST_F(VirtualAccessTest, ThreadsMapAndUnmapAtOnce) {
  constexpr std::size_t threads = 4;
  const DevicePointer address = reserve(threads * unit);
  Context context = nullptr;
  EXPECT_STATUS(0, cuCtxGetCurrent(&context));
  std::vector<std::thread> running;
  for (std::size_t i = 0; i < threads; ++i) {
    running.emplace_back([&, at = address + i * unit, value = static_cast<unsigned char>(i + 1)] {
      EXPECT_STATUS(0, cuCtxSetCurrent(context));
      Stream stream = nullptr;
      EXPECT_STATUS(0, cuStreamCreate(&stream, stream_non_blocking));
      for (int round = 0; round < 20; ++round) {
        map_new(at, unit);
        open(at, unit);
        EXPECT_STATUS(0, cuMemsetD8Async(at, value, 4096, stream));
        EXPECT_STATUS(0, cuStreamSynchronize(stream));
        EXPECT_EQ(bytes_at(at, 4096), std::vector<unsigned char>(4096, value));
        EXPECT_STATUS(0, cuMemUnmap(at, unit));
        const DevicePointer own = mapped_memory(unit);
        unmap_and_free(own, unit);
      }
      EXPECT_STATUS(0, cuStreamDestroy_v2(stream));
    });
  }
  for (std::thread& thread : running) thread.join();
  EXPECT_STATUS(0, cuMemAddressFree(address, threads * unit));
  EXPECT_EQ(control().diagnosis_count(), 0U);
}

}  // namespace
}  // namespace assay::cuda::model_test
