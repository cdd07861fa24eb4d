#include "assay/backing/file.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "assay/backing/heap.hpp"
#include "assay/base/system.hpp"
#include "checking_backing.hpp"
#include "file_fixture.hpp"

namespace assay {
namespace {

using test::Content;
using test::counting;
using test::open_descriptors;
using test::opened;
using test::part;
using test::ScratchFile;

TEST(FileSource, AWindowIsReadStraightIntoTheBuffer) {
  const Content content = counting(10'000);
  const ScratchFile scratch(content);
  const Ref<File> file = opened(scratch, {.offset = 100, .size = 5000});
  EXPECT_EQ(file->size(), 5000u);
  EXPECT_EQ(file->block().capacity, 5000u);
  EXPECT_TRUE(file->block());
  EXPECT_STREQ(file->path(), scratch.path());
  EXPECT_EQ(file->reads().calls, 0u);

  Content to(5000);
  ASSERT_TRUE(file->copy_out(file->block(), 0, to).has_value());
  EXPECT_EQ(to, part(content, 100, 5000));
  for (const std::size_t offset : {0u, 1u, 4095u, 4999u}) {
    Content one(1);
    ASSERT_TRUE(file->copy_out(file->block(), offset, one).has_value());
    EXPECT_EQ(one[0], content[100 + offset]);
  }
  ASSERT_TRUE(file->copy_out(file->block(), 5000, {}).has_value());
  EXPECT_EQ(file->reads().calls, 5u);
  EXPECT_EQ(file->reads().bytes, 5004u);
}

TEST(FileSource, IsNoHostMemoryAndIsNeverWritten) {
  const ScratchFile scratch(counting(100));
  const Ref<File> file = opened(scratch);
  EXPECT_STREQ(file->info().id, "file");
  EXPECT_EQ(file->info().capabilities, Capabilities(Capabilities::thread_safe));
  EXPECT_EQ(file->host_bytes(file->block()).error().code, ErrorCode::not_supported);
  EXPECT_EQ(file->copy_in(file->block(), 0, counting(1)).error().code, ErrorCode::not_supported);
  EXPECT_EQ(file->fill(file->block(), 0, 1, std::byte{1}).error().code, ErrorCode::not_supported);
  EXPECT_EQ(file->release(file->block(), {}), Freed::now);
}

TEST(FileSource, NothingOutsideTheWindowIsEverRead) {  // bytes:W-03
  const ScratchFile scratch(counting(100));
  const Ref<File> file = opened(scratch, {.offset = 20, .size = 10});
  Content to(20);
  const Content before = to;
  EXPECT_EQ(file->copy_out(file->block(), 0, to).error().code, ErrorCode::out_of_range);
  // Nor where a block claims more than there is.
  const Block wide{file->block().address, 80};
  const auto refused = file->copy_out(wide, 5, to);
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_range);
  EXPECT_EQ(refused.error().requested, 20u);
  EXPECT_EQ(refused.error().limit, 5u);
  EXPECT_EQ(file->copy_out(wide, 11, std::span(to).first(1)).error().code, ErrorCode::out_of_range);
  EXPECT_EQ(to, before);
  EXPECT_EQ(file->reads().calls, 0u);
}

TEST(FileSource, TheRegionIsCheckedAtOpenAndNoSumWraps) {  // bytes:W-26
  const ScratchFile scratch(counting(1000));
  struct Case {
    FileRegion region;
    std::uint64_t requested, limit;
  };
  constexpr std::uint64_t most = UINT64_MAX;
  for (const Case& one :
       {Case{{.offset = 1001}, 1001, 1000}, Case{{1001, 0}, 1001, 1000},
        Case{{0, 1001}, 1001, 1000}, Case{{1000, 1}, 1, 0}, Case{{999, most - 1}, most - 1, 1},
        Case{{most, 1}, most, 1000}, Case{{.offset = most}, most, 1000},
        Case{{most, most - 1}, most, 1000}, Case{{1ull << 63, 1ull << 63}, 1ull << 63, 1000},
        Case{{1, size_max}, size_max, 999}}) {
    const auto file = File::open(scratch.path(), one.region);
    ASSERT_FALSE(file.has_value()) << one.region.offset << " " << one.region.size;
    EXPECT_EQ(file.error().code, ErrorCode::out_of_range);
    EXPECT_EQ(file.error().requested, one.requested);
    EXPECT_EQ(file.error().limit, one.limit);
    EXPECT_STREQ(file.error().backing, "file");
  }
  EXPECT_EQ(opened(scratch, {.offset = 1000})->size(), 0u);
  EXPECT_FALSE(opened(scratch, {1000, 0})->block());
  EXPECT_EQ(opened(scratch, {999})->size(), 1u);
  EXPECT_EQ(opened(scratch, {0, 1000})->size(), 1000u);
}

TEST(FileSource, AFileWithoutASizeIsEmpty) {
  const auto file = File::open("/proc/self/status");
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file.value()->size(), 0u);
  EXPECT_FALSE(file.value()->block());
  EXPECT_EQ(File::open("/proc/self/status", {0, 1}).error().code, ErrorCode::out_of_range);
}

TEST(FileSource, WhatCannotBeOpenedIsTold) {  // bytes:W-25
  const ScratchFile scratch(counting(10));
  const std::string missing = scratch.beside("missing");
  const auto absent = File::open(missing.c_str());
  EXPECT_EQ(absent.error().code, ErrorCode::io);
  EXPECT_EQ(absent.error().native, ENOENT);
  EXPECT_NE(describe(absent.error()).find("No such file"), std::string::npos);
  EXPECT_EQ(File::open("").error().native, ENOENT);
  const std::string below = std::string(scratch.path()) + "/x";
  EXPECT_EQ(File::open(below.c_str()).error().native, ENOTDIR);

  const std::string fifo = scratch.beside("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0644), 0);
  struct Case {
    const char* path;
    const char* kind;
  };
  for (const Case& one : {Case{"/", "directory"}, Case{fifo.c_str(), "FIFO"},  // and never waits
                          Case{"/dev/null", "character device"}}) {
    const auto refused = File::open(one.path);
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument) << one.path;
    EXPECT_NE(std::strstr(refused.error().native_text, one.kind), nullptr) << one.path;
    EXPECT_FALSE(refused.error().retryable);
  }
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  EXPECT_NE(std::strstr(File::open(pair[0]).error().native_text, "socket"), nullptr);
  ::close(pair[0]);
  ::close(pair[1]);
}

TEST(FileSource, AFileThatMayNotBeReadIsTold) {
  const ScratchFile scratch(counting(10));
  ASSERT_EQ(::chmod(scratch.path(), 0000), 0);
  ASSERT_EQ(::chmod(std::filesystem::path(scratch.path()).parent_path().c_str(), 0755), 0);
  constexpr uid_t nobody = 65534;
  const uid_t user = ::geteuid();  // the superuser may read everything
  if (user == 0) {
    ASSERT_EQ(::seteuid(nobody), 0);
  }
  const auto refused = File::open(scratch.path());
  if (user == 0) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  EXPECT_EQ(refused.error().code, ErrorCode::io);
  EXPECT_EQ(refused.error().native, EACCES);
  EXPECT_TRUE(refused.error().retryable);
}

TEST(FileSource, WithoutAFreeDescriptorItCanBeTriedAgain) {
  const ScratchFile scratch(counting(10));
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto refused = File::open(scratch.path());
  const auto no_duplicate = File::open(STDIN_FILENO);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(refused.error().code, ErrorCode::io);
  EXPECT_EQ(refused.error().native, EMFILE);
  EXPECT_TRUE(refused.error().retryable);
  EXPECT_FALSE(no_duplicate.has_value());
  EXPECT_TRUE(File::open(scratch.path()).has_value());
}

TEST(FileSource, ADescriptorIsDuplicatedAndItsPositionLeftAlone) {
  const Content content = counting(1000);
  const ScratchFile scratch(content);
  const int descriptor = ::open(scratch.path(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::lseek(descriptor, 7, SEEK_SET), 7);
  const Ref<File> file = File::open(descriptor, {.offset = 10}).value();
  EXPECT_STREQ(file->path(), "");
  Content to(990);
  ASSERT_TRUE(file->copy_out(file->block(), 0, to).has_value());
  EXPECT_EQ(::lseek(descriptor, 0, SEEK_CUR), 7);
  ::close(descriptor);
  ASSERT_TRUE(file->copy_out(file->block(), 0, to).has_value());
  EXPECT_EQ(to, part(content, 10, 990));
}

TEST(FileSource, ADescriptorThatCannotBeReadIsRefused) {
  const ScratchFile scratch(counting(10));
  for (const int flags : {O_WRONLY, O_PATH, O_RDONLY | O_DIRECT}) {
    const int descriptor = ::open(scratch.path(), flags | O_CLOEXEC);
    if (descriptor < 0) continue;  // a file system without O_DIRECT
    EXPECT_EQ(File::open(descriptor).error().code, ErrorCode::invalid_argument) << flags;
    ::close(descriptor);
  }
  const auto none = File::open(-1);
  EXPECT_EQ(none.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(none.error().native, EBADF);
}

TEST(FileSource, ReadsAtAllOffsetsShareOneDescriptor) {
  const Content content = counting(1000);
  const ScratchFile scratch(content);
  const std::size_t before = open_descriptors();
  {
    const Ref<File> file = opened(scratch);
    for (std::size_t offset = 0; offset < 1000; ++offset) {
      std::byte one{};
      ASSERT_TRUE(file->copy_out(file->block(), offset, {&one, 1}).has_value());
      ASSERT_EQ(one, content[offset]);
    }
    EXPECT_EQ(open_descriptors(), before + 1);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(FileSource, ItsDescriptorDoesNotPassToPrograms) {
  const ScratchFile scratch(counting(10));
  const int given = ::open(scratch.path(), O_RDONLY);
  const int next = ::dup(given);  // the lowest free one, which the next to be opened will be
  ::close(next);
  for (int which = 0; which < 2; ++which) {
    const auto file = which == 0 ? File::open(scratch.path()) : File::open(given);
    EXPECT_EQ(::fcntl(next, F_GETFD), FD_CLOEXEC);
  }
  ::close(given);
}

TEST(FileSource, ItKeepsThePathItself) {
  const ScratchFile scratch(counting(10));
  std::string path = scratch.path();
  const Ref<File> file = File::open(path.c_str()).value();
  path.assign(path.size(), 'x');
  EXPECT_STREQ(file->path(), scratch.path());
}

TEST(FileSource, AFileThatEndsBeforeItsSizeHasChanged) {
  // Attributes of sysfs tell a page as their size, and hold a few digits.
  const auto file = File::open("/sys/kernel/uevent_seqnum");
  if (!file.has_value()) GTEST_SKIP() << "no sysfs here: " << describe(file.error());
  ASSERT_GT(file.value()->size(), 100u);
  Content to(file.value()->size());
  const auto read = file.value()->copy_out(file.value()->block(), 0, to);
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, ErrorCode::source_changed);
  EXPECT_EQ(file.value()->reads().calls, 2u);
}

/// Two pages of which only the first may be written.
class HalfWritable {
 public:
  HalfWritable() {
    void* const made =
        ::mmap(nullptr, 2 * page_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(made, MAP_FAILED);
    memory_ = {static_cast<std::byte*>(made), 2 * page_size()};
    allow(page_size());
  }
  ~HalfWritable() { ::munmap(memory_.data(), memory_.size()); }
  HalfWritable(const HalfWritable&) = delete;
  HalfWritable& operator=(const HalfWritable&) = delete;
  void allow(std::size_t size) {
    EXPECT_EQ(::mprotect(memory_.data(), size, PROT_READ | PROT_WRITE), 0);
  }
  [[nodiscard]] std::span<std::byte> memory() const { return memory_; }

 private:
  std::span<std::byte> memory_{};
};

TEST(FileSource, AReadThatFailedCanBeTriedAgain) {
  const Content content = counting(3 * page_size());
  const ScratchFile scratch(content);
  const Ref<File> file = opened(scratch, {.offset = 5});
  HalfWritable to;
  const auto failed = file->copy_out(file->block(), 0, to.memory());
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, ErrorCode::read_failed);
  EXPECT_EQ(failed.error().native, EFAULT);
  EXPECT_EQ(failed.error().requested, to.memory().size());
  EXPECT_TRUE(failed.error().retryable);
  to.allow(to.memory().size());
  ASSERT_TRUE(file->copy_out(file->block(), 0, to.memory()).has_value());
  EXPECT_TRUE(std::ranges::equal(to.memory(), part(content, 5, to.memory().size())));
}

TEST(FileSource, MoreThanOneCallBringsIsReadInPieces) {
  constexpr std::size_t piece = std::size_t{64} << 20;
  constexpr std::size_t size = (std::size_t{2} << 30) + piece;  // a call ends short of 2 GiB
  // A hole of a file in memory costs none, not even in the page cache.
  const int sparse = ::memfd_create("sparse", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(sparse, size), 0);
  ASSERT_EQ(::pwrite(sparse, counting(9).data(), 9, size - 9), 9);
  const Ref<File> file = File::open(sparse).value();
  ::close(sparse);
  // A destination of that size without the memory: the same pages again and again.
  const int pages = ::memfd_create("destination", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(pages, piece), 0);
  auto* const base = static_cast<std::byte*>(
      ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  for (std::size_t at = 0; at < size; at += piece) {
    ASSERT_EQ(::mmap(base + at, piece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, pages, 0),
              base + at);
  }
  ASSERT_TRUE(file->copy_out(file->block(), 0, {base, size}).has_value());
  EXPECT_EQ(std::memcmp(base + size - 9, counting(9).data(), 9), 0);
  EXPECT_EQ(file->reads().bytes, size);
  EXPECT_GE(file->reads().calls, 3u);
  ::munmap(base, size);
  ::close(pages);
}

TEST(FileSource, ACopyToABlockIsOneRead) {
  const Content content = counting(100'000);
  const ScratchFile scratch(content);
  const Ref<File> file = opened(scratch, {.offset = 1});
  const Ref<Heap> heap = Heap::make();
  const Request request{.size = 100'000};
  const Block block = heap->allocate(request).value();
  ASSERT_TRUE(heap->copy_between(block, 10, *file, file->block(), 9, 99'000).has_value());
  EXPECT_TRUE(std::ranges::equal(heap->host_bytes(block).value().subspan(10, 99'000),
                                 part(content, 10, 99'000)));
  EXPECT_EQ(file->reads().calls, 1u);
  heap->deallocate(block, request);
}

TEST(FileSource, OutOfMemoryLeavesNothingOpen) {
  const ScratchFile scratch(counting(10));
  const std::size_t descriptors = open_descriptors();
  const auto nodes = node_pool::balance_of_thread();
  std::uint64_t nth = 1;
  for (;; ++nth) {
    node_pool::fail_nth(nth);
    const auto file = File::open(scratch.path());
    if (node_pool::failure_pending()) break;
    ASSERT_FALSE(file.has_value());
    EXPECT_EQ(file.error().code, ErrorCode::out_of_memory);
    EXPECT_EQ(open_descriptors(), descriptors);
    EXPECT_EQ(node_pool::balance_of_thread(), nodes);
  }
  node_pool::fail_nth(0);
  EXPECT_EQ(nth, 3u);  // two nodes
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST(FileSource, ThreadsReadSideBySideAndEveryReadIsCounted) {
  const Content content = counting(1 << 16);
  const ScratchFile scratch(content);
  const Ref<File> file = opened(scratch);
  constexpr std::size_t reads = 500;
  std::atomic<int> wrong{0};
  std::vector<std::jthread> threads;
  for (std::size_t thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      Content to(97);
      for (std::size_t i = 0; i < reads; ++i) {
        const std::size_t offset = (i * 7919 + thread * 104'729) % (content.size() - to.size());
        const bool right = file->copy_out(file->block(), offset, to).has_value() &&
                           to == part(content, offset, to.size());
        wrong += right ? 0 : 1;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(file->reads().calls, 8 * reads);
  EXPECT_EQ(file->reads().bytes, 8 * reads * 97);
}

TEST(FileSource, AReadBesideAWriterBringsTheOldBytesOrAnError) {
  const Content content = counting(1 << 20);
  for (int round = 0; round < 20; ++round) {
    const ScratchFile scratch(content);
    const Ref<File> file = opened(scratch);
    Content to(content.size());
    std::atomic<bool> reading{false};
    std::jthread writer([&] {
      while (!reading) std::this_thread::yield();
      // The end first: a read under way has not come there yet.
      scratch.overwrite(content.size() - 4096, counting(4096, 77));
      scratch.resize(content.size() / 2);
    });
    std::size_t good = 0;
    for (;; ++good) {
      reading = good > 0;  // right before a read, so that the write falls into it
      const auto read = file->copy_out(file->block(), 0, to);
      if (!read.has_value()) {
        EXPECT_EQ(read.error().code, ErrorCode::source_changed) << describe(read.error());
        break;
      }
      ASSERT_EQ(std::memcmp(to.data(), content.data(), to.size()), 0);
    }
    EXPECT_GE(good, 1u);
  }
}

}  // namespace
}  // namespace assay
