// The profiles by name: a driver of 12.2, two devices, little memory.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <set>
#include <string>

#include "stream_driver.hpp"

namespace assay::model_tests {
namespace {

/// Runs `body` in a process of its own, under the profile.
void under(const char* profile, const std::function<void()>& body) {
  ASSAY_EXPECT_CHILD(
      [&] {
        play(profile);
        EXPECT_STREQ(model().control->profile(), profile);
        body();
        leave();
      },
      0);
}

struct Row {
  const char* symbol;
  const char* base;
  int version;
  bool found;  ///< by the loader
};

/// The table's rows, but for those of what the model has under no profile: IPC.
std::vector<Row> rows() {
  std::vector<Row> all;
#define ASSAY_DRIVER_FUNCTION(symbol, base, version, need, parameters)      \
  if (std::string_view(#need) != "ipc") {                                   \
    all.push_back({#symbol, #base, version, model().cu.symbol != nullptr}); \
  }
#include "assay/cuda/abi/driver_functions.def"
#undef ASSAY_DRIVER_FUNCTION
  return all;
}

void expect_symbols_of(int driver) {
  int version = 0;
  EXPECT_EQ(model().cu.cuDriverGetVersion(&version), Status::success);
  EXPECT_EQ(version, driver);
  for (const Row& row : rows()) EXPECT_EQ(row.found, row.version <= driver) << row.symbol;
}

int attribute(DeviceAttribute which, Device device = 0) {
  int value = -42;
  const Status status = model().cu.cuDeviceGetAttribute(&value, which, device);
  return status == Status::success ? value : -static_cast<int>(status);
}

TEST(Profiles, SymbolsAreThoseOfTheDriversVersion) {
  under("driver_11_8", [] { expect_symbols_of(11080); });
  under("driver_12_2", [] { expect_symbols_of(12020); });
  under("h200", [] { expect_symbols_of(13000); });
}

TEST(Profiles, Driver122HasLocationsAndNothingOf13) {
  under("driver_12_2", [] {
    Driver d;
    ASSERT_NE(d.cu.cuMemAdvise_v2, nullptr);
    const Location host{LocationType::host, 0};
    const DevicePointer managed = d.managed();
    EXPECT_EQ(d.cu.cuMemAdvise_v2(managed, Driver::size, Advise::set_preferred_location, host),
              Status::success);
    int type = 0;
    EXPECT_EQ(d.cu.cuMemRangeGetAttribute(&type, sizeof type,
                                          RangeAttribute::preferred_location_type, managed, 1),
              Status::success);
    EXPECT_EQ(type, static_cast<int>(LocationType::host));
    void* address = nullptr;
    ProcAddressResult found{};
    EXPECT_EQ(d.cu.cuGetProcAddress_v2("cuMemDiscardBatchAsync", &address, 12020,
                                       proc_address_legacy_stream, &found),
              Status::success);
    EXPECT_EQ(address, nullptr);
    EXPECT_EQ(d.cu.cuGetProcAddress_v2("cuMemDiscardBatchAsync", &address, 13000,
                                       proc_address_legacy_stream, &found),
              Status::invalid_value);
  });
}

TEST(Profiles, AttributesAreThoseOfTheDriversVersion) {
  under("driver_12_2", [] {
    ASSERT_EQ(model().cu.cuInit(0), Status::success);
    EXPECT_EQ(attribute(DeviceAttribute::concurrent_managed_access), 1);
    EXPECT_EQ(attribute(static_cast<DeviceAttribute>(134)), 0);   // HOST_NUMA_ID, 12.2
    EXPECT_EQ(attribute(static_cast<DeviceAttribute>(141)), -1);  // host-NUMA VMM, 12.6
    EXPECT_EQ(attribute(static_cast<DeviceAttribute>(145)), -1);  // host VMM, 13.0
  });
  under("driver_11_8", [] {
    ASSERT_EQ(model().cu.cuInit(0), Status::success);
    EXPECT_EQ(attribute(static_cast<DeviceAttribute>(134)), -1);
  });
}

/// A context on each of two devices.
struct TwoDevices : Driver {
  TwoDevices() { EXPECT_EQ(cu.cuCtxCreate_v2(&second, 0, 1), Status::success); }
  DevicePointer on(Context which) {
    EXPECT_EQ(cu.cuCtxSetCurrent(which), Status::success);
    return device();
  }
  Context second = nullptr;
};

TEST(Profiles, TwoDevicesCopyToEachOther) {
  under("two_devices", [] {
    TwoDevices d;
    const DevicePointer here = d.on(d.context);
    const DevicePointer there = d.on(d.second);
    Device device = -1;
    EXPECT_EQ(d.cu.cuPointerGetAttribute(&device, PointerAttribute::device_ordinal, here),
              Status::success);
    EXPECT_EQ(device, 0);
    EXPECT_EQ(d.cu.cuPointerGetAttribute(&device, PointerAttribute::device_ordinal, there),
              Status::success);
    EXPECT_EQ(device, 1);
    EXPECT_EQ(d.cu.cuMemsetD8_v2(there, 9, Driver::size), Status::success);
    EXPECT_EQ(d.cu.cuMemcpyDtoD_v2(here, there, Driver::size), Status::success);
    EXPECT_EQ(d.bytes_at(here), Driver::filled(9));
    const Stream in = d.stream();
    EXPECT_EQ(d.cu.cuMemsetD8Async(there, 3, Driver::size, in), Status::success);
    EXPECT_EQ(d.cu.cuMemcpyAsync(here, there, Driver::size, in), Status::success);
    d.sync(in);
    EXPECT_EQ(d.bytes_at(here), Driver::filled(3));
    EXPECT_EQ(d.control.diagnosis_count(), 0u);
  });
}

TEST(Profiles, EventsOrderStreamsOfTwoDevices) {
  under("two_devices", [] {
    TwoDevices d;
    const DevicePointer here = d.on(d.context);
    const Stream first = d.stream();
    const Event end = d.event();
    EXPECT_EQ(d.cu.cuMemsetD8Async(here, 5, Driver::size, first), Status::success);
    EXPECT_EQ(d.cu.cuEventRecord(end, first), Status::success);
    EXPECT_EQ(d.cu.cuCtxSetCurrent(d.second), Status::success);
    const Stream other = d.stream();
    EXPECT_EQ(d.cu.cuEventRecord(end, other), Status::invalid_handle);  // of the other context
    EXPECT_TRUE(diagnosed("event_other_context: cuEventRecord (call "));
    EXPECT_EQ(d.cu.cuStreamWaitEvent(other, end, 0), Status::success);
    std::uint8_t* const target = d.pinned();
    EXPECT_EQ(d.cu.cuMemcpyDtoHAsync_v2(target, here, Driver::size, other), Status::success);
    d.sync(other);
    EXPECT_EQ(target[Driver::size - 1], 5);
  });
}

TEST(Profiles, EachDeviceIsALocationByItsOrdinal) {
  under("two_devices", [] {
    TwoDevices d;
    const DevicePointer managed = d.managed(mem_attach_global, 2 * Driver::size);
    const Stream in = d.stream();
    for (const Device device : {0, 1}) {
      const DevicePointer at = managed + static_cast<std::size_t>(device) * Driver::size;
      const Location where{LocationType::device, device};
      EXPECT_EQ(d.cu.cuMemPrefetchAsync_v2(at, Driver::size, where, 0, in), Status::success);
      d.sync(in);
      EXPECT_EQ(d.control.resident_bytes(at, Driver::size, device), Driver::size);
      int shown = 42;
      EXPECT_EQ(d.cu.cuMemRangeGetAttribute(&shown, sizeof shown,
                                            RangeAttribute::last_prefetch_location_id, at, 1),
                Status::success);
      EXPECT_EQ(shown, device);
    }
    EXPECT_EQ(d.control.resident_bytes(managed, 2 * Driver::size, 0), Driver::size);
    EXPECT_EQ(d.cu.cuMemPrefetchAsync_v2(managed, 1, {LocationType::device, 2}, 0, in),
              Status::invalid_device);
  });
}

TEST(Profiles, SmallCapacityIsUsedUpAndGivenBack) {
  under("small_capacity", [] {
    Driver d;
    constexpr std::size_t mib = std::size_t{1} << 20;
    std::size_t free = 0;
    std::size_t total = 0;
    EXPECT_EQ(d.cu.cuMemGetInfo_v2(&free, &total), Status::success);
    EXPECT_EQ(total, 96 * mib);
    EXPECT_EQ(free, 96 * mib);
    const DevicePointer most = d.device(64 * mib);
    DevicePointer more = 0;
    EXPECT_EQ(d.cu.cuMemAlloc_v2(&more, 33 * mib), Status::out_of_memory);
    EXPECT_EQ(d.cu.cuMemAllocManaged(&more, 33 * mib, mem_attach_global), Status::out_of_memory);
    EXPECT_EQ(more, 0u);
    d.managed(mem_attach_global, 32 * mib);
    EXPECT_EQ(d.cu.cuMemAlloc_v2(&more, 1), Status::out_of_memory);
    EXPECT_EQ(d.cu.cuMemFree_v2(most), Status::success);
    EXPECT_EQ(d.cu.cuMemAlloc_v2(&more, 64 * mib), Status::success);
    void* pinned = nullptr;
    EXPECT_EQ(d.cu.cuMemHostAlloc(&pinned, 65 * mib, 0), Status::out_of_memory);
    EXPECT_EQ(d.cu.cuMemHostAlloc(&pinned, 64 * mib, 0), Status::success);
    EXPECT_EQ(d.control.diagnosis_count(), 0u);
  });
}

TEST(Profiles, CapacityIsEachDevicesOwn) {
  under("two_devices", [] {
    TwoDevices d;
    d.control.set_capacity(Driver::size);
    const DevicePointer here = d.on(d.context);
    d.on(d.second);  // its own
    DevicePointer more = 0;
    EXPECT_EQ(d.cu.cuMemAlloc_v2(&more, 1), Status::out_of_memory);
    EXPECT_EQ(d.cu.cuMemFree_v2(here), Status::success);  // the first device's: no help here
    EXPECT_EQ(d.cu.cuMemAlloc_v2(&more, 1), Status::out_of_memory);
    EXPECT_EQ(d.cu.cuCtxSetCurrent(d.context), Status::success);
    EXPECT_EQ(d.cu.cuMemAlloc_v2(&more, Driver::size), Status::success);
  });
}

template <class... Parameters>
Status call_with_zeros(Status (*function)(Parameters...)) {
  return function(Parameters{}...);
}

/// Calls every function of the table with zeros. Returns the first that answers something else.
std::string first_that_answers_otherwise(Status expected, bool also_init) {
  const std::set<std::string> anytime{"cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString",
                                      "cuGetProcAddress", "cuGetProcAddress_v2"};
  std::string other;
#define ASSAY_DRIVER_FUNCTION(symbol, base, version, need, parameters)               \
  if (other.empty() && model().cu.symbol != nullptr && !anytime.contains(#symbol) && \
      (also_init || std::string_view(#symbol) != "cuInit")) {                        \
    if (call_with_zeros(model().cu.symbol) != expected) other = #symbol;             \
  }
#include "assay/cuda/abi/driver_functions.def"
#undef ASSAY_DRIVER_FUNCTION
  return other;
}

TEST(EveryFunction, AnswersNotInitialisedBeforeInit) {
  under("h200",
        [] { EXPECT_EQ(first_that_answers_otherwise(Status::not_initialized, false), ""); });
}

TEST(EveryFunction, AnswersNotInitialisedInAForkedChild) {
  under("h200", [] {
    const Driver d;
    const pid_t child = fork();
    if (child == 0) {
      const std::string other = first_that_answers_otherwise(Status::not_initialized, true);
      _exit(other.empty() ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  });
}

struct CallsLate {
  bool armed = false;
  ~CallsLate() {
    if (!armed) return;
    const std::string other = first_that_answers_otherwise(Status::deinitialized, true);
    std::fprintf(stderr, "answers otherwise: '%s'\n", other.c_str());
    _exit(other.empty() ? 7 : 1);
  }
};

TEST(EveryFunction, AnswersDeinitialisedWhileTheProcessEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        static_cast<void>(model());
        static CallsLate late;
        late.armed = true;
        const Driver d;
        std::exit(1);
      },
      testing::ExitedWithCode(7), "answers otherwise: ''");
}

}  // namespace
}  // namespace assay::model_tests
