// Initialisation, device queries, error texts, and what happens before, beside and after.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "model_fixture.hpp"

namespace assay::cuda::model_test {
namespace {

TEST(Init, CallsBeforeItAnswerNotInitialised) {
  in_fresh_process([] {
    int count = 42;
    EXPECT_STATUS(3, cuDeviceGetCount(&count));
    EXPECT_EQ(count, 42);
    Context context = reinterpret_cast<Context>(std::uintptr_t{7});
    EXPECT_STATUS(3, cuCtxGetCurrent(&context));
    EXPECT_EQ(context, reinterpret_cast<Context>(std::uintptr_t{7}));
    DevicePointer address = 0;
    EXPECT_STATUS(3, cuMemAlloc_v2(&address, 1));
    int version = 0;
    EXPECT_STATUS(0, cuDriverGetVersion(&version));
    EXPECT_EQ(version, 13000);
    const char* name = nullptr;
    EXPECT_STATUS(0, cuGetErrorName(Status::not_initialized, &name));
    EXPECT_STREQ(name, "CUDA_ERROR_NOT_INITIALIZED");
  });
}

TEST(Init, TakesNoFlagsAndMayBeRepeated) {
  in_fresh_process([] {
    EXPECT_STATUS(1, cuInit(1));
    int count = 0;
    EXPECT_STATUS(3, cuDeviceGetCount(&count));
    EXPECT_STATUS(0, cuInit(0));
    EXPECT_STATUS(0, cuInit(0));
    EXPECT_STATUS(0, cuDeviceGetCount(&count));
    EXPECT_EQ(count, 1);
  });
}

TEST(Init, ForkedChildAnswersNotInitialised) {
  in_fresh_process([] {
    start();
    const pid_t child = fork();
    if (child == 0) {
      int count = 0;
      const bool refused = driver().cuDeviceGetCount(&count) == Status::not_initialized &&
                           driver().cuInit(0) == Status::not_initialized;
      _exit(refused ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    int count = 0;
    EXPECT_STATUS(0, cuDeviceGetCount(&count));
  });
}

TEST(Init, ChildMayUseItIfTheParentDidNot) {
  in_fresh_process([] {
    library();
    const pid_t child = fork();
    if (child == 0) _exit(driver().cuInit(0) == Status::success ? 0 : 1);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  });
}

/// Destroyed after the model's exit handler, which cuInit registers later.
struct CallsWhenDestroyed {
  bool armed = false;
  ~CallsWhenDestroyed() {
    if (!armed) return;
    int count = 0;
    const Status status = driver().cuDeviceGetCount(&count);
    _exit(status == Status::deinitialized && driver().cuInit(0) == status ? 0 : 1);
  }
};

TEST(Init, CallsInStaticDestructorsAnswerDeinitialised) {
  in_fresh_process([] {
    library();
    static CallsWhenDestroyed early;
    early.armed = true;
    start();
  });
}

TEST(Init, WithoutADeviceAnswersNoDevice) {
  const ScratchFile profile("base = h200\ndevices = 0\n");
  const Environment variable(model_profile_variable, profile.path());
  in_fresh_process([] { EXPECT_STATUS(100, cuInit(0)); });
}

TEST(Init, DeviceIsRecognisablyNoGpu) {
  in_fresh_process([] {
    EXPECT_STATUS(0, cuInit(0));
    char name[64] = {};
    EXPECT_STATUS(0, cuDeviceGetName(name, sizeof name, 0));
    EXPECT_STREQ(name, "MODEL (no GPU)");
    char cut[6] = {};
    EXPECT_STATUS(0, cuDeviceGetName(cut, sizeof cut, 0));
    EXPECT_STREQ(cut, "MODEL");
    Uuid uuid{};
    EXPECT_STATUS(0, cuDeviceGetUuid_v2(&uuid, 0));
    EXPECT_EQ(std::string(uuid.bytes, sizeof uuid.bytes), "assay-model-gpu0");
    char bus[16] = {};
    EXPECT_STATUS(0, cuDeviceGetPCIBusId(bus, sizeof bus, 0));
    EXPECT_STREQ(bus, "A55A:00:00.0");
    std::size_t total = 0;
    EXPECT_STATUS(0, cuDeviceTotalMem_v2(&total, 0));
    EXPECT_EQ(total, std::size_t{143771} << 20);
  });
}

TEST(Init, DeviceQueriesRefuseBadArguments) {
  in_fresh_process([] {
    EXPECT_STATUS(0, cuInit(0));
    Device device = 42;
    EXPECT_STATUS(101, cuDeviceGet(&device, 1));
    EXPECT_STATUS(101, cuDeviceGet(&device, -1));
    EXPECT_EQ(device, 42);
    EXPECT_STATUS(1, cuDeviceGet(nullptr, 0));
    EXPECT_STATUS(0, cuDeviceGet(&device, 0));
    EXPECT_EQ(device, 0);
    int value = 42;
    EXPECT_STATUS(101, cuDeviceGetAttribute(&value, DeviceAttribute::managed_memory, 9));
    EXPECT_STATUS(1, cuDeviceGetAttribute(&value, static_cast<DeviceAttribute>(140), 0));
    EXPECT_STATUS(1, cuDeviceGetAttribute(&value, static_cast<DeviceAttribute>(70000), 0));
    EXPECT_EQ(value, 42);
    EXPECT_STATUS(0, cuDeviceGetAttribute(&value, DeviceAttribute::managed_memory, 0));
    EXPECT_EQ(value, 1);
  });
}

TEST(Init, ErrorTextsRefuseUnknownCodes) {
  const char* text = "kept";
  EXPECT_STATUS(1, cuGetErrorName(static_cast<Status>(77777), &text));
  EXPECT_EQ(text, nullptr);
  EXPECT_STATUS(0, cuGetErrorString(Status::illegal_address, &text));
  EXPECT_STREQ(text, "an illegal memory access was encountered");
  EXPECT_STATUS(1, cuGetErrorString(Status::success, nullptr));
}

}  // namespace
}  // namespace assay::cuda::model_test
