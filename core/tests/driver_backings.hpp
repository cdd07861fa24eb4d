// The backings over the driver on its model, for the tests that go over all three.
#pragma once

#include <vector>

#include <gtest/gtest.h>

#include "assay/backing/device.hpp"
#include "assay/backing/device_pool.hpp"
#include "assay/backing/device_virtual.hpp"
#include "assay/backing/managed.hpp"
#include "assay/backing/pinned.hpp"
#include "cuda_model.hpp"

namespace assay::cuda {

using abi::Status;

class DriverBackings : public CudaModelTest {
 protected:
  void SetUp() override {
    CudaModelTest::SetUp();
    context_ = retained();
  }
  /// All three; the tests go over them.
  std::vector<Ref<Backing>> all() {
    return {Managed::make(context_).value(), Pinned::make(context_).value(),
            Device::make(context_).value()};
  }
  void TearDown() override {
    context_ = {};
    model().set_capacity(0);
    model().set_host_capacity(0);
    CudaModelTest::TearDown();
  }
  [[nodiscard]] std::uint64_t live_blocks() const {
    return model().live_objects(assay_model_device) + model().live_objects(assay_model_managed) +
           model().live_objects(assay_model_pinned);
  }
  [[nodiscard]] bool concurrent() const {
    return context_->facts().has(abi::DeviceAttribute::concurrent_managed_access);
  }
  int range_attribute(abi::RangeAttribute which, Block block, std::size_t size) {
    const auto current = Current::of(*context_);
    int value = -100;
    EXPECT_EQ(
        driver_->table().cuMemRangeGetAttribute(&value, sizeof value, which, block.address, size),
        Status::success);
    return value;
  }

  Ref<PrimaryContext> context_;
};

inline std::vector<std::byte> bytes_of(Backing& backing, Block block, std::size_t size) {
  std::vector<std::byte> bytes(size, std::byte{0xee});
  const auto copied = backing.copy_out(block, 0, bytes);
  EXPECT_TRUE(copied) << describe(copied.error());
  return bytes;
}

}  // namespace assay::cuda
