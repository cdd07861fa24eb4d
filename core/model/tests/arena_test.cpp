// Address space and memory behind the allocations: bounded, given back, safe from any thread.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include "model_fixture.hpp"

namespace assay::cuda::model_test {
namespace {

/// Bytes that the model's memory file holds.
std::uint64_t bytes_held() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (!contains(target, "memfd:assay-cuda-model")) continue;
    struct stat status{};
    EXPECT_EQ(stat(entry.path().c_str(), &status), 0);
    return static_cast<std::uint64_t>(status.st_blocks) * 512;
  }
  return 0;
}

std::uint64_t address_space_bytes() {
  unsigned long pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  EXPECT_EQ(std::fscanf(file, "%lu", &pages), 1);
  std::fclose(file);
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

TEST(Arena, FreedMemoryGoesBackToTheSystem) {
  start();
  for (const std::size_t size : {std::size_t{1} << 20, std::size_t{64} << 20}) {
    const std::uint64_t before = bytes_held();
    const DevicePointer address = managed_memory(size);
    std::memset(host_view(address), 1, size);
    EXPECT_GE(bytes_held(), before + size);
    EXPECT_STATUS(0, cuMemFree_v2(address));
    EXPECT_LT(bytes_held(), before + size / 2);
  }
}

TEST(Arena, SmallBlocksGiveTheirPagesBackToo) {
  start();
  std::vector<DevicePointer> blocks;
  for (int i = 0; i < 4000; ++i) blocks.push_back(device_memory(600));
  const std::uint64_t full = bytes_held();
  for (const DevicePointer block : blocks) EXPECT_STATUS(0, cuMemFree_v2(block));
  EXPECT_LT(bytes_held() + 3'000'000, full);
}

TEST(Arena, QuarantineIsBounded) {
  start();
  const auto churn = [](int blocks) {
    for (int i = 0; i < blocks; ++i) {
      EXPECT_STATUS(0, cuMemFree_v2(device_memory(std::size_t{1} << 30)));
    }
    return address_space_bytes();
  };
  const std::uint64_t full = churn(80);
  EXPECT_LT(churn(80), full + (std::uint64_t{4} << 30));
}

TEST(Arena, EveryThreadMayAllocateAskAndFree) {
  const Context context = start();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([context] {
      EXPECT_STATUS(0, cuCtxSetCurrent(context));
      for (int i = 0; i < 200; ++i) {
        const DevicePointer device = device_memory(static_cast<std::size_t>(i) * 50 + 1);
        const DevicePointer managed = managed_memory(1000);
        void* pinned = nullptr;
        EXPECT_STATUS(0, cuMemHostAlloc(&pinned, 100, 0));
        host_view(managed)[0] = std::byte{1};
        EXPECT_STATUS(0, cuMemAdvise(managed, 1000, Advise::set_read_mostly, 0));
        int read_mostly = 0;
        EXPECT_STATUS(
            0, cuMemRangeGetAttribute(&read_mostly, 4, RangeAttribute::read_mostly, managed, 1000));
        EXPECT_EQ(read_mostly, 1);
        std::uint64_t id = 0;
        EXPECT_STATUS(0, cuPointerGetAttribute(&id, PointerAttribute::buffer_id, device));
        EXPECT_STATUS(0, cuMemFree_v2(device));
        EXPECT_STATUS(0, cuMemFree_v2(managed));
        EXPECT_STATUS(0, cuMemFreeHost(pinned));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(control().live_objects(assay_model_device), 0);
  EXPECT_EQ(control().live_objects(assay_model_managed), 0);
  EXPECT_EQ(control().live_objects(assay_model_pinned), 0);
}

}  // namespace
}  // namespace assay::cuda::model_test
