// Fault plans, profiles from files, strictness, poisoning, the report, the rules.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "model_fixture.hpp"

namespace assay::cuda::model_test {
namespace {

struct FaultTest : testing::Test {
  void SetUp() override {
    control().set_faults("");
    start();
  }
  void TearDown() override { control().set_faults(nullptr); }
};

unsigned count_call() {
  int count = 0;
  return static_cast<unsigned>(driver().cuDeviceGetCount(&count));
}

TEST_F(FaultTest, NthCallOfAFunctionFailsOnce) {
  ASSERT_EQ(control().set_faults("cuDeviceGetCount:3:999"), 0);
  EXPECT_EQ(count_call(), 0U);
  EXPECT_STATUS(0, cuInit(0));  // other functions do not count
  EXPECT_EQ(count_call(), 0U);
  EXPECT_EQ(count_call(), 999U);
  EXPECT_EQ(count_call(), 0U);
  EXPECT_EQ(control().faults_injected(), 1);
  EXPECT_EQ(control().calls("cuDeviceGetCount"), 4);
  EXPECT_EQ(control().calls("*"), 5);
  EXPECT_EQ(control().calls("cuNoSuchFunction"), 0);
}

TEST_F(FaultTest, EveryNthOfAnyFunction) {
  ASSERT_EQ(control().set_faults("*:every:2:2,cuInit:1:4"), 0);
  EXPECT_EQ(count_call(), 0U);
  EXPECT_EQ(count_call(), 2U);
  EXPECT_STATUS(4, cuInit(0));
  EXPECT_EQ(count_call(), 2U);
  EXPECT_EQ(control().faults_injected(), 3);
}

TEST_F(FaultTest, StickyFaultPoisonsUntilThePlanIsReplaced) {
  ASSERT_EQ(control().set_faults("cuMemAlloc_v2:1:700:sticky"), 0);
  DevicePointer address = 0;
  EXPECT_STATUS(700, cuMemAlloc_v2(&address, 64));
  EXPECT_STATUS(700, cuMemAlloc_v2(&address, 64));
  EXPECT_STATUS(700, cuCtxSynchronize());
  std::thread([] {
    Context context = nullptr;
    EXPECT_STATUS(0, cuCtxGetCurrent(&context));
    EXPECT_STATUS(700, cuCtxSynchronize());  // before "no current context"
  }).join();
  ASSERT_EQ(control().set_faults(""), 0);
  EXPECT_STATUS(0, cuMemAlloc_v2(&address, 64));
  EXPECT_STATUS(0, cuMemFree_v2(address));
}

TEST_F(FaultTest, InjectedCallHasNoEffect) {
  const DevicePointer address = device_memory(64);
  ASSERT_EQ(control().set_faults("cuMemFree_v2:1:999,cuMemAlloc_v2:1:2"), 0);
  DevicePointer other = 42;
  EXPECT_STATUS(2, cuMemAlloc_v2(&other, 64));
  EXPECT_EQ(other, 42U);
  EXPECT_STATUS(999, cuMemFree_v2(address));
  EXPECT_EQ(control().live_objects(assay_model_device), 1);
  EXPECT_STATUS(0, cuMemFree_v2(address));
  EXPECT_EQ(control().live_objects(assay_model_device), 0);
}

TEST_F(FaultTest, BadPlansChangeNothing) {
  ASSERT_EQ(control().set_faults("cuDeviceGetCount:2:999"), 0);
  EXPECT_EQ(count_call(), 0U);
  for (const char* plan : {"cuNoSuch:1:2", "cuInit", "cuInit:0:2", "cuInit:1:0", "cuInit:1:2:soft",
                           "cuInit:1:2,", "cuInit:every:2", "cuInit:x:2", "cuInit:1:2 ",
                           "cuInit:1:1000", "cuInit:-1:2", "sticky", ":", ","}) {
    EXPECT_EQ(control().set_faults(plan), 1) << plan;
  }
  EXPECT_EQ(count_call(), 999U);
}

TEST(FaultVariable, IsReadAtLoad) {
  const Environment variable(model_faults_variable, "cuDeviceGetCount:2:46");
  in_fresh_process([] {
    EXPECT_STATUS(0, cuInit(0));
    EXPECT_EQ(count_call(), 0U);
    EXPECT_EQ(count_call(), 46U);
  });
}

TEST(FaultVariable, ThatCannotBeReadRefusesCuInit) {
  const Environment variable(model_faults_variable, "cuInit:once:46");
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::exit(static_cast<int>(driver().cuInit(0) == Status::unknown)),
              testing::ExitedWithCode(1), "ASSAY_MODEL_FAULTS: 'cuInit:once:46' is no fault plan");
}

struct BadProfile {
  const char* text;
  const char* complaint;
};

TEST(ProfileFile, NamesTheKeyThatItCannotRead) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const BadProfile& bad : {
           BadProfile{"driver_version = twelve\n", ":1: key 'driver_version' cannot be 'twelve'"},
           BadProfile{"\n# fine\ncolour = red\n", ":3: no key 'colour'"},
           BadProfile{"devices = 9\n", ":1: key 'devices' cannot be '9'"},
           BadProfile{"devices\n", ":1: 'devices' is not `key = value`"},
           BadProfile{"free_waits = 2\n", ":1: key 'free_waits' cannot be '2'"},
           BadProfile{"attribute.nothing = 1\n", ":1: no key 'attribute.nothing'"},
           BadProfile{"attribute.89 = x\n", ":1: key 'attribute.89' cannot be 'x'"},
           BadProfile{"base = h100\n", ":1: key 'base' cannot be 'h100'"},
           BadProfile{"seed = 1\ndevices = 1\nseed = 2\n", ":3: key 'seed' was set in line 1"},
           BadProfile{"attribute.83 = 1\nattribute.managed_memory = 1\n",
                      ":2: key 'attribute.managed_memory' was set in line 1"},
           BadProfile{"seed = 1\nbase = h200\n", ":2: 'base' must come before"},
           BadProfile{"base = h200\nbase = h200\n", ":2: key 'base' was set in line 1"},
       }) {
    const ScratchFile file(bad.text);
    const Environment variable(model_profile_variable, file.path());
    EXPECT_EXIT(std::exit(static_cast<int>(driver().cuInit(0) == Status::unknown)),
                testing::ExitedWithCode(1), bad.complaint)
        << bad.text;
  }
  const Environment variable(model_profile_variable, "h201");
  EXPECT_EXIT(std::exit(static_cast<int>(driver().cuInit(0) == Status::unknown)),
              testing::ExitedWithCode(1), "no readable file 'h201'; the profiles are h200");
}

