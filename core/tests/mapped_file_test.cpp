#include "assay/backing/mapped_file.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>

#include "assay/base/system.hpp"
#include "checking_backing.hpp"
#include "file_fixture.hpp"

namespace assay {
namespace {

using test::all_zero;
using test::block_of;
using test::changed;
using test::counting;
using test::Event;
using test::look;
using test::mapped;
using test::open_descriptors;
using test::ScratchFile;

TEST(MappedFile, AWindowIsTheFilesOwnPages) {
  const auto content = counting(3 * page_size() + 30);
  const ScratchFile scratch(content);
  const std::size_t page = page_size();
  for (const FileRegion& region :
       {FileRegion{}, FileRegion{1}, FileRegion{page, 10}, FileRegion{page + 24, 2 * page},
        FileRegion{page - 1, 2}, FileRegion{3 * page, 30}}) {
    const Ref<MappedFile> file = mapped(scratch.path(), region);
    const auto memory = file->memory();
    const auto rest = std::span(content).subspan(region.offset);
    const auto expected = region.size == FileRegion::to_end ? rest : rest.first(region.size);
    ASSERT_EQ(memory.size(), expected.size());
    EXPECT_TRUE(std::ranges::equal(memory, expected));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % page, region.offset % page);
    EXPECT_TRUE(is_aligned(block_of(*file).address, file->info().natural_alignment));
    std::vector<std::byte> copy(memory.size());
    ASSERT_TRUE(file->copy_out(block_of(*file), 0, copy).has_value());
    EXPECT_TRUE(std::ranges::equal(copy, expected));
    EXPECT_TRUE(file->verify(block_of(*file)).has_value());
  }
  EXPECT_EQ(mapped(scratch.path(), {page + 24})->info().natural_alignment, 8u);
  EXPECT_EQ(mapped(scratch.path(), {page})->info().natural_alignment, page);
  EXPECT_STREQ(mapped(scratch.path())->path(), scratch.path());
}

TEST(MappedFile, IsHostMemoryThatIsNeverWritten) {
  const ScratchFile scratch(counting(100));
  const Ref<MappedFile> file = mapped(scratch.path());
  const Block block = block_of(*file);
  EXPECT_STREQ(file->info().id, "mapped_file");
  EXPECT_EQ(file->info().capabilities,
            Capabilities(Capabilities::host_access | Capabilities::thread_safe));
  EXPECT_EQ(file->copy_in(block, 0, counting(1)).error().code, ErrorCode::not_supported);
  EXPECT_EQ(file->fill(block, 0, 1, std::byte{1}).error().code, ErrorCode::not_supported);
  EXPECT_EQ(file->release(block, {}), Freed::now);
  EXPECT_TRUE(std::ranges::equal(file->memory(), counting(100)));
}

TEST(MappedFile, AnEmptyWindowHasNoMemory) {
  const ScratchFile scratch(counting(10));
  const Ref<MappedFile> file = mapped(scratch.path(), {10});
  EXPECT_TRUE(file->memory().empty());
  EXPECT_EQ(file->memory().data(), nullptr);
  EXPECT_TRUE(file->verify({}).has_value());
  scratch.touch();
  EXPECT_TRUE(changed(*file));
}

TEST(MappedFile, WhatCannotBeMappedIsTold) {
  const ScratchFile scratch(counting(10));
  EXPECT_EQ(MappedFile::open(scratch.beside("none").c_str()).error().native, ENOENT);
  EXPECT_EQ(MappedFile::open("/").error().code, ErrorCode::invalid_argument);
  const auto past = MappedFile::open(scratch.path(), {5, 6});
  EXPECT_EQ(past.error().code, ErrorCode::out_of_range);
  EXPECT_EQ(past.error().limit, 5u);
  EXPECT_STREQ(past.error().backing, "mapped_file");
  // More than the address space holds.
  const int sparse = ::memfd_create("sparse", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(sparse, off_t{1} << 62), 0);
  const auto large = MappedFile::open(("/proc/self/fd/" + std::to_string(sparse)).c_str());
  EXPECT_EQ(large.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(large.error().native, ENOMEM);
  EXPECT_EQ(large.error().requested, std::uint64_t{1} << 62);
  ::close(sparse);
}

TEST(MappedFile, OutOfMemoryLeavesNothingBehind) {
  const ScratchFile scratch(counting(10));
  const std::size_t descriptors = open_descriptors();
  const auto nodes = node_pool::balance_of_thread();
  std::uint64_t nth = 1;
  for (;; ++nth) {
    node_pool::fail_nth(nth);
    const auto file = MappedFile::open(scratch.path());
    if (node_pool::failure_pending()) break;
    ASSERT_FALSE(file.has_value());
    EXPECT_EQ(file.error().code, ErrorCode::out_of_memory);
  }
  node_pool::fail_nth(0);
  EXPECT_EQ(nth, 3u);  // two nodes
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(node_pool::balance_of_thread(), nodes);
}

TEST(MappedFile, ATruncatedFileReadsZeroAndSaysSo) {  // bytes:W-15
  const ScratchFile scratch(counting(5 * page_size()));
  const ScratchFile whole(counting(5 * page_size()));
  const Ref<MappedFile> file = mapped(scratch.path(), {page_size() + 3});
  const Ref<MappedFile> other = mapped(whole.path());
  const auto memory = file->memory();
  EXPECT_EQ(look(memory[0]), counting(page_size() + 4).back());
  scratch.resize(0);
  EXPECT_TRUE(all_zero(memory));  // every page of it is touched
  for (int again = 0; again < 2; ++again) {
    const auto answer = file->verify(block_of(*file));
    ASSERT_FALSE(answer.has_value());
    EXPECT_EQ(answer.error().code, ErrorCode::source_changed);
    EXPECT_STREQ(answer.error().backing, "mapped_file");
    std::vector<std::byte> to(10);
    EXPECT_EQ(file->copy_out(block_of(*file), 0, to).error().code, ErrorCode::source_changed);
  }
  EXPECT_TRUE(std::ranges::equal(other->memory(), counting(5 * page_size())));
  EXPECT_TRUE(other->verify(block_of(*other)).has_value());
}

TEST(MappedFile, FromTheFirstLostPageItReadsZeroForGood) {
  const auto content = counting(6 * page_size());
  const ScratchFile scratch(content);
  const Ref<MappedFile> file = mapped(scratch.path());
  const auto memory = file->memory();
  scratch.resize(2 * page_size());
  EXPECT_EQ(look(memory[4 * page_size() + 9]), std::byte{0});
  scratch.resize(6 * page_size());
  scratch.overwrite(0, content);
  EXPECT_TRUE(
      std::ranges::equal(memory.first(4 * page_size()), std::span(content).first(4 * page_size())));
  EXPECT_TRUE(all_zero(memory.subspan(4 * page_size())));
  EXPECT_TRUE(changed(*file));
}

TEST(MappedFile, ALostPageIsToldEvenIfTheFileLooksAsBefore) {
  const auto content = counting(2 * page_size());
  const ScratchFile scratch(content);
  const Ref<MappedFile> file = mapped(scratch.path());
  // The status change has a good reason, and the file its size and time back.
  ASSERT_EQ(::link(scratch.path(), scratch.beside("second").c_str()), 0);
  const struct stat before = scratch.status();
  scratch.resize(0);
  EXPECT_EQ(look(file->memory()[page_size()]), std::byte{0});
  scratch.overwrite(0, content);
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, scratch.path(), times, 0), 0);
  EXPECT_TRUE(changed(*file));
}

