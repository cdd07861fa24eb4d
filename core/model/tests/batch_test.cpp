// Batches of prefetch and discard.
#include <array>
#include <cstring>
#include <vector>

#include "assay/cuda/abi/kernels.hpp"
#include "stream_driver.hpp"

namespace assay::model_tests {
namespace {

constexpr Location on_device{LocationType::device, 0};
constexpr Location on_host{LocationType::host, 0};
constexpr std::size_t page = 4096;

/// A block of four pages, and a batch over its pages.
class BatchTest : public DriverTest {
 protected:
  using Sizes = std::vector<std::size_t>;
  using Locations = std::vector<Location>;

  [[nodiscard]] DevicePointer at(std::size_t index) const { return memory + index * page; }

  Status prefetch(Locations to, Sizes first, unsigned long long flags = 0) {
    return cu.cuMemPrefetchBatchAsync(addresses.data(), sizes.data(), addresses.size(), to.data(),
                                      first.data(), to.size(), flags, in);
  }
  Status discard(unsigned long long flags = 0) {
    return cu.cuMemDiscardBatchAsync(addresses.data(), sizes.data(), addresses.size(), flags, in);
  }
  Status discard_and_prefetch(Locations to, Sizes first, unsigned long long flags = 0) {
    return cu.cuMemDiscardAndPrefetchBatchAsync(addresses.data(), sizes.data(), addresses.size(),
                                                to.data(), first.data(), to.size(), flags, in);
  }
  /// One batch of each kind that prefetches to the device.
  std::array<Status, 3> all_three() {
    return {prefetch({on_device}, {0}), discard(), discard_and_prefetch({on_device}, {0})};
  }
  static std::array<Status, 3> three(Status status) { return {status, status, status}; }
  [[nodiscard]] std::uint8_t* bytes() const { return reinterpret_cast<std::uint8_t*>(memory); }
  /// Do the bytes hold one value, as the host sees them?
  [[nodiscard]] bool all_are(std::uint8_t value, std::size_t from, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) {
      if (bytes()[from + i] != value) return false;
    }
    return true;
  }
  int prefetched_to(DevicePointer address) {
    int where = 42;
    EXPECT_EQ(cu.cuMemRangeGetAttribute(&where, sizeof where,
                                        RangeAttribute::last_prefetch_location, address, page),
              Status::success);
    return where;
  }
  void read_by_copy(DevicePointer from, std::size_t count) {
    EXPECT_EQ(cu.cuMemcpyDtoHAsync_v2(pinned(4 * page), from, count, in), Status::success);
    sync(in);
  }

