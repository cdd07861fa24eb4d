// Runs each property on the real operations.
#include "checked_properties.hpp"

namespace assay::properties {
namespace {

template <class Property, class Ops>
void expect_holds(const Trial& asked = {}) {
  EXPECT_EQ(trial(asked, Property::template of<Ops>()), "");
}
// Each sequence is run once for every call that can fail in it.
constexpr Trial walks{.cases = 60, .size_max = 60};

TEST(BufferProperty, SplitJoinsBack) {
  expect_holds<SplitJoinsBack, RealBytesOps>();
}
TEST(BufferProperty, ViewAliases) {
  expect_holds<ViewAliases, RealBytesOps>();
}
TEST(BufferProperty, CopyOnWriteIsolates) {
  expect_holds<CopyOnWriteIsolates, RealBytesOps>();
}
TEST(BufferProperty, FailuresChangeNothing) {
  expect_holds<FailuresChangeNothing, RealBytesOps>(walks);
}
TEST(BufferProperty, FailedReadsAreRetried) {
  expect_holds<FailedReadsAreRetried, RealBytesOps>(walks);
}
TEST(BufferProperty, ZeroOnGrow) {
  expect_holds<ZeroOnGrow, RealBufferOps>();
}
TEST(BufferProperty, WipeOnRelease) {
  expect_holds<WipeOnReleaseOfBytes, RealBytesOps>(walks);
  expect_holds<WipeOnReleaseOfBuffers, RealBufferOps>();
}

}  // namespace
}  // namespace assay::properties
