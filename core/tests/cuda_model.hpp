// The driver model for tests of core/cuda: opened by path, as a program opens it.
#pragma once

#include <cstdlib>

#include <gtest/gtest.h>

#include "assay/cuda/stream.hpp"

namespace assay::cuda {

class CudaModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // The model and its threads must not have run yet in a child of a death test.
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    auto loaded = Driver::load({ASSAY_MODEL_LIBRARY});
    ASSERT_TRUE(loaded) << describe(loaded.error());
    driver_ = std::move(loaded).value();
    ASSERT_NE(driver_->model(), nullptr);
    model().set_faults(nullptr);
    contexts_before_ = live(assay_model_context);
  }
  void TearDown() override {
    if (!driver_) return;
    model().set_faults(nullptr);
    EXPECT_EQ(live(assay_model_context), contexts_before_);
    EXPECT_EQ(live(assay_model_stream), 0U);
    EXPECT_EQ(live(assay_model_event), 0U);
    EXPECT_EQ(live(assay_model_module), 0U);
    EXPECT_EQ(current(), nullptr) << "a context was left current";
  }

  [[nodiscard]] const assay_model_control& model() const { return *driver_->model(); }
  [[nodiscard]] std::uint64_t live(std::uint32_t object) const {
    return model().live_objects(object);
  }
  [[nodiscard]] const abi::DriverTable& table() const { return driver_->table(); }
  [[nodiscard]] Ref<PrimaryContext> retained() const {
    auto context = PrimaryContext::retain(driver_, 0);
    EXPECT_TRUE(context) << describe(context.error());
    return std::move(context).value();
  }
  /// The context that is current on this thread.
  [[nodiscard]] abi::Context current() const {
    abi::Context context = nullptr;
    EXPECT_EQ(table().cuCtxGetCurrent(&context), abi::Status::success);
    return context;
  }
  [[nodiscard]] bool active() const {
    unsigned flags = 0;
    int active = 0;
    EXPECT_EQ(table().cuDevicePrimaryCtxGetState(0, &flags, &active), abi::Status::success);
    return active != 0;
  }

  Ref<Driver> driver_;

 private:
  std::uint64_t contexts_before_ = 0;
};

}  // namespace assay::cuda
