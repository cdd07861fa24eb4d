// The properties of Bytes with every backing of ours as the home, whatever its blocks are.
#include "checked_properties.hpp"

namespace assay::properties {
namespace {

class BytesHome : public testing::TestWithParam<const harness::Subject*> {
 protected:
  void SetUp() override { use_model(); }
  [[nodiscard]] static BytesWorld::Setup setup() {
    return {.home = GetParam(), .device = model_device()};
  }
  /// Returns whether the host can reach its blocks; if not, no value may be at home there.
  static bool serves() {
    const auto backing = GetParam()->make({}).value();
    if (backing->can(Capabilities::host_access)) return true;
    const auto home = Home::make(backing).value();
    EXPECT_EQ(Bytes::zeroed(1, *home).error().code, ErrorCode::not_supported);
    const auto source = test::LazySource::make(test::counting(10));
    EXPECT_EQ(
        Bytes::from_source(source, source->block(), AllocationProperty::other, *home).error().code,
        ErrorCode::not_supported);
    return false;
  }
};

TEST_P(BytesHome, CopyOnWriteIsolates) {
  if (!serves()) return;
  EXPECT_EQ(trial({.cases = 60},
                  [](const BytesCommands& commands) {
                    pass(copy_on_write_isolates(BytesOps::of<RealBytesOps>(), commands, setup()));
                  }),
            "");
}

TEST_P(BytesHome, FailuresChangeNothing) {
  if (!serves()) return;
  EXPECT_EQ(trial({.cases = 6, .size_max = 40},
                  [](const BytesCommands& commands) {
                    pass(failures_change_nothing(BytesOps::of<RealBytesOps>(), commands, setup()));
                  }),
            "");
}

std::string name_of_home(const testing::TestParamInfo<const harness::Subject*>& info) {
  return std::string(info.param->id);
}
INSTANTIATE_TEST_SUITE_P(Every, BytesHome, testing::ValuesIn(homes()), name_of_home);

}  // namespace
}  // namespace assay::properties
