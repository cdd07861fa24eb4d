// slab_pool with several threads, and across a fork.
#include <array>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "assay/backing/slab_pool.hpp"
#include "assay/backing/virtual_memory.hpp"
#include "backing_probe.hpp"

namespace assay {
namespace {

using test::all_bytes;
using test::Probe;

constexpr std::size_t KiB = 1024;
constexpr std::size_t MiB = KiB * KiB;

struct Held {
  Block block;
  Request request;
};

// fault:B-25: the upstream may hand an address to another thread before its free has returned.
TEST(SlabPool, AnAddressMayComeBackWhileItIsBeingFreed) {
  const auto probe = Probe::make();
  const auto pool = SlabPool::make(probe);
  const Request direct{.size = 2 * MiB};
  Block other;
  bool first = true;
  probe->after_free = [&](std::uint64_t) {
    if (!std::exchange(first, false)) return;
    std::thread([&] { other = pool->allocate(direct).value(); }).join();
  };
  const auto block = pool->allocate(direct).value();
  EXPECT_EQ(pool->deallocate(block, direct), Freed::now);
  ASSERT_TRUE(static_cast<bool>(other));
  EXPECT_EQ(pool->usage().live_blocks, 1u);
  EXPECT_EQ(pool->deallocate(other, direct), Freed::now);
  EXPECT_EQ(pool->usage().live_bytes, 0u);
}

TEST(SlabPool, ServesFourThreadsThatFreeEachOthersBlocks) {
  const auto probe = Probe::make(64 * MiB);
  const auto pool = SlabPool::make(probe, {.cached_max = MiB});
  constexpr std::size_t slot_count = 64;
  std::array<std::mutex, slot_count> locks;
  std::array<Held, slot_count> shared;
  std::atomic<int> broken{0};
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::uint64_t random = seed * 0x9e3779b97f4a7c15u;
      for (int step = 0; step < 3000; ++step) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const std::size_t slot = (random >> 33) % slot_count;
        const std::lock_guard lock(locks[slot]);
        auto& [block, request] = shared[slot];
        const auto tag = static_cast<unsigned char>(slot + 1);
        if (block) {
          if (!all_bytes(*pool, block, 0, request.size, tag)) ++broken;
          if (pool->deallocate(block, request) != Freed::now) ++broken;
          block = {};
          continue;
        }
        const std::size_t size = step % 500 == 0 ? 2 * MiB : 1 + (random >> 20) % (40 * KiB);
        request = {.size = size, .alignment = std::size_t{1} << (random >> 10) % 8};
        const auto made = pool->allocate(request);
        if (!made) continue;
        block = made.value();
        if (!pool->fill(block, 0, size, std::byte{tag})) ++broken;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& [block, request] : shared) {
    if (block) pool->deallocate(block, request);
  }
  EXPECT_EQ(broken, 0);
  EXPECT_EQ(pool->usage().live_bytes, 0u);
  EXPECT_TRUE(pool->trim(0).has_value());
  EXPECT_EQ(probe->held_bytes(), 0u);
  EXPECT_EQ(probe->bad_frees(), 0u);
}

// A chunk that a thread has just got from the upstream looks free to nobody else.
TEST(SlabPool, ATrimLeavesChunksInTheMakingAlone) {
  const auto probe = Probe::make();
  const auto pool = SlabPool::make(probe);
  std::atomic<bool> stop{false};
  std::thread trimmer([&] {
    const Request cached{.size = 40 * KiB};
    while (!stop) {
      pool->deallocate(pool->allocate(cached).value(), cached);  // something to trim
      EXPECT_TRUE(pool->trim(0).has_value());
    }
  });
  std::vector<std::thread> threads;
  for (const std::size_t size : {100 * KiB, 200 * KiB, 300 * KiB}) {
    threads.emplace_back([&, size] {
      const Request request{.size = size};
      for (int step = 0; step < 1500; ++step) {
        const auto block = pool->allocate(request).value();
        EXPECT_TRUE(pool->fill(block, 0, 8, std::byte{1}).has_value());
        EXPECT_EQ(pool->deallocate(block, request), Freed::now);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  stop = true;
  trimmer.join();
  EXPECT_TRUE(pool->trim(0).has_value());
  EXPECT_EQ(pool->figures().cached_bytes, 0u);
  EXPECT_EQ(pool->usage().reserved_bytes, 0u);
  EXPECT_EQ(probe->held_bytes(), 0u);
}

// fault:B-31: a child of fork finds no lock taken by a thread that it does not have.
TEST(SlabPool, AForkedChildMayGoOn) {
  const auto pool = SlabPool::make(VirtualMemory::make());
  const Request request{.size = 300};
  const auto parents = pool->allocate(request).value();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) pool->deallocate(pool->allocate(request).value(), request);
    });
  }
  int good = 0;
  constexpr int forks = 40;
  for (int i = 0; i < forks; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);  // a hang is a failure
      const Request own{.size = 5000};
      const auto block = pool->allocate(own);
      const bool worked = block && pool->deallocate(block.value(), own) == Freed::now &&
                          pool->deallocate(parents, request) == Freed::now &&
                          pool->usage().reserved_bytes > 0;
      ::_exit(worked ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) ++good;
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, forks);
  pool->deallocate(parents, request);
}

}  // namespace
}  // namespace assay
