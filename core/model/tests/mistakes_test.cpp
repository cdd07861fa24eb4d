// Mistakes 1 to 19: contexts, frees, host memory, managed memory, copies.
#include <sys/mman.h>

#include <cstdio>
#include <thread>

#include "mistakes.hpp"

namespace assay::model_tests {
namespace {

constexpr std::size_t page = 4096;
constexpr Location on_device{LocationType::device, 0};

/// Counted by the tests themselves: says in the end how many of the mistakes had a diagnosis.
class Tally : public testing::Environment {
  void TearDown() override {
    if (diagnosed_rows().empty()) return;
    std::printf("mistakes diagnosed: %zu of 40\n", diagnosed_rows().size());
  }
};
testing::Environment* const tally = testing::AddGlobalTestEnvironment(new Tally);

TEST_F(Mistakes, 1_NoContextOnThisThread) {
  Driver& d = start();
  std::thread([&] {
    DevicePointer address = 0;
    expect_status(Status::invalid_context, d.cu.cuMemAlloc_v2(&address, page));
  }).join();
  expect_diagnosed("no_current_context",
                   {"cuMemAlloc_v2 (call ", "on thread ", "has no context current",
                    "made by cuCtxCreate_v2 (call ", "current last on thread "});
}

TEST_F(Mistakes, 2_ContextUsedAfterItsLastRelease) {
  expect_child([] {
    Driver d;
    Context primary = nullptr;
    DevicePointer address = 0;
    expect_status(Status::success, d.cu.cuDevicePrimaryCtxRetain(&primary, 0));
    expect_status(Status::success, d.cu.cuCtxPushCurrent_v2(primary));
    expect_status(Status::success, d.cu.cuDevicePrimaryCtxRelease_v2(0));
    expect_status(Status::context_is_destroyed, d.cu.cuMemAlloc_v2(&address, page));
    expect_diagnosed("context_destroyed",
                     {"cuMemAlloc_v2 (call ", "made by cuDevicePrimaryCtxRetain (call ",
                      "which cuDevicePrimaryCtxRelease_v2 (call "});
    Context reborn = nullptr;
    expect_status(Status::success, d.cu.cuDevicePrimaryCtxRetain(&reborn, 0));
    EXPECT_EQ(reborn, primary);  // the same value, another context
    expect_status(Status::context_is_destroyed, d.cu.cuMemAlloc_v2(&address, page));
    expect_diagnosed("context_destroyed", {"its handle is that of context "});
    expect_status(Status::success, d.cu.cuCtxPopCurrent_v2(nullptr));
    expect_status(Status::success, d.cu.cuDevicePrimaryCtxRelease_v2(0));
    expect_status(Status::context_is_destroyed, d.cu.cuCtxSetCurrent(primary));
    expect_diagnosed("handle_of_destroyed_context",
                     {"cuCtxSetCurrent (call ", "which cuDevicePrimaryCtxRelease_v2 (call "});
  });
}

TEST_F(Mistakes, 3_FreedTwiceInsideOrForeign) {
  Driver& d = start();
  const DevicePointer block = d.device();
  expect_status(Status::invalid_value, d.cu.cuMemFree_v2(block + 256));
  expect_diagnosed("free_interior", {"cuMemFree_v2 (call ", "made by cuMemAlloc_v2 (call "});
  expect_status(Status::success, d.cu.cuMemFree_v2(block));
  expect_status(Status::invalid_value, d.cu.cuMemFree_v2(block));
  expect_diagnosed("free_twice", {"cuMemFree_v2 (call ", "made by cuMemAlloc_v2 (call ",
                                  "freed by cuMemFree_v2 (call "});
  expect_status(Status::invalid_value, d.cu.cuMemFree_v2(Driver::address_of(&block)));
  expect_diagnosed("free_unknown", {"cuMemFree_v2 (call ", "never given out"});
}

TEST_F(Mistakes, 4_PoolMemoryFreedPlainlyInFlight) {
  Driver& d = start();
  const Stream in = d.stream();
  DevicePointer block = 0;
  expect_status(Status::success, d.cu.cuMemAllocAsync(&block, page, in));
  expect_status(Status::success, d.cu.cuMemsetD8Async(block, 1, page, in));
  expect_status(Status::success, d.cu.cuMemFree_v2(block));  // which waits for nothing
  expect_diagnosed("free_in_flight", {"cuMemFree_v2 (call ", "of cuMemsetD8Async (call "});
}

TEST_F(Mistakes, 5_DeviceMemoryFreedInFlight) {
  Driver& d = start();
  const DevicePointer block = d.device();
  expect_status(Status::success, d.cu.cuMemsetD8Async(block, 1, page, d.stream()));
  expect_status(Status::success, d.cu.cuMemFree_v2(block));
  expect_diagnosed("free_in_flight", {"cuMemFree_v2 (call ", "of cuMemsetD8Async (call "});
}

TEST_F(Mistakes, 6_PinnedMemoryFreedTwiceOrRegisteredMemoryFreed) {
  Driver& d = start();
  void* const block = d.pinned();
  expect_status(Status::success, d.cu.cuMemFreeHost(block));
  expect_status(Status::invalid_value, d.cu.cuMemFreeHost(block));
  expect_diagnosed("free_twice", {"cuMemFreeHost (call ", "made by cuMemHostAlloc (call ",
                                  "freed by cuMemFreeHost (call "});
  alignas(4096) static char plain[page];
  expect_status(Status::success, d.cu.cuMemHostRegister_v2(plain, page, 0));
  expect_status(Status::invalid_value, d.cu.cuMemFreeHost(plain));
  expect_diagnosed("free_wrong_kind",
                   {"cuMemFreeHost (call ", "made by cuMemHostRegister_v2 (call "});
  expect_status(Status::success, d.cu.cuMemHostUnregister(plain));
}

TEST_F(Mistakes, 7_RegisteredMemoryUnmappedBeforeItIsUnregistered) {
  Driver& d = start();
  void* const plain =
      mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  expect_status(Status::success, d.cu.cuMemHostRegister_v2(plain, page, 0));
  expect_status(Status::success, d.cu.cuMemcpyHtoDAsync_v2(d.device(), plain, page, d.stream()));
  munmap(plain, page);
  expect_status(Status::success, d.cu.cuCtxSynchronize());
  expect_diagnosed("host_memory_gone",
                   {"cuMemcpyHtoDAsync_v2 (call ", "registered by cuMemHostRegister_v2 (call "});
  expect_status(Status::success, d.cu.cuMemHostUnregister(plain));
  expect_diagnosed("registered_unmapped",
                   {"cuMemHostUnregister (call ", "registered by cuMemHostRegister_v2 (call "});
}

TEST_F(Mistakes, 8_OverlappingRangeRegistered) {
  Driver& d = start();
  alignas(4096) static char plain[2 * page];
  expect_status(Status::success, d.cu.cuMemHostRegister_v2(plain, page, 0));
  expect_status(Status::host_memory_already_registered,
                d.cu.cuMemHostRegister_v2(plain + page - 64, page, 0));
  expect_diagnosed("register_overlap",
                   {"cuMemHostRegister_v2 (call ", "made by cuMemHostRegister_v2 (call "});
  expect_status(Status::success, d.cu.cuMemHostUnregister(plain));
}

TEST_F(Mistakes, 9_UnregisteredUnknownOrInside) {
  Driver& d = start();
  alignas(4096) static char plain[page];
  expect_status(Status::host_memory_not_registered, d.cu.cuMemHostUnregister(plain));
  expect_diagnosed("unregister_unknown", {"cuMemHostUnregister (call ", "never given out"});
  expect_status(Status::success, d.cu.cuMemHostRegister_v2(plain, page, 0));
  expect_status(Status::invalid_value, d.cu.cuMemHostUnregister(plain + 64));
  expect_diagnosed("unregister_invalid",
                   {"cuMemHostUnregister (call ", "made by cuMemHostRegister_v2 (call "});
  expect_status(Status::success, d.cu.cuMemHostUnregister(plain));
  expect_status(Status::host_memory_not_registered, d.cu.cuMemHostUnregister(plain));
  expect_diagnosed("unregister_unknown", {"freed by cuMemHostUnregister (call "});
}

std::uint8_t touch(DevicePointer address) {
  return *reinterpret_cast<volatile std::uint8_t*>(address);
}

TEST_F(Mistakes, 10_HostTouchesDeviceMemory) {
  expect_fault([] { touch(Driver().device()); },
               "host_access_device: the host touched .*made by cuMemAlloc_v2 \\(call ");
}

TEST_F(Mistakes, 11_HostTouchesManagedMemoryOfABusyDevice) {
  expect_fault(
      [] {
        play("no_concurrent_managed_access");
        Driver d;
        const DevicePointer managed = d.managed();
        expect_status(Status::success, d.cu.cuMemsetD8Async(d.device(), 1, page, d.stream()));
        touch(managed);  // another block than the work's
      },
      "host_access_busy: .*made by cuMemAllocManaged \\(call .*work of cuMemsetD8Async \\(call ");
}

TEST_F(Mistakes, 12_DestroyingAStreamTakenForAWait) {
  expect_fault(
      [] {
        play("no_concurrent_managed_access");
        Driver d;
        const DevicePointer managed = d.managed();
        const Stream in = d.stream();
        expect_status(Status::success, d.cu.cuMemsetD8Async(managed, 1, page, in));
        expect_status(Status::success, d.cu.cuStreamDestroy_v2(in));
        touch(managed);
      },
      "host_access_busy: .*work of cuMemsetD8Async \\(call .*cuStreamDestroy_v2 \\(call ");
}

TEST_F(Mistakes, 13_AdviceAndPrefetchOnOtherMemory) {
  Driver& d = start();
  const DevicePointer block = d.device();
  expect_status(Status::invalid_value, d.cu.cuMemAdvise(block, page, Advise::set_read_mostly, 0));
  expect_diagnosed("managed_range", {"cuMemAdvise (call ", "made by cuMemAlloc_v2 (call "});
  expect_status(Status::invalid_value,
                d.cu.cuMemPrefetchAsync_v2(block, page, on_device, 0, d.stream()));
  expect_diagnosed("managed_range",
                   {"cuMemPrefetchAsync_v2 (call ", "made by cuMemAlloc_v2 (call "});
  alignas(4096) static char plain[page];
  expect_status(Status::invalid_value,
                d.cu.cuMemAdvise(Driver::address_of(plain), page, Advise::set_read_mostly, 0));
  expect_diagnosed("pageable_range", {"cuMemAdvise (call ", "no managed memory"});
}

TEST_F(Mistakes, 14_EmptyRangesAndRangesPastTheEnd) {
  Driver& d = start();
  const DevicePointer managed = d.managed();
  expect_status(Status::invalid_value, d.cu.cuMemAdvise(managed, 0, Advise::set_read_mostly, 0));
  expect_diagnosed("managed_range_empty", {"cuMemAdvise (call ", "which is empty"});
  expect_status(Status::invalid_value, d.cu.cuMemPrefetchAsync(managed, page + 1, 0, d.stream()));
  expect_diagnosed("managed_range",
                   {"cuMemPrefetchAsync (call ", "made by cuMemAllocManaged (call "});
}

TEST_F(Mistakes, 15_PrefetchToADeviceThatCannot) {
  expect_child([] {
    play("no_concurrent_managed_access");
    Driver child;
    expect_status(Status::invalid_device,
                  child.cu.cuMemPrefetchAsync(child.managed(), page, 0, child.stream()));
    expect_diagnosed("prefetch_exclusive",
                     {"cuMemPrefetchAsync (call ", "no concurrent managed access"});
  });
  Driver& d = start();
  expect_status(Status::invalid_device, d.cu.cuMemPrefetchAsync(d.managed(), page, 7, d.stream()));
  expect_diagnosed("location_device", {"cuMemPrefetchAsync (call ", "names device 7 of 1"});
}

TEST_F(Mistakes, 16_AdviceOfLessThanAPage) {
  Driver& d = start();
  const DevicePointer first = d.managed(mem_attach_global, 512);
  const DevicePointer second = d.managed(mem_attach_global, 512);
  ASSERT_EQ(first / page, second / page);
  expect_status(Status::success,
                d.cu.cuMemAdvise_v2(first, 512, Advise::set_read_mostly, on_device));
  int advised = 0;
  expect_status(Status::success,
                d.cu.cuMemRangeGetAttribute(&advised, sizeof advised, RangeAttribute::read_mostly,
                                            second, 512));
  EXPECT_EQ(advised, 1);
  expect_diagnosed("advice_neighbour",
                   {"cuMemAdvise_v2 (call ", "made by cuMemAllocManaged (call "});
}

TEST_F(Mistakes, 17_LastPrefetchTakenForResidency) {
  Driver& d = start();
  const DevicePointer managed = d.managed();
  const Stream in = d.stream();
  expect_status(Status::success, d.cu.cuMemPrefetchAsync(managed, page, 0, in));
  int requested = 42;
  expect_status(Status::success,
                d.cu.cuMemRangeGetAttribute(&requested, sizeof requested,
                                            RangeAttribute::last_prefetch_location, managed, page));
  EXPECT_EQ(requested, 0);
  EXPECT_EQ(d.control.resident_bytes(managed, page, 0), 0u);  // asked for, and not there
}

TEST_F(Mistakes, 18_CopyReadBeforeItWasWaitedFor) {
  Driver& d = start();
  const Stream in = d.stream();
  const DevicePointer block = d.device();
  const std::uint8_t* const target = d.pinned();
  expect_status(Status::success, d.cu.cuMemsetD8Async(block, 7, page, in));
  expect_status(Status::success, d.cu.cuMemcpyDtoHAsync_v2(d.pinned(), block, page, in));
  expect_status(Status::success,
                d.cu.cuMemcpyDtoHAsync_v2(const_cast<std::uint8_t*>(target), block, page, in));
  EXPECT_EQ(target[0], 0);  // old bytes, every time
  EXPECT_EQ(d.control.host_reads(Driver::address_of(target), 1), 1);
  expect_diagnosed("host_read_early", {"unfinished work of cuMemcpyDtoHAsync_v2 (call "});
  d.sync(in);
  EXPECT_EQ(target[0], 7);
  EXPECT_EQ(d.control.host_reads(Driver::address_of(target), 1), 0);
}

TEST_F(Mistakes, 19_CopySourceReusedEarly) {
  Driver& d = start();
  const Stream in = d.stream();
  std::uint8_t* const source = d.pinned();
  expect_status(Status::success, d.cu.cuMemcpyHtoDAsync_v2(d.device(), source, page, in));
  source[9] = 1;
  d.sync(in);
  expect_diagnosed("source_changed", {"cuMemcpyHtoDAsync_v2 (call "});
  expect_status(Status::success, d.cu.cuMemcpyHtoDAsync_v2(d.device(), source, page, in));
  expect_status(Status::success, d.cu.cuMemFreeHost(source));
  expect_diagnosed("free_in_flight", {"cuMemFreeHost (call ", "of cuMemcpyHtoDAsync_v2 (call "});
}

/// The table of the document: forty rows in order, whose rules are the model's.
TEST(MistakesDocument, NamesRulesThatExist) {
  const std::string rules = model().control->rules();
  std::ifstream document(ASSAY_MODEL_DOCUMENT);
  int rows = 0;
  bool in_table = false;
  for (std::string line; std::getline(document, line);) {
    if (line.starts_with("## ")) in_table = line == "## Mistakes";
    if (!in_table || !line.starts_with("| ") || line.starts_with("| #")) continue;
    EXPECT_TRUE(line.starts_with("| " + std::to_string(++rows) + " | ")) << line;
    const std::size_t last = line.rfind(" | ");
    for (std::size_t at = line.find('`', last); at != std::string::npos;) {
      const std::size_t end = line.find('`', at + 1);
      ASSERT_NE(end, std::string::npos) << line;
      const std::string id = line.substr(at + 1, end - at - 1);
      EXPECT_NE(("\n" + rules).find("\n" + id + " ["), std::string::npos) << id;
      at = line.find('`', end + 1);
    }
  }
  EXPECT_EQ(rows, 40);
}

// A signal that was sent is not repeated, as a faulting access is.
TEST(HostFaults, ASignalThatWasSentEndsTheProgram) {
  ASSERT_EQ(model().cu.cuInit(0), Status::success);
  EXPECT_EXIT(
      {
        raise(SIGSEGV);
        _exit(0);
      },
      [](int status) { return status != 0; }, "");
}

}  // namespace
}  // namespace assay::model_tests
