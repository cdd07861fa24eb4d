// zero_cache with several threads, and across a fork.
#include <array>
#include <atomic>
#include <mutex>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "assay/backing/host.hpp"
#include "assay/backing/zero_cache.hpp"
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

// The upstream may hand an address to another thread before its free has returned.
TEST(ZeroCache, AnAddressMayComeBackWhileItIsBeingFreed) {
  const auto probe = Probe::make();
  const auto cache = ZeroCache::make(probe, {.cached_max = 0});
  const Request request{.size = 2 * MiB};
  Block other;
  bool first = true;
  probe->after_free = [&](std::uint64_t) {
    if (!std::exchange(first, false)) return;
    std::thread([&] { other = cache->allocate(request).value(); }).join();
  };
  const auto block = cache->allocate(request).value();
  EXPECT_EQ(cache->deallocate(block, request), Freed::now);
  ASSERT_TRUE(static_cast<bool>(other));
  EXPECT_EQ(cache->usage().live_blocks, 1u);
  EXPECT_EQ(cache->deallocate(other, request), Freed::now);
  EXPECT_EQ(cache->usage().live_bytes, 0u);
}

TEST(ZeroCache, ServesFourThreadsThatFreeEachOthersBlocks) {
  const auto probe = Probe::make(16 * MiB);
  const auto cache = ZeroCache::make(probe, {.cached_max = MiB, .block_min = 4 * KiB});
  constexpr std::size_t slot_count = 64;
  std::array<std::mutex, slot_count> locks;
  std::array<Held, slot_count> shared;
  std::atomic<int> broken{0};
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::uint64_t random = seed * 0x9e3779b97f4a7c15u;
      for (int step = 0; step < 2000; ++step) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const std::size_t slot = (random >> 33) % slot_count;
        const std::lock_guard lock(locks[slot]);
        auto& [block, request] = shared[slot];
        const auto tag = static_cast<unsigned char>(slot + 1);
        if (block) {
          if (!all_bytes(*cache, block, 0, request.size, tag)) ++broken;
          const bool wiped = step % 2 == 0;
          if (wiped && !cache->fill(block, 0, block.capacity, std::byte{0})) ++broken;
          if (cache->deallocate(block, Release{request, wiped}) != Freed::now) ++broken;
          block = {};
          continue;
        }
        const std::size_t size = step % 500 == 0 ? 2 * MiB : 1 + (random >> 20) % (40 * KiB);
        request = {.size = size, .init = step % 3 == 0 ? Init::zero : Init::undefined};
        const auto made = cache->allocate(request);
        if (!made) continue;
        block = made.value();
        if (request.init == Init::zero && !all_bytes(*cache, block, 0, size, 0)) ++broken;
        if (!cache->fill(block, 0, size, std::byte{tag})) ++broken;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& [block, request] : shared) {
    if (block) cache->deallocate(block, request);
  }
  EXPECT_EQ(broken, 0);
  EXPECT_EQ(cache->usage().live_bytes, 0u);
  EXPECT_TRUE(cache->trim(0).has_value());
  EXPECT_EQ(probe->held_bytes(), 0u);
  EXPECT_EQ(probe->bad_frees(), 0u);
}

// fault:B-31: a child of fork finds no lock taken by a thread that it does not have.
TEST(ZeroCache, AForkedChildMayGoOn) {
  const auto cache = make_host();
  const Request request{.size = 100 * KiB};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) cache->deallocate(cache->allocate(request).value(), request);
    });
  }
  int good = 0;
  constexpr int forks = 20;
  for (int i = 0; i < forks; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);  // a lock that nobody gives back would hang the child
      const auto block = cache->allocate(request);
      const bool served = block && cache->deallocate(block.value(), request) == Freed::now;
      ::_exit(served ? 0 : 1);
    }
    int status = 1;
    if (::waitpid(child, &status, 0) == child && status == 0) ++good;
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, forks);
}

}  // namespace
}  // namespace assay
