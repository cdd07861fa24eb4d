// Contexts: retain and release, what is current, ends and second lives.
#include <thread>

#include "model_fixture.hpp"

namespace assay::cuda::model_test {
namespace {

void empty_stack() {
  while (driver().cuCtxPopCurrent_v2(nullptr) == Status::success) {
  }
}

/// Tests of one process start with no context current.
class EmptyStackAfterEachTest : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo&) override { empty_stack(); }
};
[[maybe_unused]] const bool listening = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new EmptyStackAfterEachTest);
  return true;
}();

struct ContextTest : testing::Test {
  void SetUp() override {
    EXPECT_STATUS(0, cuInit(0));
    empty_stack();
    while (driver().cuDevicePrimaryCtxRelease_v2(0) == Status::success) {
    }
  }
};

std::uint64_t id_of(Context context) {
  unsigned long long id = 0;
  EXPECT_STATUS(0, cuCtxGetId(context, &id));
  return id;
}

bool active() {
  unsigned flags = 0;
  int is_active = 0;
  EXPECT_STATUS(0, cuDevicePrimaryCtxGetState(0, &flags, &is_active));
  return is_active != 0;
}

TEST_F(ContextTest, RetainIsCountedAndMakesNothingCurrent) {
  Context first = nullptr;
  Context second = nullptr;
  EXPECT_FALSE(active());
  EXPECT_STATUS(0, cuDevicePrimaryCtxRetain(&first, 0));
  EXPECT_STATUS(0, cuDevicePrimaryCtxRetain(&second, 0));
  EXPECT_EQ(first, second);
  EXPECT_EQ(control().live_objects(assay_model_context), 1);
  Context current = first;
  EXPECT_STATUS(0, cuCtxGetCurrent(&current));
  EXPECT_EQ(current, nullptr);
  DevicePointer address = 0;
  EXPECT_STATUS(201, cuMemAlloc_v2(&address, 64));
  EXPECT_STATUS(0, cuDevicePrimaryCtxRelease_v2(0));
  EXPECT_TRUE(active());
  EXPECT_STATUS(0, cuDevicePrimaryCtxRelease_v2(0));
  EXPECT_FALSE(active());
  EXPECT_STATUS(201, cuDevicePrimaryCtxRelease_v2(0));
  EXPECT_EQ(control().live_objects(assay_model_context), 0);
}

TEST_F(ContextTest, ReleaseLeavesAStaleContextCurrentAndTheHandleIsBornAgain) {
  Context first = nullptr;
  EXPECT_STATUS(0, cuDevicePrimaryCtxRetain(&first, 0));
  EXPECT_STATUS(0, cuCtxSetCurrent(first));
  const std::uint64_t first_id = id_of(first);
  device_memory(4096);
  EXPECT_STATUS(0, cuDevicePrimaryCtxRelease_v2(0));
  EXPECT_EQ(control().live_objects(assay_model_device), 0);
  DevicePointer address = 0;
  EXPECT_STATUS(709, cuMemAlloc_v2(&address, 64));
  EXPECT_STATUS(709, cuCtxPushCurrent_v2(first));
  unsigned long long id = 0;
  EXPECT_STATUS(709, cuCtxGetId(first, &id));
  EXPECT_STATUS(709, cuCtxGetId(nullptr, &id));

  Context second = nullptr;
  EXPECT_STATUS(0, cuDevicePrimaryCtxRetain(&second, 0));
  EXPECT_EQ(second, first);
  EXPECT_NE(id_of(second), first_id);
  EXPECT_STATUS(709, cuMemAlloc_v2(&address, 64));  // this thread still has the first life
  EXPECT_STATUS(0, cuCtxSetCurrent(second));
  EXPECT_STATUS(0, cuMemAlloc_v2(&address, 64));
  EXPECT_STATUS(0, cuMemFree_v2(address));
}

TEST_F(ContextTest, ResetEndsItHoweverOftenItIsRetained) {
  Context context = nullptr;
  EXPECT_STATUS(0, cuDevicePrimaryCtxRetain(&context, 0));
  EXPECT_STATUS(0, cuDevicePrimaryCtxRetain(&context, 0));
  EXPECT_STATUS(0, cuCtxSetCurrent(context));
  EXPECT_STATUS(0, cuDevicePrimaryCtxReset_v2(0));
  EXPECT_FALSE(active());
  Device device = 0;
  EXPECT_STATUS(709, cuCtxGetDevice(&device));
  EXPECT_STATUS(0, cuDevicePrimaryCtxRelease_v2(0));
  EXPECT_STATUS(0, cuDevicePrimaryCtxRelease_v2(0));
  EXPECT_STATUS(201, cuDevicePrimaryCtxRelease_v2(0));
}

TEST_F(ContextTest, FlagsAreKeptAndChecked) {
  unsigned flags = 0;
  int is_active = 1;
  EXPECT_STATUS(0, cuDevicePrimaryCtxSetFlags_v2(0, 0x14));
  EXPECT_STATUS(0, cuDevicePrimaryCtxGetState(0, &flags, &is_active));
  EXPECT_EQ(flags, 0x14U);
  EXPECT_EQ(is_active, 0);
  EXPECT_STATUS(1, cuDevicePrimaryCtxSetFlags_v2(0, 0x3));
  EXPECT_STATUS(1, cuDevicePrimaryCtxSetFlags_v2(0, 0x100));
  EXPECT_STATUS(101, cuDevicePrimaryCtxSetFlags_v2(1, 0));
  EXPECT_STATUS(0, cuDevicePrimaryCtxSetFlags_v2(0, 0));
}

