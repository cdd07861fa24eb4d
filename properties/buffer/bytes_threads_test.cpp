// Random commands by many threads at once on values of one block: each thread has handles of its
// own, and all look at one common handle. What each sees is as if it were alone. The data races are
// ThreadSanitizer's to find.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <random>
#include <thread>

#include "bytes_ops.hpp"
#include "homes.hpp"
#include "lazy_source.hpp"
#include "scratch_file.hpp"

namespace assay::properties {
namespace {

using Content = std::vector<std::byte>;

/// One thread's handles and what each holds.
class OneThread {
 public:
  OneThread(const Bytes& common, const Content& content, unsigned seed)
      : common_(common), content_(content), random_(seed) {}

  /// Returns the first thing that was wrong, or "".
  std::string run(int steps) {
    for (int i = 0; i < steps && fault_.empty(); ++i) {
      (random_() % 2 == 0) ? look_at_common() : step();
    }
    for (Held& held : held_) check(held.bytes, held.content);
    return fault_;
  }

 private:
  struct Held {
    Bytes bytes;
    Content content;
  };

  void expect(bool good, const char* what) {
    if (!good && fault_.empty()) fault_ = what;
  }
  void check(const Bytes& bytes, const Content& content) {
    const auto read = bytes.read();
    expect(read.has_value() && std::ranges::equal(read.value(), content), "another content");
  }
  std::size_t below(std::size_t limit) { return random_() % (limit + 1); }
  Content part(const Content& content, std::size_t start, std::size_t end) {
    const auto first = content.begin();
    return {first + static_cast<std::ptrdiff_t>(start), first + static_cast<std::ptrdiff_t>(end)};
  }
  Held& pick() { return held_[random_() % held_.size()]; }

  /// Const operations on the handle that every thread looks at.
  void look_at_common() {
    const std::size_t start = below(common_.len());
    const std::size_t end = start + below(common_.len() - start);
    switch (random_() % 9) {
      case 0: check(common_, content_); break;
      case 1: pick() = {common_.clone().value(), content_}; break;
      case 2: pick() = {common_.view(start, end).value(), part(content_, start, end)}; break;
      case 3: {
        Content to(end - start);
        expect(common_.copy_into(to, start).has_value() && to == part(content_, start, end),
               "copy_into gives other bytes");
        break;
      }
      case 4: {
        const Held& held = pick();
        const auto equal = common_.equals(held.bytes);
        expect(equal.has_value() && equal.value() == (held.content == content_), "equals is wrong");
        break;
      }
      case 5: {
        const std::string_view text(reinterpret_cast<const char*>(content_.data()),
                                    content_.size());
        const auto hash = common_.hash();
        expect(hash.has_value() && hash.value() == std::hash<std::string_view>()(text),
               "hash is not of the bytes");
        break;
      }
      case 6: {
        const auto read = common_.read(Reader::no_copy());
        expect(read.has_value() || read.error().code == ErrorCode::would_copy, "no_copy failed");
        expect(!read.has_value() || std::ranges::equal(common_.span(), content_),
               "a resident value shows other bytes");
        break;
      }
      case 7: {
        const bool resident = common_.is_resident();
        expect(!resident || common_.is_resident(), "residency was lost");
        expect(common_.len() == content_.size() && common_.capacity() == common_.len() &&
                   common_.is_shared() && common_.align() >= 1,
               "a fact changed");
        (void)common_.property();
        (void)common_.retained_bytes();
        expect(!fmt::format("{}", common_).empty(), "printed nothing");
        break;
      }
      default: {
        Content scratch(100);
        std::size_t seen = 0;
        const auto visit = [&](std::span<const std::byte> piece) {
          expect(std::equal(piece.begin(), piece.end(),
                            content_.begin() + static_cast<std::ptrdiff_t>(seen)),
                 "read_chunks gives other bytes");
          seen += piece.size();
          return Result<void>();
        };
        expect(common_.read_chunks(scratch, visit).has_value() && seen == content_.size(),
               "read_chunks gives too few");
      }
    }
  }

