// The first read of a lazy value by many threads at once: one reads, the others sleep.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <ctime>
#include <thread>

#include "bytes_fixture.hpp"
#include "lazy_source.hpp"

namespace assay {
namespace {

using test::counting;
using test::lazy_bytes;
using test::LazySource;
using LazyBytesThreads = test::OnChecking;

/// Runs `work(i)` on so many threads that start together.
template <class Work>
void on_threads(int count, const Work& work) {
  std::barrier together(count);
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      together.arrive_and_wait();
      work(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(LazyBytesThreads, OneValueIsReadOnceByManyThreads) {
  for (const int count : {2, 8, 64}) {
    const auto source = LazySource::make(counting(10'000));
    const Bytes bytes = lazy_bytes(source, *home_);
    std::vector<const std::byte*> seen(static_cast<std::size_t>(count));
    on_threads(count,
               [&](int i) { seen[static_cast<std::size_t>(i)] = bytes.read().value().data(); });
    for (const std::byte* const data : seen) EXPECT_EQ(data, bytes.data());
    EXPECT_EQ(source->read_count(), 1u) << count << " threads";
  }
}

TEST_F(LazyBytesThreads, ClonesViewsAndWritersMeetOneFirstRead) {
  const auto source = LazySource::make(counting(10'000));
  const Bytes bytes = lazy_bytes(source, *home_);
  on_threads(16, [&](int i) {
    Bytes mine = bytes.clone().value();
    switch (i % 4) {
      case 0: EXPECT_EQ(mine.read().value()[9'999], source->content()[9'999]); break;
      case 1: EXPECT_EQ(mine.view(5, 10).value().read().value()[0], source->content()[5]); break;
      case 2: mine.write().value()[0] = std::byte{0}; break;
      default: EXPECT_EQ(mine.split(10).value().read().value()[0], source->content()[10]); break;
    }
  });
  EXPECT_EQ(bytes.read().value()[0], source->content()[0]) << "a writer forks";
}

// bytes:W-23: the losers of the race sleep; they do not spin while a disk or device reads.
TEST_F(LazyBytesThreads, WaitersUseNoProcessorTime) {
  const auto source = LazySource::make(counting(100));
  const Bytes bytes = lazy_bytes(source, *home_);
  source->close_gate();
  std::atomic<std::int64_t> spent_ns{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      EXPECT_TRUE(bytes.read().has_value());
      timespec spent{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
      spent_ns += spent.tv_sec * 1'000'000'000 + spent.tv_nsec;
    });
  }
  source->wait_for_reader();
  timespec start{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
  // Until this thread has used so much processor time of its own, spinners would use theirs too.
  timespec now = start;
  while ((now.tv_sec - start.tv_sec) * 1'000'000'000 + now.tv_nsec - start.tv_nsec < 200'000'000) {
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  }
  source->open_gate();
  for (std::thread& thread : threads) thread.join();
  EXPECT_LT(spent_ns.load(), 100'000'000) << "waiting threads were busy";
  EXPECT_EQ(source->read_count(), 1u);
}

TEST_F(LazyBytesThreads, AFailureIsSharedByThoseWhoWaitedAndPoisonsNothing) {
  const auto source = LazySource::make(counting(1000));
  const Bytes bytes = lazy_bytes(source, *home_);
  for (const int count : {2, 16, 64}) {
    const std::size_t before = source->read_count();
    source->fail_nth(1);
    std::atomic<int> failed{0};
    on_threads(count, [&](int) {
      const auto read = bytes.read();
      if (read) return;
      EXPECT_EQ(read.error().code, ErrorCode::read_failed);
      ++failed;
    });
    EXPECT_GE(failed.load(), 1);
    EXPECT_LE(source->read_count() - before, 2u) << "one attempt failed, at most one succeeded";
    if (bytes.is_resident()) break;
  }
  EXPECT_EQ(bytes.read().value().size(), 1000u);
}

// The clone is read and gone between a handle's look at the unit and its change of it.
TEST_F(LazyBytesThreads, CuttingMeetsTheFirstReadAndTheEndOfItsLastClone) {
  constexpr int rounds = 40'000;
  const auto source = LazySource::make(counting(100));
  Bytes clone;
  std::atomic<int> handed{-1};  // the round whose clone is there
  std::atomic<int> reads{-1};   // the round whose read begins
  std::atomic<int> gone{-1};    // the round whose clone is gone
  const auto wait_for = [](const std::atomic<int>& state, int round) {
    while (state.load() < round) std::this_thread::yield();
  };
  std::thread reader([&] {
    for (int round = 0; round < rounds; ++round) {
      wait_for(handed, round);
      {
        const Bytes mine = std::move(clone);
        reads.store(round);
        EXPECT_TRUE(mine.read().has_value());
      }
      gone.store(round);
    }
  });
  for (int round = 0; round < rounds; ++round) {
    Bytes bytes = lazy_bytes(source, *home_);
    clone = bytes.clone().value();
    handed.store(round);
    wait_for(reads, round);
    for (int i = 0; i < round % 1024; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
    if (round % 16 == 0) {
      bytes.truncate(50);
    } else {
      EXPECT_EQ(bytes.split(50).value().read().value()[0], source->content()[50]);
    }
    wait_for(gone, round);
    EXPECT_EQ(bytes.len(), 50u);
    EXPECT_EQ(bytes.read().value()[49], source->content()[49]);
  }
  reader.join();
}

}  // namespace
}  // namespace assay