/// Does cuInit answer 999, and do its words say why, on standard error and by cuGetErrorString?
void expect_refused(const std::string& why) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const char* text = nullptr;
        const bool refused = driver().cuInit(0) == Status::unknown &&
                             driver().cuGetErrorString(Status::unknown, &text) == Status::success;
        std::exit(refused && contains(text, why) ? 0 : 1);
      },
      testing::ExitedWithCode(0), why);
}

TEST(ProfileFile, IsARegularFileOfModestSize) {
  {
    const Environment variable(model_profile_variable, "/dev/zero");
    expect_refused("ASSAY_MODEL_PROFILE: '/dev/zero' is no regular file");
  }
  {
    const ScratchFile place;
    const std::string pipe = place.path() + ".pipe";
    EXPECT_TRUE(mkfifo(pipe.c_str(), 0600) == 0 || errno == EEXIST);
    const Environment variable(model_profile_variable, pipe);
    expect_refused("is no regular file");
    std::remove(pipe.c_str());
  }
  const ScratchFile large(std::string(65537, '#'));
  const Environment too_large(model_profile_variable, large.path());
  expect_refused("is larger than 65536 bytes");
  const ScratchFile largest(std::string(65536, '#'));
  const Environment fits(model_profile_variable, largest.path());
  in_fresh_process([] { EXPECT_STATUS(0, cuInit(0)); });
}

TEST(Configuration, TheReasonIsTheTextOf999WhileItIsWrong) {
  {
    const Environment variable(model_profile_variable, "h201");
    expect_refused("ASSAY_MODEL_PROFILE: no profile and no readable file 'h201'");
  }
  {
    const Environment variable(model_faults_variable, "garbage");
    expect_refused("ASSAY_MODEL_FAULTS: 'garbage' is no fault plan");
  }
  for (const char* name : {model_strict_variable, model_eager_variable}) {
    const Environment variable(name, "yes");
    expect_refused(std::string(name) + ": 'yes' is neither 0 nor 1");
  }
  const Environment off(model_strict_variable, "0");
  in_fresh_process([] {
    EXPECT_STATUS(0, cuInit(0));
    const char* text = nullptr;
    EXPECT_STATUS(0, cuGetErrorString(Status::unknown, &text));
    EXPECT_STREQ(text, "unknown error");
  });
}

TEST(ProfileFile, ChangesWhatItNames) {
  const ScratchFile file(
      "base = driver_11_8   # then\n"
      "capacity_bytes = 1048576\n"
      "attribute.can_map_host_memory = 0\n"
      "attribute.131 = 3\n");
  const Environment variable(model_profile_variable, file.path());
  in_fresh_process([] {
    start();
    int value = 0;
    EXPECT_STATUS(0, cuDriverGetVersion(&value));
    EXPECT_EQ(value, 11080);
    EXPECT_STATUS(0, cuDeviceGetAttribute(&value, DeviceAttribute::can_map_host_memory, 0));
    EXPECT_EQ(value, 0);
    EXPECT_STATUS(1, cuDeviceGetAttribute(&value, DeviceAttribute::numa_id, 0));  // newer
    std::size_t total = 0;
    EXPECT_STATUS(0, cuDeviceTotalMem_v2(&total, 0));
    EXPECT_EQ(total, 1048576U);
    EXPECT_TRUE(contains(control().profile(), "assay-model-")) << control().profile();
  });
}