  /// Any operation on a handle of this thread's own.
  void step() {
    Held& a = pick();
    Held& b = pick();
    const std::size_t offset = below(a.bytes.len());
    switch (random_() % 10) {
      case 0: check(a.bytes, a.content); break;
      case 1: {
        const auto written = a.bytes.write();
        expect(written.has_value(), "write failed");
        for (std::size_t i = offset; i < a.content.size(); ++i) {
          written.value()[i] = a.content[i] = static_cast<std::byte>(random_() % 255 + 1);
        }
        break;
      }
      case 2: {
        if (&a == &b) break;
        b = {a.bytes.split(offset, random_() % 2 == 0 ? SplitPolicy::owned : SplitPolicy::shared)
                 .value(),
             part(a.content, offset, a.content.size())};
        a.content.resize(offset);
        break;
      }
      case 3: {
        if (&a == &b || !a.bytes.join(std::move(b.bytes))) break;
        a.content.insert(a.content.end(), b.content.begin(), b.content.end());
        b = {};
        break;
      }
      case 4:
        a.bytes.truncate(offset);
        a.content.resize(offset);
        break;
      case 5: {
        const Content more = test::counting(below(20), static_cast<unsigned>(below(100)));
        expect(a.bytes.extend(more).has_value(), "extend failed");
        a.content.insert(a.content.end(), more.begin(), more.end());
        break;
      }
      case 6: expect(a.bytes.shared().has_value(), "shared failed"); break;
      case 7: expect(a.bytes.compact().has_value(), "compact failed"); break;
      case 8: {
        auto array = a.bytes.try_into_owned<std::byte>();
        if (!array) break;
        const std::span<const std::byte> bytes(array.value().get(),
                                               array.value().get_deleter().size());
        expect(std::ranges::equal(bytes, a.content), "another array came out");
        a = {};
        break;
      }
      default: a = {};
    }
  }

  const Bytes& common_;
  const Content& content_;
  std::minstd_rand random_;
  std::array<Held, 4> held_;
  std::string fault_;
};

class BytesThreads : public testing::TestWithParam<const char*> {
 protected:
  static constexpr int threads = 4;
  static constexpr int rounds = 25;
  static constexpr int steps = 60;

  /// A shared value of the source that the parameter names.
  Bytes value() {
    const std::string_view source = GetParam();
    if (source == "block") {
      Bytes bytes = Bytes::from_span(content_, *home_).value();
      EXPECT_TRUE(bytes.shared().has_value());
      return bytes;
    }
    if (source == "constant") {
      return Bytes::from_external(ExternalMemory::constant(content_), *home_).value();
    }
    if (source == "vector") {
      Bytes bytes = Bytes::from_vector(Content(content_), *home_).value();
      EXPECT_TRUE(bytes.shared().has_value());
      return bytes;
    }
    if (source == "file") return Bytes::from_file(file_.path(), {}, *home_).value();
    if (source == "mapped") return Bytes::map_file(file_.path(), {}, *home_).value();
    if (source == "device") {
      auto buffer = UnifiedBuffer::create(content_.size(), {.backing = model_device()}).value();
      EXPECT_TRUE(buffer.write_at(0, content_).has_value());
      return buffer.freeze(*home_).value();
    }
    return test::lazy_bytes(lazy_, *home_);
  }

  const Content content_ = test::counting(1000, 5);
  const Ref<CheckingBacking> backing_ = CheckingBacking::make();
  const Ref<Home> home_ = Home::make(backing_, {.wipe = Wipe::on_release}).value();
  const Ref<test::LazySource> lazy_ = test::LazySource::make(content_);
  const test::ScratchFile file_{content_};
};

TEST_P(BytesThreads, EachSeesItsOwn) {
  for (int round = 0; round < rounds; ++round) {
    Bytes common = value();
    std::barrier together(threads);
    std::array<std::string, threads> faults;
    std::vector<std::thread> running;
    for (int i = 0; i < threads; ++i) {
      running.emplace_back([&, i] {
        OneThread thread(common, content_, static_cast<unsigned>(1 + round * threads + i));
        together.arrive_and_wait();
        faults[static_cast<std::size_t>(i)] = thread.run(steps);
      });
    }
    for (std::thread& thread : running) thread.join();
    for (const std::string& fault : faults) ASSERT_EQ(fault, "") << "round " << round;
    ASSERT_TRUE(std::ranges::equal(common.read().value(), content_));
    common = Bytes();
    ASSERT_EQ(backing_->usage().live_blocks, 0u);
  }
  EXPECT_TRUE(backing_->faults.empty()) << backing_->faults.front();
  const bool watched = std::string_view(GetParam()) == "lazy";
  EXPECT_EQ(lazy_->releases(), watched ? static_cast<std::uint64_t>(rounds) : 0u);
}

INSTANTIATE_TEST_SUITE_P(Every, BytesThreads,
                         testing::Values("lazy", "file", "mapped", "device", "constant", "vector",
                                         "block"),
                         [](const testing::TestParamInfo<const char*>& source) {
                           return std::string(source.param);
                         });

}  // namespace
}  // namespace assay::properties