class MappedFileThatChanged : public testing::TestWithParam<Event> {};

TEST_P(MappedFileThatChanged, SaysSoWithoutBeingTouched) {
  const ScratchFile scratch(counting(3 * page_size()));
  const Ref<MappedFile> file = mapped(scratch.path());
  ASSERT_TRUE(file->verify(block_of(*file)).has_value());
  GetParam().happen(scratch);
  EXPECT_TRUE(changed(*file));
  std::vector<std::byte> to(10);
  EXPECT_EQ(file->copy_out(block_of(*file), 0, to).error().code, ErrorCode::source_changed);
  const auto heap = test::CheckingBacking::make();
  const Request request{.size = to.size()};
  const Block block = heap->allocate(request).value();
  EXPECT_EQ(heap->copy_between(block, 0, *file, block_of(*file), 0, to.size()).error().code,
            ErrorCode::source_changed);
  heap->deallocate(block, request);
  EXPECT_TRUE(all_zero(to));
}

INSTANTIATE_TEST_SUITE_P(
    MappedFile, MappedFileThatChanged,
    testing::Values(Event{"Cut", [](const ScratchFile& file) { file.resize(page_size() + 1); }},
                    Event{"CutAndGrownBack",
                          [](const ScratchFile& file) {
                            file.resize(0);
                            file.resize(3 * page_size());
                          }},
                    Event{"Overwritten",
                          [](const ScratchFile& file) { file.overwrite(5, counting(9)); }},
                    Event{"OverwrittenAndItsTimeSetBack",
                          [](const ScratchFile& file) { file.overwrite_unseen(5, counting(9)); }}),
    [](const auto& test) { return test.param.name; });

/// A page that the copy must wait for: at its first touch the file is cut, then the page is there.
struct CutsAtFirstTouch {
  static inline const ScratchFile* file = nullptr;
  static inline std::byte* page = nullptr;
  static void touched(int) {
    file->resize(0);
    ::mprotect(page, page_size(), PROT_READ | PROT_WRITE);
  }
};

