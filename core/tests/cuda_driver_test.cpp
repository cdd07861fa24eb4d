// The loader, on real shared libraries in every state that a host may offer. They are built from
// cuda_drivers/: the functions come from driver_functions.def, what they answer from constants.
#include "assay/cuda/driver.hpp"

#include <cstdlib>

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cuda_drivers/behaviour.hpp"

namespace assay::cuda {
namespace {

std::string library(const std::string& name) {
  return fmt::format("{}/lib{}.so", ASSAY_TEST_DRIVERS, name);
}

Result<Ref<Driver>> load(const std::string& name, LoadReport* report = nullptr) {
  return Driver::load({library(name)}, report);
}

/// What a test driver saw: the library is the loaded one, for dlopen counts.
AssayTestDriver seen_by(const std::string& name) {
  void* const handle = ::dlopen(library(name).c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto ask = reinterpret_cast<const AssayTestDriver* (*)()>(
      handle != nullptr ? ::dlsym(handle, "assay_test_driver") : nullptr);
  if (ask == nullptr) {
    ADD_FAILURE() << name << " is no test driver";
    return {};
  }
  return *ask();
}

const SymbolFacts& fact_of(const std::vector<SymbolFacts>& symbols, std::string_view symbol) {
  for (const SymbolFacts& one : symbols) {
    if (symbol == one.symbol) return one;
  }
  static const SymbolFacts none;
  ADD_FAILURE() << symbol << " is no row";
  return none;
}

TEST(CudaDriver, AMissingLibraryIsNoDriver) {
  LoadReport report;
  const auto driver = Driver::load({"/nonexistent/libcuda.so.1"}, &report);
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, ErrorCode::no_driver);
  EXPECT_NE(report.message.find("/nonexistent/libcuda.so.1"), std::string::npos);
  EXPECT_NE(describe(driver.error()).find("No such file"), std::string::npos)
      << describe(driver.error());
  EXPECT_TRUE(report.symbols.empty());
}

TEST(CudaDriver, ALibraryThatIsNoDriverIsRefusedByName) {
  LoadReport report;
  const auto driver = load("nothing", &report);
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(report.message.find("libnothing.so is no CUDA driver"), std::string::npos)
      << report.message;
  EXPECT_NE(describe(driver.error()).find("libnothing.so is no CUDA driver"), std::string::npos);
}

TEST(CudaDriver, EveryRowIsAskedAtItsPinnedVersion) {
  const AssayTestDriver before = seen_by("complete");
  LoadReport report;
  const auto driver = load("complete", &report);
  ASSERT_TRUE(driver) << describe(driver.error());
  const AssayTestDriver seen = seen_by("complete");
  EXPECT_EQ(seen.inits - before.inits, 1U);
  EXPECT_GT(seen.lookups - before.lookups, 100U);
  EXPECT_EQ(seen.lookups_unpinned, 0U);
  EXPECT_EQ(seen.lookups_no_flag, 0U);
  EXPECT_EQ(seen.lookups_too_new, 0U);
  EXPECT_TRUE(report.message.empty());
  EXPECT_EQ(report.path, library("complete"));
  EXPECT_EQ(driver.value()->path(), library("complete"));
  EXPECT_EQ(driver.value()->version(), 13000);
  EXPECT_STREQ(driver.value()->kind(), "driver");
  for (const SymbolFacts& one : driver.value()->symbols()) {
    EXPECT_TRUE(one.found) << one.symbol;
    EXPECT_STREQ(one.found_by,
                 std::string_view(one.need) == "entry" ? "dlsym" : "cuGetProcAddress_v2");
  }
  for (int i = 0; i < static_cast<int>(Feature::count); ++i) {
    EXPECT_TRUE(driver.value()->has(static_cast<Feature>(i))) << name_of(static_cast<Feature>(i));
  }
}

TEST(CudaDriver, EveryPointerIsThatOfItsExport) {
  const auto driver = load("complete");
  ASSERT_TRUE(driver);
  const abi::DriverTable& table = driver.value()->table();
  void* const handle = ::dlopen(library("complete").c_str(), RTLD_NOW | RTLD_LOCAL);
#define ASSAY_DRIVER_FUNCTION(symbol, base, version, need, parameters) \
  EXPECT_EQ(reinterpret_cast<void*>(table.symbol), ::dlsym(handle, #symbol)) << #symbol;
#include "assay/cuda/abi/driver_functions.def"
#undef ASSAY_DRIVER_FUNCTION
}

TEST(CudaDriver, AnOldDriverIsAskedByItsOwnEntryAndNotForWhatIsNewer) {
  const auto driver = load("driver_11_8");
  ASSERT_TRUE(driver) << describe(driver.error());
  const AssayTestDriver seen = seen_by("driver_11_8");
  EXPECT_EQ(seen.lookups_too_new, 0U);
  EXPECT_EQ(seen.lookups_unpinned, 0U);
  const Driver& loaded = *driver.value();
  EXPECT_EQ(loaded.version(), 11080);
  EXPECT_STREQ(fact_of(loaded.symbols(), "cuMemAlloc_v2").found_by, "cuGetProcAddress");
  EXPECT_FALSE(fact_of(loaded.symbols(), "cuGetProcAddress_v2").found);
  EXPECT_FALSE(fact_of(loaded.symbols(), "cuMemAdvise_v2").found);
  EXPECT_EQ(loaded.table().cuMemAdvise_v2, nullptr);
  for (const Feature absent : {Feature::context_id, Feature::advise_by_location,
                               Feature::location_pools, Feature::batches}) {
    EXPECT_FALSE(loaded.has(absent)) << name_of(absent);
  }
  for (const Feature present : {Feature::advise_by_ordinal, Feature::pools, Feature::virtual_memory,
                                Feature::tests, Feature::ipc, Feature::uuid}) {
    EXPECT_TRUE(loaded.has(present)) << name_of(present);
  }
}

TEST(CudaDriver, WithoutALookupFunctionTheExportsAreTaken) {
  const auto driver = load("no_lookup");
  ASSERT_TRUE(driver) << describe(driver.error());
  EXPECT_EQ(seen_by("no_lookup").lookups, 0U);
  EXPECT_STREQ(fact_of(driver.value()->symbols(), "cuMemFree_v2").found_by, "dlsym");
  EXPECT_FALSE(driver.value()->has(Feature::context_id));
  EXPECT_TRUE(driver.value()->has(Feature::advise_by_location));
}

TEST(CudaDriver, AMissingRequiredFunctionIsNamedAndCounted) {
  static_cast<void>(seen_by("lacks_required"));  // keeps what it saw: a refused library is closed
  LoadReport report;
  const auto driver = load("lacks_required", &report);
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, ErrorCode::driver_too_old);
  EXPECT_STREQ(driver.error().feature, "cuMemAllocManaged");
  EXPECT_NE(report.message.find("lacks 2 of "), std::string::npos) << report.message;
  EXPECT_NE(report.message.find("driver 13.0"), std::string::npos) << report.message;
  EXPECT_GT(seen_by("lacks_required").lookups, 0U);
  EXPECT_EQ(seen_by("lacks_required").inits, 0U);
  EXPECT_FALSE(fact_of(report.symbols, "cuEventRecord").found);
  EXPECT_TRUE(fact_of(report.symbols, "cuEventQuery").found);
}

TEST(CudaDriver, SuccessWithANullPointerIsAMissingFunction) {
  static_cast<void>(
      seen_by("null_with_success"));  // keeps what it saw: a refused library is closed
  LoadReport report;
  const auto driver = load("null_with_success", &report);
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, ErrorCode::driver_too_old);
  EXPECT_STREQ(driver.error().feature, "cuInit");
  EXPECT_EQ(seen_by("null_with_success").inits, 0U);
}

TEST(CudaDriver, AFailedLookupIsNoMissingFunction) {
  LoadReport report;
  const auto driver = load("lookup_fails", &report);
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, ErrorCode::driver_error);
  EXPECT_STREQ(driver.error().feature, "cuGetProcAddress");
  EXPECT_EQ(driver.error().native, 46);
  EXPECT_NE(report.message.find("answered 46 when asked for cuMemAlloc"), std::string::npos)
      << report.message;
}

TEST(CudaDriver, AMissingOptionalFunctionTurnsItsFeatureOffAlone) {
  const auto driver = load("lacks_one_of_virtual_memory");
  ASSERT_TRUE(driver) << describe(driver.error());
  for (int i = 0; i < static_cast<int>(Feature::count); ++i) {
    const auto feature = static_cast<Feature>(i);
    EXPECT_EQ(driver.value()->has(feature), feature != Feature::virtual_memory) << name_of(feature);
  }
}

TEST(CudaDriver, EitherAbiOfAdviceWillDoButOneMustBeThere) {
  const auto old_only = load("lacks_new_advice");
  ASSERT_TRUE(old_only) << describe(old_only.error());
  EXPECT_FALSE(old_only.value()->has(Feature::advise_by_location));
  EXPECT_TRUE(old_only.value()->has(Feature::advise_by_ordinal));
  const auto neither = load("lacks_all_advice");
  ASSERT_FALSE(neither);
  EXPECT_EQ(neither.error().code, ErrorCode::driver_too_old);
  EXPECT_STREQ(neither.error().feature, "cuMemAdvise");
}

TEST(CudaDriver, ADriverWithoutADeviceIsNoError) {
  for (const char* name : {"init_100", "no_device"}) {
    LoadReport report;
    const auto driver = load(name, &report);
    ASSERT_FALSE(driver) << name;
    EXPECT_EQ(driver.error().code, ErrorCode::no_device) << name;
    EXPECT_EQ(report.version, 13000) << name;
    EXPECT_FALSE(report.message.empty()) << name;
    EXPECT_TRUE(fact_of(report.symbols, "cuInit").found) << name;
  }
}

TEST(CudaDriver, AFailedInitGivesTheDriversNameAndWords) {
  const auto driver = load("init_803");
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, ErrorCode::driver_error);
  EXPECT_EQ(driver.error().native, 803);
  EXPECT_STREQ(driver.error().native_name, "TEST_DRIVER_MISMATCH");
  EXPECT_STREQ(driver.error().native_text, "kernel module and library differ");
  EXPECT_STREQ(driver.error().feature, "cuInit");
}

