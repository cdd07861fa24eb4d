// Virtual memory management: reservations, physical memory, mappings, and what outlives what.
#include "virtual_fixture.hpp"

#include <algorithm>
#include <cstring>

namespace assay::cuda::model_test {
namespace {

struct VirtualMemoryTest : testing::Test {
  void SetUp() override {
    start();
    control().forget_diagnoses();
    unit = granularity();
  }
  void TearDown() override {
    EXPECT_EQ(control().live_objects(assay_model_reservation), reservations);
    EXPECT_EQ(control().live_objects(assay_model_physical), physicals);
    EXPECT_EQ(control().live_objects(assay_model_mapping), mappings);
  }

  std::size_t unit = 0;
  std::uint64_t reservations = control().live_objects(assay_model_reservation);
  std::uint64_t physicals = control().live_objects(assay_model_physical);
  std::uint64_t mappings = control().live_objects(assay_model_mapping);
};

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

}  // namespace
}  // namespace assay::cuda::model_test