TEST(MappedFile, AChangeInTheMiddleOfACopyIsAnError) {
  const ScratchFile scratch(counting(3 * page_size()));
  const Ref<MappedFile> file = mapped(scratch.path());
  void* const to = ::mmap(nullptr, page_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CutsAtFirstTouch::file = &scratch;
  CutsAtFirstTouch::page = static_cast<std::byte*>(to);
  struct sigaction before{};
  struct sigaction ours{};
  ours.sa_handler = CutsAtFirstTouch::touched;
  ASSERT_EQ(::sigaction(SIGSEGV, &ours, &before), 0);
  const auto copy = file->copy_out(block_of(*file), 9, {CutsAtFirstTouch::page, page_size()});
  ASSERT_EQ(::sigaction(SIGSEGV, &before, nullptr), 0);
  ::munmap(to, page_size());
  EXPECT_EQ(scratch.status().st_size, 0);
  ASSERT_FALSE(copy.has_value());
  EXPECT_EQ(copy.error().code, ErrorCode::source_changed);
}

TEST(MappedFile, ItsPagesAndItsDescriptorGoWithIt) {
  const ScratchFile scratch(counting(10));
  const auto mappings = [&] {
    std::ifstream maps("/proc/self/maps");
    int count = 0;
    for (std::string line; std::getline(maps, line);) {
      count += line.ends_with(scratch.path()) ? 1 : 0;
    }
    return count;
  };
  const std::size_t descriptors = open_descriptors();
  Ref<MappedFile> file = mapped(scratch.path());
  EXPECT_EQ(mappings(), 1);
  file = {};
  EXPECT_EQ(mappings(), 0);
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST(MappedFile, AReplacedFileKeepsItsBytes) {
  const ScratchFile scratch(counting(100));
  const Ref<MappedFile> file = mapped(scratch.path());
  scratch.replace(counting(100, 50));
  EXPECT_TRUE(std::ranges::equal(file->memory(), counting(100)));
  EXPECT_TRUE(file->verify(block_of(*file)).has_value());
}

TEST(MappedFile, ASystemCallFailsOnALostPage) {
  const ScratchFile scratch(counting(10));
  const Ref<MappedFile> file = mapped(scratch.path());
  scratch.resize(0);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  EXPECT_EQ(::write(ends[1], file->memory().data(), 10), -1);
  EXPECT_EQ(errno, EFAULT);
  errno = 77;
  EXPECT_EQ(look(file->memory()[0]), std::byte{0});
  EXPECT_EQ(errno, 77);  // a fault that is mended goes unnoticed
  EXPECT_EQ(::write(ends[1], file->memory().data(), 10), 10);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(MappedFile, AForkedChildMendsItsOwnPages) {
  const ScratchFile scratch(counting(10));
  const Ref<MappedFile> file = mapped(scratch.path());
  scratch.resize(0);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool zero = look(file->memory()[5]) == std::byte{0};
    ::_exit(zero && changed(*file) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(look(file->memory()[5]), std::byte{0});
}

/// Every thread maps, loses pages of its own and unmaps, among the mappings of the others.
TEST(MappedFile, ThreadsMapAndUnmapWhileOthersLosePages) {
  constexpr std::size_t pages = 4;
  const auto content = counting(pages * page_size());
  const ScratchFile kept(content);
  std::atomic<int> wrong{0};
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 6; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 60; ++i) {
        const Ref<MappedFile> sound = mapped(kept.path());
        if (thread % 2 == 0) {
          const ScratchFile scratch(content);
          const Ref<MappedFile> torn = mapped(scratch.path());
          scratch.resize(page_size());
          wrong += all_zero(torn->memory().subspan(page_size())) ? 0 : 1;
          wrong += changed(*torn) ? 0 : 1;
        }
        wrong += std::ranges::equal(sound->memory(), content) ? 0 : 1;
        wrong += sound->verify(block_of(*sound)).has_value() ? 0 : 1;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

TEST(MappedFile, ManyThreadsLoseTheSamePagesAtOnce) {
  for (int round = 0; round < 20; ++round) {
    const ScratchFile scratch(counting(16 * page_size()));
    const Ref<MappedFile> file = mapped(scratch.path());
    std::atomic<int> ready{0};
    std::atomic<int> wrong{0};
    scratch.resize(0);
    std::vector<std::jthread> threads;
    for (std::size_t thread = 0; thread < 8; ++thread) {
      threads.emplace_back([&, thread] {
        for (++ready; ready < 8;) std::this_thread::yield();
        for (std::size_t page = 0; page < 16; ++page) {
          const std::size_t at = ((page * 5 + thread * 3) % 16) * page_size() + thread;
          wrong += look(file->memory()[at]) == std::byte{0} && changed(*file) ? 0 : 1;
        }
      });
    }
    threads.clear();
    EXPECT_EQ(wrong, 0);
  }
}

}  // namespace
}  // namespace assay