TEST(CudaDriver, TheToolkitsStubIsRecognised) {
  for (const char* name : {"stub", "init_34"}) {
    LoadReport report;
    const auto driver = load(name, &report);
    ASSERT_FALSE(driver) << name;
    EXPECT_EQ(driver.error().code, ErrorCode::driver_error) << name;
    EXPECT_EQ(driver.error().native, 34) << name;
    EXPECT_NE(report.message.find("is the toolkit's stub"), std::string::npos) << report.message;
  }
}

TEST(CudaDriver, TheRealStubOfAToolkitIsRecognised) {
  if (std::string_view(ASSAY_CUDA_STUB).empty()) GTEST_SKIP() << "no CUDA toolkit was found";
  LoadReport report;
  const auto driver = Driver::load({ASSAY_CUDA_STUB}, &report);
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().native, 34) << describe(driver.error());
  EXPECT_NE(report.message.find("is the toolkit's stub"), std::string::npos) << report.message;
}

TEST(CudaDriver, AModelOfAnotherBuildIsRefused) {
  LoadReport report;
  const auto driver = load("strange_model", &report);
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, ErrorCode::driver_error);
  EXPECT_TRUE(report.is_model);
  EXPECT_NE(report.message.find("of ABI 2"), std::string::npos) << report.message;
}