  const DevicePointer memory = managed(mem_attach_global, 4 * page);
  Stream in = stream();
  std::vector<DevicePointer> addresses{at(0), at(1), at(2), at(3)};
  Sizes sizes{page, page, page, page};
};

TEST_F(BatchTest, EachLocationHoldsFromItsIndexOn) {
  ASSERT_EQ(prefetch({on_device, on_host}, {0, 1}), Status::success);
  EXPECT_EQ(prefetched_to(at(0)), 0);  // as requested, before it ran
  EXPECT_EQ(control.resident_bytes(memory, 4 * page, 0), 0u);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(prefetched_to(at(i)), device_cpu) << i;
  sync(in);
  EXPECT_EQ(control.resident_bytes(at(0), page, 0), page);
  EXPECT_EQ(control.resident_bytes(at(1), 3 * page, -1), 3 * page);
  EXPECT_EQ(control.diagnosis_count(), 0u);
}

TEST_F(BatchTest, NeedsRangesAndArrays) {
  const std::vector<DevicePointer> four = addresses;
  addresses.clear();
  EXPECT_EQ(all_three(), three(Status::invalid_value));
  addresses = four;
  Location to = on_device;
  std::size_t first = 0;
  DevicePointer* no_addresses = nullptr;
  std::size_t* no_sizes = nullptr;
  DevicePointer* const a = addresses.data();
  std::size_t* const s = sizes.data();
  EXPECT_EQ(cu.cuMemDiscardBatchAsync(no_addresses, s, 4, 0, in), Status::invalid_value);
  EXPECT_EQ(cu.cuMemDiscardBatchAsync(a, no_sizes, 4, 0, in), Status::invalid_value);
  EXPECT_EQ(cu.cuMemPrefetchBatchAsync(a, s, 4, nullptr, &first, 1, 0, in), Status::invalid_value);
  EXPECT_EQ(cu.cuMemPrefetchBatchAsync(a, s, 4, &to, no_sizes, 1, 0, in), Status::invalid_value);
}

TEST_F(BatchTest, TakesNoFlags) {
  EXPECT_EQ(prefetch({on_device}, {0}, 1), Status::invalid_value);
  EXPECT_EQ(discard(1), Status::invalid_value);
  EXPECT_EQ(discard_and_prefetch({on_device}, {0}, 1ULL << 40), Status::invalid_value);
}

TEST_F(BatchTest, RefusesTheLegacyDefaultStreamByBothNames) {
  for (const Stream legacy : {Stream{}, reinterpret_cast<Stream>(std::uintptr_t{1})}) {
    in = legacy;
    EXPECT_EQ(all_three(), three(Status::invalid_value));
  }
  in = reinterpret_cast<Stream>(std::uintptr_t{0xdead0});
  EXPECT_EQ(all_three(), three(Status::invalid_handle));
  in = stream();
  ASSERT_EQ(cu.cuStreamDestroy_v2(in), Status::success);
  EXPECT_EQ(all_three(), three(Status::context_is_destroyed));
}

TEST_F(BatchTest, IndicesBeginWithNoneRiseAndStayBelowTheCount) {
  const std::vector<Sizes> bad{{1, 2}, {0, 0}, {0, 4}, {0, 2, 1}};
  for (const Sizes& first : bad) {
    const Locations to(first.size(), on_device);
    EXPECT_EQ(prefetch(to, first), Status::invalid_value);
    EXPECT_EQ(discard_and_prefetch(to, first), Status::invalid_value);
  }
  EXPECT_EQ(prefetch({}, {}), Status::invalid_value);
  EXPECT_EQ(prefetch(Locations(5, on_device), {0, 1, 2, 3, 4}), Status::invalid_value);
  EXPECT_EQ(prefetch(Locations(4, on_device), {0, 1, 2, 3}), Status::success);
}

TEST_F(BatchTest, EveryRangeIsManagedAndNothingIsDoneIfOneIsNot) {
  std::memset(bytes(), 7, 4 * page);
  const DevicePointer plain = device(page);
  for (const DevicePointer bad : {plain, DevicePointer{0}, at(3) + 1}) {
    addresses[3] = bad;
    EXPECT_EQ(all_three(), three(Status::invalid_value));
  }
  addresses[3] = at(3);
  sizes[3] = 0;
  EXPECT_EQ(all_three(), three(Status::invalid_value));
  sync(in);
  EXPECT_EQ(prefetched_to(at(0)), device_invalid);
  EXPECT_TRUE(all_are(7, 0, 4 * page));
}

TEST_F(BatchTest, RefusesLocationsThatAreNotThere) {
  EXPECT_EQ(prefetch({{LocationType::device, 7}}, {0}), Status::invalid_device);
  EXPECT_EQ(prefetch({on_device, {LocationType::none, 0}}, {0, 1}), Status::invalid_value);
  EXPECT_EQ(discard_and_prefetch({{LocationType::device, -1}}, {0}), Status::invalid_device);
}

TEST_F(BatchTest, DiscardScramblesWholePagesWhenItRuns) {
  std::memset(bytes(), 7, 4 * page);
  addresses = {at(0) + 8};
  sizes = {3 * page};
  ASSERT_EQ(discard(), Status::success);
  EXPECT_TRUE(all_are(7, 0, 4 * page));  // not yet
  sync(in);
  EXPECT_TRUE(all_are(7, 0, page));
  EXPECT_TRUE(all_are(7, 3 * page, page));
  for (std::size_t i = 1; i < 3; ++i) EXPECT_FALSE(all_are(7, i * page, page)) << i;
  EXPECT_FALSE(all_are(bytes()[page], page, 2 * page));
  EXPECT_EQ(control.diagnosis_count(), 0u);
}

TEST_F(BatchTest, AReadOfDiscardedBytesNamesTheDiscard) {
  ASSERT_EQ(discard(), Status::success);
  read_by_copy(at(1), 64);
  ASSERT_EQ(control.diagnosis_count(), 1u);
  const std::string text = control.diagnosis(0);
  EXPECT_NE(text.find("discarded_read: cuMemcpyDtoHAsync_v2 (call "), std::string::npos) << text;
  EXPECT_NE(text.find("discarded by cuMemDiscardBatchAsync (call "), std::string::npos) << text;
}

TEST_F(BatchTest, AKernelThatReadsDiscardedBytesIsDiagnosed) {
  Module module = nullptr;
  Function checksum = nullptr;
  ASSERT_EQ(cu.cuModuleLoadData(&module, kernel_ptx), Status::success);
  ASSERT_EQ(cu.cuModuleGetFunction(&checksum, module, ChecksumParameters::entry), Status::success);
  ChecksumParameters parameters{memory, 4 * page / 8, device(8)};
  void* arguments[] = {&parameters.address, &parameters.words, &parameters.result};
  ASSERT_EQ(discard(), Status::success);
  ASSERT_EQ(cu.cuLaunchKernel(checksum, 1, 1, 1, 1, 1, 1, 0, in, arguments, nullptr),
            Status::success);
  sync(in);
  EXPECT_TRUE(diagnosed("discarded_read: cuLaunchKernel (call "));
}

TEST_F(BatchTest, ADeviceWriteEndsItForWhatItWrote) {
  ASSERT_EQ(discard(), Status::success);
  ASSERT_EQ(cu.cuMemsetD8Async(at(1), 5, page, in), Status::success);
  read_by_copy(at(1), page);
  EXPECT_EQ(control.diagnosis_count(), 0u);
  read_by_copy(at(1), page + 8);
  EXPECT_EQ(control.diagnosis_count(), 1u);
  read_by_copy(at(0), page);
  EXPECT_EQ(control.diagnosis_count(), 2u);
}

TEST_F(BatchTest, AHostWriteEndsIt) {
  ASSERT_EQ(discard(), Status::success);
  sync(in);
  std::memset(bytes(), 9, 2 * page);
  read_by_copy(at(0), 2 * page);
  EXPECT_EQ(control.diagnosis_count(), 0u);
  read_by_copy(at(2), page);
  EXPECT_EQ(control.diagnosis_count(), 1u);
}

TEST_F(BatchTest, APrefetchEndsIt) {
  ASSERT_EQ(discard(), Status::success);
  ASSERT_EQ(cu.cuMemPrefetchAsync(at(0), page, 0, in), Status::success);
  read_by_copy(at(0), page);
  EXPECT_EQ(control.diagnosis_count(), 0u);
  ASSERT_EQ(prefetch({on_host}, {0}), Status::success);
  read_by_copy(at(0), 4 * page);
  EXPECT_EQ(control.diagnosis_count(), 0u);
  ASSERT_EQ(discard_and_prefetch({on_device}, {0}), Status::success);
  read_by_copy(at(0), 4 * page);
  EXPECT_EQ(control.diagnosis_count(), 0u);
  EXPECT_EQ(control.resident_bytes(memory, 4 * page, 0), 4 * page);
}

TEST_F(BatchTest, FreedMemoryIsForgottenAndLateDiscardsFault) {
  ASSERT_EQ(discard(), Status::success);
  sync(in);
  ASSERT_EQ(cu.cuMemFree_v2(memory), Status::success);
  EXPECT_EQ(control.diagnosis_count(), 0u);
  EXPECT_EQ(discard(), Status::invalid_value);
}

TEST(BatchProfile, NeedsConcurrentAccessOnEveryDevice) {
  ASSAY_EXPECT_CHILD(
      [] {
        play("no_concurrent_managed_access");
        Driver driver;
        DevicePointer memory = driver.managed();
        std::size_t bytes = Driver::size;
        EXPECT_EQ(driver.cu.cuMemDiscardBatchAsync(&memory, &bytes, 1, 0, driver.stream()),
                  Status::not_supported);
        leave();
      },
      0);
}

TEST(BatchProfile, WorkOnFreedMemoryIsAFault) {
  ASSAY_EXPECT_CHILD(
      [] {
        play("base = h200\nfree_waits = 0");
        Driver driver;
        DevicePointer memory = driver.managed();
        std::size_t bytes = Driver::size;
        const Stream in = driver.stream();
        EXPECT_EQ(driver.cu.cuMemDiscardBatchAsync(&memory, &bytes, 1, 0, in), Status::success);
        EXPECT_EQ(driver.cu.cuMemFree_v2(memory), Status::success);
        EXPECT_TRUE(diagnosed("unfinished cuMemDiscardBatchAsync"));
        EXPECT_EQ(driver.cu.cuStreamSynchronize(in), Status::illegal_address);
        EXPECT_TRUE(diagnosed("access_after_free: cuMemDiscardBatchAsync"));
        leave();
      },
      0);
}

}  // namespace
}  // namespace assay::model_tests