TEST(ProfileFile, NamedProfilesSayTheirName) {
  for (const char* name : {"h200", "no_concurrent_managed_access", "driver_11_8"}) {
    const Environment variable(model_profile_variable, name);
    in_fresh_process([name] { EXPECT_STREQ(control().profile(), name); });
  }
}

TEST(Strict, DiagnosisAborts) {
  const Environment variable(model_strict_variable, "1");
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::signal(SIGABRT, SIG_DFL);
        start();
        static_cast<void>(driver().cuMemFree_v2(64));
        std::exit(0);
      },
      testing::KilledBySignal(SIGABRT), "free_unknown: cuMemFree_v2");
}

TEST(Poison, AnswersEverywhereUntilLifted) {
  start();
  control().poison(719);
  DevicePointer address = 0;
  EXPECT_STATUS(719, cuMemAlloc_v2(&address, 64));
  EXPECT_EQ(count_call(), 0U);  // needs no context
  EXPECT_STATUS(719, cuMemAdvise(64, 64, Advise::set_read_mostly, 0));
  control().poison(0);
  EXPECT_STATUS(0, cuMemAlloc_v2(&address, 64));
  EXPECT_STATUS(0, cuMemFree_v2(address));
}

TEST(Report, NamesWhatIsLiveAndWhatWentWrong) {
  const ScratchFile file;
  const Environment variable(model_report_variable, file.path());
  in_fresh_process([] {
    start();
    device_memory(12345);
    EXPECT_STATUS(1, cuMemFree_v2(64));
    Event event = nullptr;
    EXPECT_STATUS(0, cuEventCreate(&event, 0));
  });
  const std::string text = file.text();
  EXPECT_TRUE(contains(text, "assay model report\nprofile h200, driver 13000\n")) << text;
  EXPECT_TRUE(contains(text, "\ndevice objects 1, bytes 12345\n")) << text;
  EXPECT_TRUE(contains(text, "\nevent objects 1, bytes 0\n")) << text;
  EXPECT_TRUE(contains(text, "\nlive device memory 0x")) << text;
  EXPECT_TRUE(contains(text, " + 12345 bytes, made by cuMemAlloc_v2 (call ")) << text;
  EXPECT_TRUE(contains(text, "\ndiagnosis free_unknown: cuMemFree_v2 (call ")) << text;
  EXPECT_TRUE(contains(text, "\ncalls cuMemAlloc_v2 1\n")) << text;
  EXPECT_TRUE(contains(text, "\nrule free_unknown 1\n")) << text;
}

TEST(Report, IsWrittenToADescriptorOnDemand) {
  start();
  const ScratchFile file;
  const int fd = open(file.path().c_str(), O_WRONLY | O_CLOEXEC);
  control().report(fd);
  close(fd);
  EXPECT_TRUE(contains(file.text(), "context objects 1, bytes 0\n")) << file.text();
}

TEST(Report, ThatCannotBeWrittenIsMissedAloud) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const char* path : {"/dev/full", "/nonexistent/report"}) {
    const Environment variable(model_report_variable, path);
    EXPECT_EXIT(
        {
          driver().cuInit(0);
          std::exit(0);
        },
        testing::ExitedWithCode(0),
        std::string("ASSAY_MODEL_REPORT: the report cannot be written to ") + path);
  }
}

TEST(Report, OfAForkedChildIsNotWritten) {
  const ScratchFile file;
  const Environment variable(model_report_variable, file.path());
  in_fresh_process([] {
    start();
    if (fork() == 0) std::exit(0);
  });
  const std::string text = file.text();
  EXPECT_EQ(text.find("assay model report"), text.rfind("assay model report")) << text;
}

TEST(Rules, EachHasASource) {
  const std::string text = control().rules();
  EXPECT_TRUE(contains(text, "free_twice [hip] ")) << text;
  std::size_t lines = 0;
  std::size_t sourced = 0;
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1, ++lines) {
    const std::string line = text.substr(at, text.find('\n', at) - at);
    for (const char* source :
         {" [hdr] ", " [doc] ", " [uvm] ", " [hip] ", " [lup] ", " [iss] ", " [model] ", " [?] "}) {
      if (contains(line, source)) ++sourced;
    }
  }
  EXPECT_GT(lines, 60U);
  EXPECT_EQ(sourced, lines);
}

TEST(Diagnoses, AreForgottenOnRequest) {
  start();
  EXPECT_STATUS(1, cuMemFree_v2(64));
  EXPECT_GT(control().diagnosis_count(), 0);
  EXPECT_EQ(control().diagnosis(control().diagnosis_count()), nullptr);
  control().forget_diagnoses();
  EXPECT_EQ(control().diagnosis_count(), 0);
}

}  // namespace
}  // namespace assay::cuda::model_test
