// Advice and prefetch: what is refused, what reads back, and that residency is another matter.
#include <unistd.h>

#include <array>
#include <cstring>

#include "model_fixture.hpp"

namespace assay::cuda::model_test {
namespace {

constexpr Location on_device{LocationType::device, 0};
constexpr Location on_host{LocationType::host, 0};

std::size_t page() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

struct AdviceTest : testing::Test {
  void SetUp() override {
    start();
    control().forget_diagnoses();
    memory = managed_memory(8 * page());
  }
  void TearDown() override {
    if (memory != 0) EXPECT_STATUS(0, cuMemFree_v2(memory));
  }
  [[nodiscard]] DevicePointer at(std::size_t pages) const { return memory + pages * page(); }

  DevicePointer memory = 0;
};

int attribute(RangeAttribute which, DevicePointer address, std::size_t size) {
  int value = 12345;
  EXPECT_STATUS(0, cuMemRangeGetAttribute(&value, sizeof value, which, address, size));
  return value;
}

TEST_F(AdviceTest, ReadMostlyReadsBackOnlyWhereEveryPageHasIt) {
  constexpr auto which = RangeAttribute::read_mostly;
  EXPECT_EQ(attribute(which, memory, 8 * page()), 0);
  EXPECT_STATUS(0, cuMemAdvise_v2(memory, 4 * page(), Advise::set_read_mostly, on_device));
  EXPECT_EQ(attribute(which, memory, 8 * page()), 0);
  EXPECT_EQ(attribute(which, memory, 4 * page()), 1);
  EXPECT_EQ(attribute(which, at(4), 4 * page()), 0);
  EXPECT_STATUS(0, cuMemAdvise_v2(memory, 8 * page(), Advise::unset_read_mostly, on_device));
  EXPECT_EQ(attribute(which, memory, 1), 0);
}

TEST_F(AdviceTest, RangesAreRoundedOutwardToPages) {
  constexpr auto which = RangeAttribute::read_mostly;
  EXPECT_STATUS(0, cuMemAdvise_v2(at(1) - 1, 2, Advise::set_read_mostly, on_device));
  EXPECT_EQ(attribute(which, memory, 2 * page()), 1);
  EXPECT_EQ(attribute(which, at(2), 1), 0);
}

TEST_F(AdviceTest, PreferredLocationReadsBackByOrdinalAndByType) {
  EXPECT_EQ(attribute(RangeAttribute::preferred_location, memory, 1), device_invalid);
  EXPECT_EQ(attribute(RangeAttribute::preferred_location_type, memory, 1), 0);
  EXPECT_STATUS(0, cuMemAdvise_v2(memory, 4 * page(), Advise::set_preferred_location, on_device));
  EXPECT_STATUS(0, cuMemAdvise_v2(at(4), 4 * page(), Advise::set_preferred_location, on_host));
  EXPECT_EQ(attribute(RangeAttribute::preferred_location, memory, 4 * page()), 0);
  EXPECT_EQ(attribute(RangeAttribute::preferred_location, at(4), 4 * page()), device_cpu);
  EXPECT_EQ(attribute(RangeAttribute::preferred_location, memory, 8 * page()), device_invalid);
  EXPECT_EQ(attribute(RangeAttribute::preferred_location_type, memory, 4 * page()), 1);
  EXPECT_EQ(attribute(RangeAttribute::preferred_location_id, memory, 4 * page()), 0);
  EXPECT_EQ(attribute(RangeAttribute::preferred_location_type, at(4), 4 * page()), 2);
  EXPECT_EQ(attribute(RangeAttribute::preferred_location_type, memory, 8 * page()), 0);
  const Location node{LocationType::host_numa, 0};
  EXPECT_STATUS(0, cuMemAdvise_v2(memory, page(), Advise::set_preferred_location, node));
  EXPECT_EQ(attribute(RangeAttribute::preferred_location_type, memory, page()), 3);
  EXPECT_EQ(attribute(RangeAttribute::preferred_location, memory, page()), device_cpu);
  EXPECT_STATUS(0, cuMemAdvise_v2(memory, 8 * page(), Advise::unset_preferred_location, on_host));
  EXPECT_EQ(attribute(RangeAttribute::preferred_location, memory, 1), device_invalid);
}

TEST_F(AdviceTest, AccessedByIsAListOfThoseOnAllPages) {
  std::array<int, 3> list{};
  const auto read = [&](std::size_t pages) {
    EXPECT_STATUS(0, cuMemRangeGetAttribute(list.data(), sizeof list, RangeAttribute::accessed_by,
                                            memory, pages * page()));
    return list;
  };
  using List = std::array<int, 3>;
  EXPECT_EQ(read(8), (List{-2, -2, -2}));
  EXPECT_STATUS(0, cuMemAdvise_v2(memory, 8 * page(), Advise::set_accessed_by, on_device));
  EXPECT_STATUS(0, cuMemAdvise_v2(memory, page(), Advise::set_accessed_by, on_host));
  EXPECT_EQ(read(8), (List{0, -2, -2}));
  EXPECT_EQ(read(1), (List{-1, 0, -2}));
  EXPECT_STATUS(0, cuMemAdvise_v2(at(7), page(), Advise::unset_accessed_by, on_device));
  EXPECT_EQ(read(8), (List{-2, -2, -2}));
  EXPECT_EQ(read(7), (List{0, -2, -2}));
}

TEST_F(AdviceTest, BothAbisReadBackAlike) {
  EXPECT_STATUS(0, cuMemAdvise(memory, page(), Advise::set_preferred_location, device_cpu));
  EXPECT_EQ(attribute(RangeAttribute::preferred_location_type, memory, page()), 2);
  EXPECT_STATUS(0, cuMemAdvise(memory, page(), Advise::set_preferred_location, 0));
  EXPECT_EQ(attribute(RangeAttribute::preferred_location_type, memory, page()), 1);
  EXPECT_STATUS(0, cuMemPrefetchAsync(memory, page(), device_cpu, nullptr));
  EXPECT_EQ(attribute(RangeAttribute::last_prefetch_location_type, memory, page()), 2);
  EXPECT_STATUS(0, cuMemPrefetchAsync_v2(memory, page(), on_device, 0, nullptr));
  EXPECT_EQ(attribute(RangeAttribute::last_prefetch_location, memory, page()), 0);
}

TEST_F(AdviceTest, RefusesRangesThatAreNotOneManagedBlock) {
  const DevicePointer device = device_memory(page());
  void* pinned = nullptr;
  EXPECT_STATUS(0, cuMemHostAlloc(&pinned, page(), 0));
  alignas(4096) static char plain[4096];
  const std::array<std::pair<DevicePointer, std::size_t>, 8> ranges{{
      {0, page()},
      {memory, 0},
      {memory, 8 * page() + 1},
      {at(7), 2 * page()},
      {memory, ~std::size_t{0}},
      {device, page()},
      {reinterpret_cast<DevicePointer>(pinned), page()},
      {reinterpret_cast<DevicePointer>(&plain), sizeof plain},
  }};
  int value = 0;
  for (const auto& [address, size] : ranges) {
    EXPECT_STATUS(1, cuMemAdvise_v2(address, size, Advise::set_read_mostly, on_device));
    EXPECT_STATUS(1, cuMemAdvise(address, size, Advise::set_read_mostly, 0));
    EXPECT_STATUS(1, cuMemPrefetchAsync_v2(address, size, on_device, 0, nullptr));
    EXPECT_STATUS(1, cuMemPrefetchAsync(address, size, 0, nullptr));
    EXPECT_STATUS(1, cuMemRangeGetAttribute(&value, sizeof value, RangeAttribute::read_mostly,
                                            address, size));
  }
  EXPECT_STATUS(0, cuMemFree_v2(device));
  EXPECT_STATUS(0, cuMemFreeHost(pinned));
}

TEST_F(AdviceTest, RefusesLocationsThatAreNotThere) {
  const Location absent{LocationType::device, 7};
  const Location none{LocationType::none, 0};
  const Location no_node{LocationType::host_numa, 9999};
  const Location node{LocationType::host_numa, 0};
  const Location this_node{LocationType::host_numa_current, 0};
  constexpr auto prefer = Advise::set_preferred_location;
  EXPECT_STATUS(101, cuMemAdvise_v2(memory, 1, prefer, absent));
  EXPECT_STATUS(101, cuMemAdvise(memory, 1, prefer, 7));
  EXPECT_STATUS(101, cuMemAdvise(memory, 1, prefer, -5));
  EXPECT_STATUS(101, cuMemPrefetchAsync_v2(memory, 1, absent, 0, nullptr));
  EXPECT_STATUS(101, cuMemPrefetchAsync(memory, 1, 7, nullptr));
  EXPECT_STATUS(1, cuMemAdvise_v2(memory, 1, prefer, none));
  EXPECT_STATUS(1, cuMemPrefetchAsync_v2(memory, 1, none, 0, nullptr));
  EXPECT_STATUS(101, cuMemAdvise_v2(memory, 1, prefer, no_node));
  EXPECT_STATUS(0, cuMemAdvise_v2(memory, 1, prefer, this_node));
  EXPECT_STATUS(1, cuMemAdvise_v2(memory, 1, Advise::set_accessed_by, node));
  EXPECT_STATUS(1, cuMemAdvise_v2(memory, 1, Advise::set_accessed_by, this_node));
  EXPECT_STATUS(1, cuMemAdvise_v2(memory, 1, static_cast<Advise>(7), on_device));
  EXPECT_STATUS(1, cuMemAdvise_v2(memory, 1, static_cast<Advise>(0), on_device));
  control().forget_diagnoses();
  for (const Advise advice :
       {Advise::set_read_mostly, Advise::unset_read_mostly, Advise::unset_preferred_location}) {
    EXPECT_STATUS(0, cuMemAdvise_v2(memory, 1, advice, absent));  // the location is ignored
    EXPECT_STATUS(0, cuMemAdvise(memory, 1, advice, 7));
  }
  EXPECT_EQ(control().diagnosis_count(), 0) << last_diagnosis();
}

TEST_F(AdviceTest, OrdinalInThePlaceOfALocationIsDiagnosed) {
  const Location looks_like_cpu{static_cast<LocationType>(~0U), 0};
  EXPECT_STATUS(1, cuMemAdvise_v2(memory, 1, Advise::set_accessed_by, looks_like_cpu));
  EXPECT_TRUE(contains(last_diagnosis(), "location_looks_ordinal")) << last_diagnosis();
}

TEST_F(AdviceTest, PrefetchChecksFlagsAndStream) {
  EXPECT_STATUS(1, cuMemPrefetchAsync_v2(memory, 1, on_device, 1, nullptr));
  Stream stream = nullptr;
  EXPECT_STATUS(0, cuStreamCreate(&stream, stream_non_blocking));
  EXPECT_STATUS(0, cuMemPrefetchAsync_v2(memory, 1, on_device, 0, stream));
  EXPECT_STATUS(0, cuStreamDestroy_v2(stream));
  EXPECT_STATUS(709, cuMemPrefetchAsync_v2(memory, 1, on_device, 0, stream));
  const auto garbage = reinterpret_cast<Stream>(std::uintptr_t{0xdead0});
  EXPECT_STATUS(400, cuMemPrefetchAsync_v2(memory, 1, on_device, 0, garbage));
}

TEST_F(AdviceTest, ResidencyIsNotTheLastPrefetch) {
  Stream stream = nullptr;
  EXPECT_STATUS(0, cuStreamCreate(&stream, stream_non_blocking));
  EXPECT_EQ(control().resident_bytes(memory, 8 * page(), 0), 0);
  EXPECT_STATUS(0, cuMemPrefetchAsync_v2(memory, 8 * page(), on_device, 0, stream));
  EXPECT_EQ(attribute(RangeAttribute::last_prefetch_location, memory, 8 * page()), 0);
  EXPECT_EQ(control().resident_bytes(memory, 8 * page(), 0), 0);  // requested, not done
  EXPECT_STATUS(0, cuStreamSynchronize(stream));
  EXPECT_EQ(control().resident_bytes(memory, 8 * page(), 0), 7 * page());  // the last page stays
  EXPECT_STATUS(0, cuMemPrefetchAsync_v2(memory, 4 * page(), on_host, 0, stream));
  EXPECT_STATUS(0, cuStreamSynchronize(stream));
  EXPECT_EQ(control().resident_bytes(memory, 8 * page(), -1), 3 * page());
  EXPECT_EQ(attribute(RangeAttribute::last_prefetch_location, memory, 8 * page()), device_invalid);
  EXPECT_EQ(attribute(RangeAttribute::last_prefetch_location, at(4), 4 * page()), 0);
  EXPECT_STATUS(0, cuMemsetD8Async(memory, 1, 8 * page(), stream));  // device work moves pages
  EXPECT_STATUS(0, cuStreamSynchronize(stream));
  EXPECT_EQ(control().resident_bytes(memory, 8 * page(), 0), 8 * page());
  EXPECT_EQ(attribute(RangeAttribute::last_prefetch_location, memory, page()), device_cpu);
  EXPECT_STATUS(0, cuStreamDestroy_v2(stream));
}

TEST_F(AdviceTest, ReadMostlyKeepsCopiesUntilItIsLifted) {
  EXPECT_STATUS(0, cuMemAdvise_v2(memory, page(), Advise::set_read_mostly, on_device));
  EXPECT_STATUS(0, cuMemPrefetchAsync_v2(memory, page(), on_host, 0, nullptr));
  EXPECT_STATUS(0, cuMemPrefetchAsync_v2(memory, page(), on_device, 0, nullptr));
  EXPECT_STATUS(0, cuCtxSynchronize());
  EXPECT_EQ(control().resident_bytes(memory, page(), 0), page());
  EXPECT_EQ(control().resident_bytes(memory, page(), -1), page());
  EXPECT_STATUS(0, cuMemAdvise_v2(memory, page(), Advise::set_preferred_location, on_device));
  EXPECT_STATUS(0, cuMemAdvise_v2(memory, page(), Advise::unset_read_mostly, on_device));
  EXPECT_EQ(control().resident_bytes(memory, page(), 0), page());
  EXPECT_EQ(control().resident_bytes(memory, page(), -1), 0);
}

TEST_F(AdviceTest, FreshMemoryHasNoAdvice) {
  EXPECT_STATUS(0, cuMemAdvise_v2(memory, 8 * page(), Advise::set_read_mostly, on_device));
  EXPECT_STATUS(0, cuMemPrefetchAsync_v2(memory, 8 * page(), on_device, 0, nullptr));
  EXPECT_STATUS(0, cuCtxSynchronize());
  EXPECT_STATUS(0, cuMemFree_v2(memory));
  EXPECT_EQ(control().resident_bytes(memory, 8 * page(), 0), 0);
  int value = 0;
  EXPECT_STATUS(1, cuMemRangeGetAttribute(&value, 4, RangeAttribute::read_mostly, memory, 1));
  memory = managed_memory(8 * page());
  EXPECT_EQ(attribute(RangeAttribute::read_mostly, memory, 1), 0);
}

TEST_F(AdviceTest, NeighbourOnTheSamePageIsReached) {
  const DevicePointer first = managed_memory(512);
  const DevicePointer second = managed_memory(512);
  ASSERT_EQ(first / page(), second / page());
  EXPECT_STATUS(0, cuMemAdvise_v2(first, 512, Advise::set_read_mostly, on_device));
  EXPECT_TRUE(contains(last_diagnosis(), "advice_neighbour")) << last_diagnosis();
  EXPECT_EQ(attribute(RangeAttribute::read_mostly, second, 512), 1);
  EXPECT_STATUS(0, cuMemFree_v2(first));
  host_view(second)[0] = std::byte{1};  // its page stays open
  EXPECT_STATUS(0, cuMemFree_v2(second));
}

TEST(AdviceProfile, PagesNeedNotBeShared) {
  const ScratchFile profile("managed_shares_pages = 0\n");
  const Environment variable(model_profile_variable, profile.path());
  in_fresh_process([] {
    start();
    const DevicePointer first = managed_memory(512);
    const DevicePointer second = managed_memory(512);
    EXPECT_NE(first / page(), second / page());
    EXPECT_STATUS(0, cuMemAdvise_v2(first, 512, Advise::set_read_mostly, on_device));
    EXPECT_EQ(attribute(RangeAttribute::read_mostly, second, 512), 0);
    EXPECT_EQ(control().diagnosis_count(), 0);
  });
}

TEST(AdviceProfile, WithoutConcurrentAccessTheDeviceIsNoLocation) {
  const Environment variable(model_profile_variable, "no_concurrent_managed_access");
  in_fresh_process([] {
    start();
    const DevicePointer memory = managed_memory(page());
    EXPECT_STATUS(101, cuMemAdvise_v2(memory, page(), Advise::set_preferred_location, on_device));
    EXPECT_STATUS(101, cuMemAdvise_v2(memory, page(), Advise::set_accessed_by, on_device));
    EXPECT_STATUS(0, cuMemAdvise_v2(memory, page(), Advise::set_read_mostly, on_device));
    EXPECT_STATUS(0, cuMemAdvise_v2(memory, page(), Advise::set_preferred_location, on_host));
    EXPECT_STATUS(101, cuMemPrefetchAsync_v2(memory, page(), on_device, 0, nullptr));
    EXPECT_STATUS(101, cuMemPrefetchAsync(memory, page(), device_cpu, nullptr));
    EXPECT_EQ(attribute(RangeAttribute::last_prefetch_location, memory, page()), device_invalid);
  });
}

TEST(AdviceProfile, DeviceWithoutAContextIsNoLocation) {
  const ScratchFile profile("devices = 2\n");
  const Environment variable(model_profile_variable, profile.path());
  in_fresh_process([] {
    start();
    const DevicePointer memory = managed_memory(page());
    const Location second{LocationType::device, 1};
    EXPECT_STATUS(101, cuMemAdvise_v2(memory, page(), Advise::set_accessed_by, second));
    Context context = nullptr;
    EXPECT_STATUS(0, cuDevicePrimaryCtxRetain(&context, 1));
    EXPECT_STATUS(0, cuMemAdvise_v2(memory, page(), Advise::set_accessed_by, second));
    EXPECT_STATUS(0, cuMemAdvise_v2(memory, page(), Advise::set_accessed_by, on_device));
    std::array<int, 2> list{};
    EXPECT_STATUS(0, cuMemRangeGetAttribute(list.data(), sizeof list, RangeAttribute::accessed_by,
                                            memory, page()));
    EXPECT_EQ(list, (std::array<int, 2>{0, 1}));
  });
}

TEST(AdviceProfile, PlainMemoryTakesAdviceWherePagesAreShared) {
  const ScratchFile profile("attribute.pageable_memory_access = 1\n");
  const Environment variable(model_profile_variable, profile.path());
  in_fresh_process([] {
    start();
    std::vector<char> plain(3 * page());
    const auto address = reinterpret_cast<DevicePointer>(plain.data());
    EXPECT_STATUS(0, cuMemAdvise_v2(address, plain.size(), Advise::set_read_mostly, on_device));
    EXPECT_EQ(attribute(RangeAttribute::read_mostly, address, plain.size()), 1);
    EXPECT_STATUS(0, cuMemPrefetchAsync_v2(address, plain.size(), on_device, 0, nullptr));
    EXPECT_STATUS(0, cuCtxSynchronize());
    const DevicePointer device = device_memory(page());
    EXPECT_STATUS(1, cuMemAdvise_v2(device, page(), Advise::set_read_mostly, on_device));
  });
}

}  // namespace
}  // namespace assay::cuda::model_test