TEST(CudaDriver, ThePathGivenWinsOverTheVariable) {
  ASSERT_EQ(::setenv(Driver::path_variable, library("driver_11_8").c_str(), 1), 0);
  const auto by_variable = Driver::load({});
  const auto by_path = load("complete");
  ::unsetenv(Driver::path_variable);
  ASSERT_TRUE(by_variable && by_path);
  EXPECT_EQ(by_variable.value()->path(), library("driver_11_8"));
  EXPECT_EQ(by_path.value()->path(), library("complete"));
}

TEST(CudaDriver, TheDefaultIsNeverTheLinkStub) {
  ::unsetenv(Driver::path_variable);
  LoadReport report;
  static_cast<void>(Driver::load({}, &report));
  EXPECT_NE(report.path.find("libcuda.so."), std::string::npos) << report.path;
}

TEST(CudaDriver, AdviceTakesTheNewAbiWhereItIsThere) {
  const auto driver = load("complete");
  ASSERT_TRUE(driver);
  const abi::Location node{abi::LocationType::host_numa, 3};
  ASSERT_TRUE(driver.value()->advise(0x1000, 1, abi::Advise::set_preferred_location, node, "x"));
  EXPECT_EQ(seen_by("complete").advice_abi, 2U);
  EXPECT_EQ(seen_by("complete").advice_where, 3);
  EXPECT_EQ(seen_by("complete").advice_type, 3U);
  ASSERT_TRUE(driver.value()->prefetch(0x1000, 1, {abi::LocationType::device, 5}, nullptr, "x"));
  EXPECT_EQ(seen_by("complete").advice_abi, 2U);
  EXPECT_EQ(seen_by("complete").advice_where, 5);
  EXPECT_EQ(seen_by("complete").advice_type, 1U);
}

