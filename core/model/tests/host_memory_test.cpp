// Pinned and registered host memory.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "model_fixture.hpp"

namespace assay::cuda::model_test {
namespace {

struct HostMemoryTest : testing::Test {
  void SetUp() override {
    start();
    control().forget_diagnoses();
  }
};

// Not inlined: g++ 12 would warn of a dangling pointer that there is none.
[[gnu::noinline]] void* pinned_memory(std::size_t size, unsigned flags = 0) {
  void* pointer = nullptr;
  EXPECT_STATUS(0, cuMemHostAlloc(&pointer, size, flags));
  return pointer;
}

TEST_F(HostMemoryTest, PinnedMemoryIsTheHosts) {
  auto* bytes = static_cast<unsigned char*>(pinned_memory(10000, host_alloc_portable));
  EXPECT_EQ(std::memchr(bytes, 0, 10000), nullptr);
  std::memset(bytes, 0x33, 10000);
  unsigned flags = 0;
  EXPECT_STATUS(0, cuMemHostGetFlags(&flags, bytes));
  EXPECT_EQ(flags, host_alloc_portable | host_alloc_device_map);  // shown though not asked
  EXPECT_STATUS(0, cuMemHostGetFlags(&flags, bytes + 9999));
  EXPECT_STATUS(1, cuMemHostGetFlags(&flags, &flags));
  DevicePointer device = 0;
  EXPECT_STATUS(0, cuMemHostGetDevicePointer_v2(&device, bytes + 5, 0));
  EXPECT_EQ(device, reinterpret_cast<DevicePointer>(bytes + 5));
  EXPECT_STATUS(1, cuMemHostGetDevicePointer_v2(&device, bytes, 1));
  EXPECT_STATUS(1, cuMemHostGetDevicePointer_v2(&device, &flags, 0));
  EXPECT_STATUS(0, cuMemFreeHost(bytes));
}

TEST_F(HostMemoryTest, PinnedAllocationAndFreeRefuseBadArguments) {
  static int untouched = 0;
  void* pointer = &untouched;
  EXPECT_STATUS(1, cuMemHostAlloc(&pointer, 64, 8));
  EXPECT_STATUS(1, cuMemHostAlloc(nullptr, 64, 0));
  EXPECT_STATUS(2, cuMemHostAlloc(&pointer, std::size_t{1} << 62, 0));
  EXPECT_EQ(pointer, &untouched);
  EXPECT_STATUS(0, cuMemHostAlloc(&pointer, 0, 0));
  EXPECT_EQ(pointer, nullptr);
  EXPECT_STATUS(0, cuMemFreeHost(nullptr));
  EXPECT_STATUS(1, cuMemFreeHost(&untouched));
  auto* bytes = static_cast<std::byte*>(pinned_memory(64));
  EXPECT_STATUS(1, cuMemFreeHost(bytes + 1));
  EXPECT_STATUS(0, cuMemFreeHost(bytes));
  EXPECT_STATUS(1, cuMemFreeHost(bytes));
  EXPECT_TRUE(contains(last_diagnosis(), "freed by cuMemFreeHost")) << last_diagnosis();
  EXPECT_EQ(control().live_objects(assay_model_pinned), 0);
}

TEST(HostMemoryFault, FreedPinnedMemory) {
  expect_access_fault([] {
    start();
    auto* bytes = static_cast<volatile char*>(pinned_memory(64));
    bytes[0] = 1;
    EXPECT_STATUS(0, cuMemFreeHost(const_cast<char*>(bytes)));
    bytes[0] = 1;
    std::exit(0);
  });
}

TEST_F(HostMemoryTest, RegisteredMemoryKeepsItsAddressAndBytes) {
  std::vector<unsigned char> bytes(10000, 0x11);
  EXPECT_STATUS(0, cuMemHostRegister_v2(bytes.data() + 1, 9000, host_register_portable));
  DevicePointer device = 0;
  EXPECT_STATUS(0, cuMemHostGetDevicePointer_v2(&device, bytes.data() + 1, 0));
  EXPECT_EQ(device, reinterpret_cast<DevicePointer>(bytes.data() + 1));
  EXPECT_STATUS(0, cuMemsetD8_v2(device, 0x22, 9000));
  EXPECT_STATUS(0, cuCtxSynchronize());
  EXPECT_EQ(bytes[0], 0x11);
  EXPECT_EQ(bytes[1], 0x22);
  EXPECT_EQ(bytes[9000], 0x22);
  EXPECT_EQ(bytes[9001], 0x11);
  EXPECT_EQ(control().live_bytes(assay_model_registered), 9000U);
  EXPECT_STATUS(1, cuMemFreeHost(bytes.data() + 1));
  EXPECT_STATUS(0, cuMemHostUnregister(bytes.data() + 1));
  EXPECT_EQ(control().live_objects(assay_model_registered), 0);
}

TEST_F(HostMemoryTest, OverlapsAreRefusedAndPagesMayBeShared) {
  alignas(64) static unsigned char bytes[1024];
  EXPECT_STATUS(0, cuMemHostRegister_v2(bytes, 100, 0));
  EXPECT_STATUS(712, cuMemHostRegister_v2(bytes, 100, 0));
  EXPECT_STATUS(712, cuMemHostRegister_v2(bytes + 99, 10, 0));
  EXPECT_STATUS(712, cuMemHostRegister_v2(bytes + 40, 10, 0));
  EXPECT_STATUS(0, cuMemHostRegister_v2(bytes + 100, 100, 0));
  void* pinned = pinned_memory(64);
  EXPECT_STATUS(712, cuMemHostRegister_v2(pinned, 64, 0));
  const DevicePointer managed = managed_memory(64);
  EXPECT_STATUS(1, cuMemHostRegister_v2(host_view(managed), 64, 0));
  EXPECT_STATUS(0, cuMemHostUnregister(bytes));
  EXPECT_STATUS(0, cuMemHostUnregister(bytes + 100));
  EXPECT_STATUS(0, cuMemFreeHost(pinned));
  EXPECT_STATUS(0, cuMemFree_v2(managed));
}

TEST_F(HostMemoryTest, RegisterRefusesBadArguments) {
  static unsigned char bytes[64];
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  EXPECT_STATUS(1, cuMemHostRegister_v2(nullptr, 64, 0));
  EXPECT_STATUS(1, cuMemHostRegister_v2(bytes, 0, 0));
  EXPECT_STATUS(1, cuMemHostRegister_v2(bytes, 64, 16));
  EXPECT_STATUS(1, cuMemHostRegister_v2(bytes, ~std::size_t{0}, 0));
  void* mapped =
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  munmap(static_cast<std::byte*>(mapped) + page, page);
  EXPECT_STATUS(1, cuMemHostRegister_v2(mapped, page + 1, 0));
  EXPECT_STATUS(0, cuMemHostRegister_v2(mapped, page, 0));
  EXPECT_STATUS(0, cuMemHostUnregister(mapped));
  munmap(mapped, page);
}

TEST_F(HostMemoryTest, UnregisterTellsUnknownFromInvalid) {
  static unsigned char bytes[256];
  EXPECT_STATUS(713, cuMemHostUnregister(bytes));
  EXPECT_STATUS(1, cuMemHostUnregister(nullptr));
  EXPECT_STATUS(0, cuMemHostRegister_v2(bytes, 256, 0));
  EXPECT_STATUS(1, cuMemHostUnregister(bytes + 1));
  EXPECT_STATUS(0, cuMemHostUnregister(bytes));
  EXPECT_STATUS(713, cuMemHostUnregister(bytes));
  void* pinned = pinned_memory(64);
  EXPECT_STATUS(1, cuMemHostUnregister(pinned));
  EXPECT_STATUS(0, cuMemFreeHost(pinned));
}

TEST_F(HostMemoryTest, FreeBeforeUnregisterIsDiagnosed) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* mapped = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_STATUS(0, cuMemHostRegister_v2(mapped, page, 0));
  munmap(mapped, page);
  EXPECT_STATUS(0, cuMemHostUnregister(mapped));
  EXPECT_TRUE(contains(last_diagnosis(), "registered_unmapped")) << last_diagnosis();
}

TEST(HostMemoryProfile, DeviceAddressOfRegisteredMemoryMayDiffer) {
  const Environment variable(model_profile_variable, "no_concurrent_managed_access");
  in_fresh_process([] {
    start();
    std::vector<unsigned char> bytes(5000, 0x11);
    const auto host = reinterpret_cast<DevicePointer>(bytes.data());
    EXPECT_STATUS(0, cuMemHostRegister_v2(bytes.data(), bytes.size(), 0));
    DevicePointer device = 0;
    EXPECT_STATUS(0, cuMemHostGetDevicePointer_v2(&device, bytes.data() + 10, 0));
    EXPECT_NE(device, host + 10);
    EXPECT_STATUS(0, cuMemsetD8_v2(device, 0x22, 100));
    EXPECT_STATUS(0, cuCtxSynchronize());
    EXPECT_EQ(bytes[9], 0x11);
    EXPECT_EQ(bytes[10], 0x22);
    EXPECT_EQ(bytes[109], 0x22);
    EXPECT_EQ(bytes[110], 0x11);
    DevicePointer back = 0;
    EXPECT_STATUS(0, cuPointerGetAttribute(&back, PointerAttribute::host_pointer, device));
    EXPECT_EQ(back, host + 10);
    EXPECT_STATUS(0, cuPointerGetAttribute(&back, PointerAttribute::device_pointer, host + 10));
    EXPECT_EQ(back, device);
    EXPECT_STATUS(0, cuMemHostUnregister(bytes.data()));
    EXPECT_STATUS(1, cuPointerGetAttribute(&back, PointerAttribute::host_pointer, device));
  });
}

TEST(HostMemoryProfile, RegistrationMayBeUnsupported) {
  const ScratchFile none("attribute.host_register_supported = 0\n");
  const ScratchFile no_read_only("attribute.read_only_host_register_supported = 0\n");
  {
    const Environment variable(model_profile_variable, none.path());
    in_fresh_process([] {
      start();
      static unsigned char bytes[64];
      EXPECT_STATUS(801, cuMemHostRegister_v2(bytes, 64, 0));
    });
  }
  const Environment variable(model_profile_variable, no_read_only.path());
  in_fresh_process([] {
    start();
    static unsigned char bytes[64];
    EXPECT_STATUS(801, cuMemHostRegister_v2(bytes, 64, host_register_read_only));
    EXPECT_STATUS(0, cuMemHostRegister_v2(bytes, 64, 0));
  });
}

}  // namespace
}  // namespace assay::cuda::model_test
