// Device and managed memory: bytes, faults, quarantine, mistakes, limits.
#include <cstring>
#include <map>
#include <random>

#include "model_fixture.hpp"

namespace assay::cuda::model_test {
namespace {

struct MemoryTest : testing::Test {
  void SetUp() override {
    start();
    control().forget_diagnoses();
  }
};

TEST_F(MemoryTest, DeviceMemoryKeepsBytesAndIsNeverZeroWhenFresh) {
  std::vector<unsigned char> bytes(70000);
  for (const std::size_t size : {1UL, 511UL, 4096UL, 16384UL}) {
    const DevicePointer address = device_memory(size);
    EXPECT_EQ(address % 512, 0U);
    EXPECT_STATUS(0, cuMemcpyDtoH_v2(bytes.data(), address, size));
    EXPECT_EQ(std::memchr(bytes.data(), 0, size), nullptr) << size;
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(i * 7);
    EXPECT_STATUS(0, cuMemcpyHtoD_v2(address, bytes.data(), size));
    std::memset(bytes.data(), 0, size);
    EXPECT_STATUS(0, cuMemcpyDtoH_v2(bytes.data(), address, size));
    for (std::size_t i = 0; i < size; ++i) {
      ASSERT_EQ(bytes[i], static_cast<unsigned char>(i * 7)) << size << " at " << i;
    }
    EXPECT_STATUS(0, cuMemFree_v2(address));
  }
}

TEST_F(MemoryTest, LargeFreshMemoryIsFilledAtBothEnds) {
  const std::size_t size = std::size_t{3} << 20;
  const DevicePointer address = device_memory(size);
  std::vector<unsigned char> end(8192);
  EXPECT_STATUS(0, cuMemcpyDtoH_v2(end.data(), address, end.size()));
  EXPECT_EQ(std::memchr(end.data(), 0, end.size()), nullptr);
  EXPECT_STATUS(0, cuMemcpyDtoH_v2(end.data(), address + size - end.size(), end.size()));
  EXPECT_EQ(std::memchr(end.data(), 0, end.size()), nullptr);
  EXPECT_STATUS(0, cuMemFree_v2(address));
}

TEST(MemoryFault, HostReadOfDeviceMemory) {
  expect_access_fault([] {
    start();
    const volatile std::byte* view = host_view(device_memory(64));
    std::exit(static_cast<int>(*view));
  });
}

TEST(MemoryFault, HostWriteToFreedMemory) {
  for (const bool managed : {false, true}) {
    for (const std::size_t size : {64UL, 8192UL, std::size_t{64} << 20}) {
      expect_access_fault([&] {
        start();
        const DevicePointer address = managed ? managed_memory(size) : device_memory(size);
        if (managed) *host_view(address) = std::byte{1};  // live, it does not fault
        EXPECT_STATUS(0, cuMemFree_v2(address));
        *static_cast<volatile std::byte*>(host_view(address)) = std::byte{1};
        std::exit(0);
      });
    }
  }
}

TEST(MemoryFault, FreedAddressesStayClosedWhileOthersAreGivenOut) {
  expect_access_fault([] {
    start();
    const DevicePointer stale = managed_memory(4096);
    EXPECT_STATUS(0, cuMemFree_v2(stale));
    for (int i = 0; i < 1000; ++i) {
      const DevicePointer other = managed_memory(std::size_t{1} << 20);
      if (other == stale || driver().cuMemFree_v2(other) != Status::success) std::exit(2);
    }
    *static_cast<volatile std::byte*>(host_view(stale)) = std::byte{1};
    std::exit(0);
  });
}

TEST_F(MemoryTest, ManagedMemoryIsOneAddressForBothSides) {
  const DevicePointer address = managed_memory(10000);
  std::memset(host_view(address), 0x5a, 10000);
  std::vector<unsigned char> copy(10000);
  EXPECT_STATUS(0, cuMemcpyDtoH_v2(copy.data(), address, copy.size()));
  EXPECT_EQ(copy, std::vector<unsigned char>(10000, 0x5a));
  EXPECT_STATUS(0, cuMemsetD8_v2(address + 1, 0xa5, 9998));
  EXPECT_STATUS(0, cuCtxSynchronize());
  EXPECT_EQ(host_view(address)[0], std::byte{0x5a});
  EXPECT_EQ(host_view(address)[1], std::byte{0xa5});
  EXPECT_EQ(host_view(address)[9999], std::byte{0x5a});
  EXPECT_STATUS(0, cuMemFree_v2(address));
}

TEST_F(MemoryTest, AllocationRefusesBadArguments) {
  DevicePointer address = 42;
  EXPECT_STATUS(1, cuMemAlloc_v2(&address, 0));
  EXPECT_STATUS(1, cuMemAlloc_v2(nullptr, 64));
  EXPECT_STATUS(2, cuMemAlloc_v2(&address, ~std::size_t{0}));
  EXPECT_STATUS(2, cuMemAlloc_v2(&address, std::size_t{200} << 30));
  EXPECT_STATUS(1, cuMemAllocManaged(&address, 0, mem_attach_global));
  EXPECT_STATUS(1, cuMemAllocManaged(&address, 64, 0));
  EXPECT_STATUS(1, cuMemAllocManaged(&address, 64, mem_attach_single));
  EXPECT_STATUS(1, cuMemAllocManaged(&address, 64, mem_attach_global | mem_attach_host));
  EXPECT_STATUS(2, cuMemAllocManaged(&address, std::size_t{1} << 60, mem_attach_host));
  EXPECT_EQ(address, 42U);
}

TEST_F(MemoryTest, SecondFreeNamesBothSites) {
  const DevicePointer address = device_memory(4096);
  EXPECT_STATUS(0, cuMemFree_v2(0));
  EXPECT_STATUS(0, cuMemFree_v2(address));
  EXPECT_EQ(control().diagnosis_count(), 0);
  EXPECT_STATUS(1, cuMemFree_v2(address));
  const std::string text = last_diagnosis();
  EXPECT_TRUE(contains(text, "free_twice")) << text;
  EXPECT_TRUE(contains(text, "made by cuMemAlloc_v2 (call ")) << text;
  EXPECT_TRUE(contains(text, "freed by cuMemFree_v2 (call ")) << text;
  EXPECT_TRUE(contains(text, "from model-tests+0x")) << text;
}

TEST_F(MemoryTest, InteriorForeignAndWrongFreesAreToldApart) {
  const DevicePointer address = device_memory(4096);
  int local = 0;
  EXPECT_STATUS(1, cuMemFree_v2(address + 8));
  EXPECT_TRUE(contains(last_diagnosis(), "free_interior")) << last_diagnosis();
  EXPECT_STATUS(1, cuMemFree_v2(reinterpret_cast<DevicePointer>(&local)));
  EXPECT_TRUE(contains(last_diagnosis(), "free_unknown")) << last_diagnosis();
  void* pinned = nullptr;
  EXPECT_STATUS(0, cuMemHostAlloc(&pinned, 64, 0));
  EXPECT_STATUS(1, cuMemFree_v2(reinterpret_cast<DevicePointer>(pinned)));
  EXPECT_TRUE(contains(last_diagnosis(), "free_wrong_kind")) << last_diagnosis();
  EXPECT_STATUS(1, cuMemFreeHost(reinterpret_cast<void*>(address)));
  EXPECT_TRUE(contains(last_diagnosis(), "free_wrong_kind")) << last_diagnosis();
  EXPECT_EQ(control().diagnosis_count(), 4);
  EXPECT_STATUS(0, cuMemFreeHost(pinned));
  EXPECT_STATUS(0, cuMemFree_v2(address));
}

TEST_F(MemoryTest, AddressRangeGivesTheAllocation) {
  const DevicePointer address = device_memory(5000);
  DevicePointer base = 0;
  std::size_t size = 0;
  EXPECT_STATUS(0, cuMemGetAddressRange_v2(&base, &size, address + 4999));
  EXPECT_EQ(base, address);
  EXPECT_EQ(size, 5000U);
  EXPECT_STATUS(0, cuMemGetAddressRange_v2(nullptr, nullptr, address));
  EXPECT_STATUS(500, cuMemGetAddressRange_v2(&base, &size, address + 5000));
  EXPECT_STATUS(0, cuMemFree_v2(address));
  EXPECT_STATUS(500, cuMemGetAddressRange_v2(&base, &size, address));
}

TEST_F(MemoryTest, CapacityIsALimitAndInfoFollowsIt) {
  std::size_t free = 0;
  std::size_t total = 0;
  control().set_capacity(10240);
  const DevicePointer first = device_memory(4096);
  DevicePointer second = 0;
  EXPECT_STATUS(0, cuMemGetInfo_v2(&free, &total));
  EXPECT_EQ(free, 10240U - 4096U);
  EXPECT_EQ(total, std::size_t{143771} << 20);
  EXPECT_STATUS(2, cuMemAlloc_v2(&second, 6145));
  EXPECT_STATUS(2, cuMemAllocManaged(&second, 6145, mem_attach_global));
  EXPECT_STATUS(0, cuMemAlloc_v2(&second, 6144));
  EXPECT_STATUS(0, cuMemGetInfo_v2(&free, &total));
  EXPECT_EQ(free, 0U);
  EXPECT_EQ(control().live_bytes(assay_model_device), 10240U);
  EXPECT_STATUS(0, cuMemFree_v2(first));
  EXPECT_STATUS(0, cuMemFree_v2(second));
  control().set_capacity(0);
  EXPECT_STATUS(0, cuMemGetInfo_v2(&free, &total));
  EXPECT_EQ(free, total);
  EXPECT_STATUS(1, cuMemGetInfo_v2(nullptr, &total));
}

TEST(MemoryProfile, AddressSpaceThatIsNotThereIsOutOfMemory) {
  const ScratchFile profile(
      "capacity_bytes = 70368744177664\nhost_capacity_bytes = 70368744177664\n");
  const Environment variable(model_profile_variable, profile.path());
  in_fresh_process([] {
    start();
    DevicePointer address = 0;
    void* pinned = nullptr;
    EXPECT_STATUS(2, cuMemAlloc_v2(&address, std::size_t{1} << 46));
    EXPECT_STATUS(2, cuMemHostAlloc(&pinned, std::size_t{1} << 46, 0));
    EXPECT_STATUS(0, cuMemAlloc_v2(&address, 4096));
    EXPECT_EQ(control().live_bytes(assay_model_device), 4096U);
  });
}

TEST(MemoryProfile, NoManagedMemoryIsNotSupported) {
  const ScratchFile profile("attribute.managed_memory = 0\n");
  const Environment variable(model_profile_variable, profile.path());
  in_fresh_process([] {
    start();
    DevicePointer address = 0;
    EXPECT_STATUS(801, cuMemAllocManaged(&address, 64, mem_attach_global));
  });
}

TEST_F(MemoryTest, FreeWithWorkInFlightIsDiagnosedAndWaits) {
  void* flag_memory = nullptr;
  EXPECT_STATUS(0, cuMemHostAlloc(&flag_memory, 64, 0));
  std::memset(flag_memory, 0, 64);
  Stream stream = nullptr;
  EXPECT_STATUS(0, cuStreamCreate(&stream, stream_non_blocking));
  const DevicePointer address = device_memory(4096);
  EXPECT_STATUS(0, cuMemsetD8Async(address, 1, 4096, stream));
  EXPECT_STATUS(0, cuMemFree_v2(address));
  EXPECT_TRUE(contains(last_diagnosis(), "free_in_flight")) << last_diagnosis();
  EXPECT_TRUE(contains(last_diagnosis(), "of cuMemsetD8Async (call ")) << last_diagnosis();
  EXPECT_STATUS(0, cuStreamQuery(stream));
  EXPECT_STATUS(0, cuStreamDestroy_v2(stream));
  EXPECT_STATUS(0, cuMemFreeHost(flag_memory));
}

/// Random life of many blocks against a plain map: no overlap, no address twice, bytes kept.
TEST_F(MemoryTest, ManyBlocksKeepApart) {
  struct Live {
    std::size_t size;
    unsigned tag;
  };
  std::mt19937_64 random(20261130);
  std::map<DevicePointer, Live> live;
  std::map<DevicePointer, std::size_t> ever;
  unsigned tag = 0;
  for (int step = 0; step < 6000; ++step) {
    if (live.size() < 200 && random() % 5 < 3) {
      const std::size_t size = std::size_t{1} << random() % 16 | random() % 600;
      const bool managed = random() % 3 == 0;
      const DevicePointer address = managed ? managed_memory(size) : device_memory(size);
      const auto after = ever.upper_bound(address);
      ASSERT_TRUE(after == ever.end() || address + size <= after->first);
      ASSERT_TRUE(after == ever.begin() ||
                  std::prev(after)->first + std::prev(after)->second <= address);
      EXPECT_STATUS(0, cuMemsetD8_v2(address, static_cast<unsigned char>(++tag), size));
      live[address] = {size, tag};
      ever[address] = size;
    } else if (!live.empty()) {
      auto victim = live.begin();
      std::advance(victim, static_cast<std::ptrdiff_t>(random() % live.size()));
      std::vector<unsigned char> bytes(victim->second.size);
      EXPECT_STATUS(0, cuMemcpyDtoH_v2(bytes.data(), victim->first, bytes.size()));
      const auto expected = static_cast<unsigned char>(victim->second.tag);
      ASSERT_EQ(bytes, std::vector<unsigned char>(bytes.size(), expected));
      EXPECT_STATUS(0, cuMemFree_v2(victim->first));
      live.erase(victim);
    }
  }
  for (const auto& [address, block] : live) EXPECT_STATUS(0, cuMemFree_v2(address));
  EXPECT_EQ(control().live_objects(assay_model_device), 0);
  EXPECT_EQ(control().live_objects(assay_model_managed), 0);
  EXPECT_EQ(control().diagnosis_count(), 0) << last_diagnosis();
}

}  // namespace
}  // namespace assay::cuda::model_test