TEST(CudaDriver, AdviceIsTranslatedForTheOldAbi) {
  const auto driver = load("driver_11_8");
  ASSERT_TRUE(driver);
  const Driver& old = *driver.value();
  using enum abi::Advise;
  using abi::LocationType;
  const auto advise = [&](abi::Advise advice, LocationType type, int id) {
    return old.advise(0x1000, 1, advice, {type, id}, "managed");
  };
  ASSERT_TRUE(advise(set_accessed_by, LocationType::device, 4));
  EXPECT_EQ(seen_by("driver_11_8").advice_abi, 1U);
  EXPECT_EQ(seen_by("driver_11_8").advice_where, 4);
  ASSERT_TRUE(advise(set_preferred_location, LocationType::host, 9));
  EXPECT_EQ(seen_by("driver_11_8").advice_where, abi::device_cpu);
  ASSERT_TRUE(old.prefetch(0x1000, 1, {LocationType::device, 6}, nullptr, "managed"));
  EXPECT_EQ(seen_by("driver_11_8").advice_where, 6);
  ASSERT_TRUE(advise(set_read_mostly, LocationType::none, 0)) << "the location is ignored";

  for (const auto type : {LocationType::host_numa, LocationType::host_numa_current}) {
    const auto refused = advise(set_preferred_location, type, 0);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::not_supported);
    EXPECT_STREQ(refused.error().backing, "managed");
    EXPECT_EQ(old.prefetch(0x1000, 1, {type, 0}, nullptr, "managed").error().code,
              ErrorCode::not_supported);
  }
  EXPECT_EQ(advise(set_accessed_by, LocationType::none, 0).error().code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(seen_by("driver_11_8").advice_where, abi::device_cpu) << "refused calls made none";
}

TEST(CudaDriver, ErrorsAreSortedByWhatACallerCanDo) {
  const auto driver = load("complete");
  ASSERT_TRUE(driver);
  const auto code_of = [&](int status) {
    return driver.value()->error(static_cast<abi::Status>(status), "call").code;
  };
  EXPECT_EQ(code_of(2), ErrorCode::out_of_memory);
  EXPECT_EQ(code_of(801), ErrorCode::not_supported);
  for (const int status : {4, 201, 700, 709, 716, 717, 718, 719}) {
    EXPECT_EQ(code_of(status), ErrorCode::context_lost) << status;
  }
  for (const int status : {1, 3, 101, 400, 600, 800, 999}) {
    EXPECT_EQ(code_of(status), ErrorCode::driver_error) << status;
  }
  const Error unnamed = driver.value()->error(static_cast<abi::Status>(12345), "call", "managed");
  EXPECT_EQ(unnamed.native, 12345);
  EXPECT_STREQ(unnamed.native_name, "");
  EXPECT_STREQ(unnamed.backing, "managed");
}

}  // namespace
}  // namespace assay::cuda
