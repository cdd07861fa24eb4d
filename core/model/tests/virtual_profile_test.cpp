// Virtual memory management under other profiles than that of one H200.
#include "virtual_fixture.hpp"

namespace assay::cuda::model_test {
namespace {

TEST(VirtualProfiles, WithoutTheAttributeEverythingAnswers801) {
  const Environment profile(model_profile_variable, "no_virtual_memory");
  in_fresh_process([] {
    start();
    const std::size_t size = std::size_t{2} << 20;
    const AllocationProp properties = device_properties();
    const AccessDesc access = for_device(0, AccessFlags::read_write);
    AllocationProp got{};
    std::size_t unit = 0;
    DevicePointer address = 0;
    AllocationHandle handle = 0;
    unsigned long long flags = 0;
    EXPECT_STATUS(801,
                  cuMemGetAllocationGranularity(&unit, &properties, GranularityFlags::minimum));
    EXPECT_STATUS(801, cuMemAddressReserve(&address, size, 0, 0, 0));
    EXPECT_STATUS(801, cuMemAddressFree(size, size));
    EXPECT_STATUS(801, cuMemCreate(&handle, size, &properties, 0));
    EXPECT_STATUS(801, cuMemRelease(1));
    EXPECT_STATUS(801, cuMemMap(size, size, 0, 1, 0));
    EXPECT_STATUS(801, cuMemUnmap(size, size));
    EXPECT_STATUS(801, cuMemSetAccess(size, size, &access, 1));
    EXPECT_STATUS(801, cuMemGetAccess(&flags, &access.location, size));
    EXPECT_STATUS(801, cuMemGetAllocationPropertiesFromHandle(&got, 1));
    EXPECT_STATUS(801, cuMemRetainAllocationHandle(&handle, &handle));
  });
}

TEST(VirtualProfiles, TheGranularityIsTheProfiles) {
  const auto works_in = [](std::size_t minimum, std::size_t recommended) {
    start();
    EXPECT_EQ(granularity(), minimum);
    EXPECT_EQ(granularity(GranularityFlags::recommended), recommended);
    const DevicePointer address = reserve(4 * minimum);
    EXPECT_EQ(address % minimum, 0U);
    map_new(address, minimum);
    map_new(address + minimum, 2 * minimum);
    open(address, 3 * minimum);
    EXPECT_STATUS(0, cuMemsetD8_v2(address + minimum - 8, 0x31, 16));
    EXPECT_EQ(bytes_at(address + minimum - 8, 16), std::vector<unsigned char>(16, 0x31));
    EXPECT_STATUS(1, cuMemUnmap(address, 2 * minimum));
    const AllocationProp properties = device_properties();
    AllocationHandle handle = 0;
    EXPECT_STATUS(1, cuMemCreate(&handle, minimum / 2, &properties, 0));
    EXPECT_STATUS(0, cuMemUnmap(address, 3 * minimum));
    EXPECT_STATUS(0, cuMemAddressFree(address, 4 * minimum));
  };
  {
    const Environment profile(model_profile_variable, "odd_granularity");
    in_fresh_process([&] { works_in(std::size_t{4} << 20, std::size_t{16} << 20); });
  }
  const ScratchFile file("base = h200\ngranularity_bytes = 65536\n");
  const Environment profile(model_profile_variable, file.path());
  in_fresh_process([&] { works_in(std::size_t{64} << 10, std::size_t{2} << 20); });
}

TEST(VirtualProfiles, EachDeviceHasItsOwnAccess) {
  const Environment profile(model_profile_variable, "two_devices");
  in_fresh_process([] {
    start();
    const std::size_t size = granularity();
    const DevicePointer address = reserve(2 * size);
    map_new(address, size, 1);
    map_new(address + size, size, 0);
    open(address, 2 * size, 0);
    EXPECT_EQ(access_of(address, 0), 3U);
    EXPECT_EQ(access_of(address, 1), 0U);
    EXPECT_STATUS(0, cuMemsetD8_v2(address, 1, 2 * size));  // memory of both, by device 0
    int ordinal = -5;
    EXPECT_STATUS(0, cuPointerGetAttribute(&ordinal, PointerAttribute::device_ordinal, address));
    EXPECT_EQ(ordinal, 1);
    EXPECT_STATUS(0, cuCtxSynchronize());

    Context second = nullptr;
    EXPECT_STATUS(0, cuDevicePrimaryCtxRetain(&second, 1));
    EXPECT_STATUS(0, cuCtxSetCurrent(second));
    std::size_t free = 0;
    std::size_t total = 0;
    EXPECT_STATUS(0, cuMemGetInfo_v2(&free, &total));
    EXPECT_EQ(free, total - size);
    unsigned flags = 5;
    EXPECT_STATUS(0, cuPointerGetAttribute(&flags, PointerAttribute::access_flags, address));
    EXPECT_EQ(flags, 0U);
    EXPECT_STATUS(1, cuMemsetD8_v2(address, 1, size));  // its own memory, and no access
    open(address, 2 * size, 1, AccessFlags::read);
    EXPECT_EQ(access_of(address, 0), 3U);
    EXPECT_EQ(bytes_at(address + size - 2, 4), std::vector<unsigned char>(4, 1));
    EXPECT_STATUS(1, cuMemsetD8_v2(address, 1, size));
    const FillKernel fill;
    fill.launch(address, 64);
    EXPECT_STATUS(700, cuCtxSynchronize());
    EXPECT_TRUE(contains(last_diagnosis(), "device 1 was not given")) << last_diagnosis();
  });
}

TEST(VirtualProfiles, AnInjectedFaultLeavesNothingBehind) {
  in_fresh_process([] {
    start();
    const std::size_t size = granularity();
    ASSERT_EQ(control().set_faults("cuMemMap:1:2,cuMemUnmap:1:999"), 0);
    const DevicePointer address = reserve(size);
    const AllocationHandle handle = create(size);
    EXPECT_STATUS(2, cuMemMap(address, size, 0, handle, 0));
    EXPECT_EQ(control().live_objects(assay_model_mapping), 0U);
    map(address, size, handle);
    EXPECT_STATUS(999, cuMemUnmap(address, size));
    EXPECT_EQ(control().live_objects(assay_model_mapping), 1U);
  });
}

}  // namespace
}  // namespace assay::cuda::model_test