TEST_F(ContextTest, StackIsOfTheThread) {
  Context context = nullptr;
  EXPECT_STATUS(0, cuDevicePrimaryCtxRetain(&context, 0));
  EXPECT_STATUS(0, cuCtxPushCurrent_v2(context));
  std::thread([] {
    Context current = nullptr;
    EXPECT_STATUS(0, cuCtxGetCurrent(&current));
    EXPECT_EQ(current, nullptr);
    EXPECT_STATUS(201, cuCtxPopCurrent_v2(&current));
    EXPECT_STATUS(201, cuCtxSynchronize());
  }).join();
  EXPECT_STATUS(0, cuCtxSynchronize());
  Context popped = nullptr;
  EXPECT_STATUS(0, cuCtxPopCurrent_v2(&popped));
  EXPECT_EQ(popped, context);
  EXPECT_STATUS(201, cuCtxPopCurrent_v2(&popped));
}

TEST_F(ContextTest, SetReplacesTheTopAndNullPops) {
  Context primary = nullptr;
  Context own = nullptr;
  EXPECT_STATUS(0, cuDevicePrimaryCtxRetain(&primary, 0));
  EXPECT_STATUS(0, cuCtxCreate_v2(&own, 0, 0));
  EXPECT_NE(own, primary);
  Context current = nullptr;
  EXPECT_STATUS(0, cuCtxGetCurrent(&current));
  EXPECT_EQ(current, own);  // creation makes it current
  EXPECT_STATUS(0, cuCtxPushCurrent_v2(own));
  EXPECT_STATUS(0, cuCtxSetCurrent(primary));
  EXPECT_STATUS(0, cuCtxSetCurrent(nullptr));
  EXPECT_STATUS(0, cuCtxGetCurrent(&current));
  EXPECT_EQ(current, own);
  EXPECT_STATUS(0, cuCtxDestroy_v2(own));
  EXPECT_STATUS(0, cuCtxGetCurrent(&current));
  EXPECT_EQ(current, nullptr);  // a destroyed context on top is popped
}

TEST_F(ContextTest, DestroyFreesItsMemoryAndOtherThreadsSeeItGone) {
  Context own = nullptr;
  EXPECT_STATUS(0, cuCtxCreate_v2(&own, 0, 0));
  device_memory(100);
  managed_memory(100);
  void* pinned = nullptr;
  EXPECT_STATUS(0, cuMemHostAlloc(&pinned, 100, 0));
  EXPECT_STATUS(0, cuCtxPushCurrent_v2(own));  // twice on the stack: one stays
  EXPECT_STATUS(0, cuCtxDestroy_v2(own));
  EXPECT_EQ(control().live_objects(assay_model_device), 0);
  EXPECT_EQ(control().live_objects(assay_model_managed), 0);
  EXPECT_EQ(control().live_objects(assay_model_pinned), 0);
  EXPECT_EQ(control().live_objects(assay_model_context), 0);
  DevicePointer address = 0;
  EXPECT_STATUS(709, cuMemAlloc_v2(&address, 64));
  EXPECT_STATUS(709, cuCtxDestroy_v2(own));
}

TEST_F(ContextTest, PrimaryCannotBeDestroyedAndGarbageIsNone) {
  Context primary = nullptr;
  EXPECT_STATUS(0, cuDevicePrimaryCtxRetain(&primary, 0));
  EXPECT_STATUS(201, cuCtxDestroy_v2(primary));
  EXPECT_TRUE(active());
  EXPECT_STATUS(201, cuCtxPushCurrent_v2(nullptr));
  EXPECT_STATUS(201, cuCtxPushCurrent_v2(reinterpret_cast<Context>(std::uintptr_t{0x1234})));
  unsigned long long id = 0;
  EXPECT_STATUS(201, cuCtxGetId(nullptr, &id));
  EXPECT_STATUS(1, cuCtxCreate_v2(&primary, 0x300, 0));
}

TEST_F(ContextTest, StackIsBounded) {
  Context context = nullptr;
  EXPECT_STATUS(0, cuDevicePrimaryCtxRetain(&context, 0));
  int pushed = 0;
  while (driver().cuCtxPushCurrent_v2(context) == Status::success) ++pushed;
  EXPECT_EQ(pushed, 256);
  EXPECT_STATUS(2, cuCtxPushCurrent_v2(context));
}

TEST(ContextProfile, ProhibitedComputeModeGivesNoContext) {
  const ScratchFile profile("attribute.compute_mode = 2\n");
  const Environment variable(model_profile_variable, profile.path());
  in_fresh_process([] {
    EXPECT_STATUS(0, cuInit(0));
    Context context = nullptr;
    EXPECT_STATUS(999, cuDevicePrimaryCtxRetain(&context, 0));
    EXPECT_STATUS(999, cuCtxCreate_v2(&context, 0, 0));
    EXPECT_EQ(context, nullptr);
  });
}

}  // namespace
}  // namespace assay::cuda::model_test
