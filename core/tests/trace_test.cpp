#include "assay/harness/trace.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <locale>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include "assay/harness/pattern.hpp"

namespace assay::harness {
namespace {

constexpr std::string_view example =
    "assay-trace 1\n"
    "dialect: block\n"
    "subject: slab_pool(heap)\n"
    "property: disjoint\n"
    "seed: 42\n"
    "page_size: 4096\n"
    "clock: monotonic\n"
    "dropped: 3\n"
    "note: kept: as it is # here\n"
    "events\n"
    "0 0 0 0 allocate 0 size=4096 alignment=64 init=zero ok\n"
    "1 1250 1 0 allocate 1 size=18446744073709551615 too_large\n"
    "4 3100 0 7 free 0 ok\n"
    "end 3\n";

/// The example with one line replaced; the row of that line, from 1.
std::pair<std::string, std::uint64_t> with(std::string_view line, std::string_view instead) {
  std::string text(example);
  const std::size_t at = text.find(line);
  EXPECT_NE(at, std::string::npos) << line;
  const auto row = static_cast<std::uint64_t>(std::ranges::count(text.substr(0, at), '\n'));
  text.replace(at, line.size(), instead);
  return {text, row + 1};
}

TEST(Trace, ReadsTheGrammar) {
  const auto trace = parse_trace(example, "example");
  ASSERT_TRUE(trace.has_value()) << trace.error().describe();
  EXPECT_TRUE(trace->is_counterexample());
  EXPECT_EQ(trace->header.subject, "slab_pool(heap)");
  EXPECT_EQ(trace->header.property, "disjoint");
  EXPECT_EQ(trace->header.seed, 42u);
  EXPECT_EQ(trace->header.dropped, 3u);
  ASSERT_EQ(trace->header.extra.size(), 1u);
  EXPECT_EQ(trace->header.extra[0].second, "kept: as it is # here");
  ASSERT_EQ(trace->events.size(), 3u);
  EXPECT_EQ(trace->events[0].alignment, 64u);
  EXPECT_EQ(trace->events[0].init, Init::zero);
  EXPECT_EQ(trace->events[1].size, UINT64_MAX);
  EXPECT_EQ(trace->events[1].outcome, ErrorCode::too_large);
  EXPECT_EQ(trace->events[1].thread, 1u);
  EXPECT_EQ(trace->events[2].operation, TraceOperation::free);
  EXPECT_EQ(trace->events[2].stream, 7u);
  EXPECT_EQ(to_text(*trace), example);
}

TEST(Trace, CommentsBlankLinesAndCarriageReturnsChangeNothing) {
  std::string text = "assay-trace 1\r\n";
  for (const char c : example.substr(example.find('\n') + 1)) {
    text += c == '\n' ? std::string("\r\n\r\n  # a remark\r\n") : std::string(1, c);
  }
  const auto noisy = parse_trace(text, "noisy");
  ASSERT_TRUE(noisy.has_value()) << noisy.error().describe();
  EXPECT_EQ(*noisy, *parse_trace(example, "example"));
  EXPECT_TRUE(parse_trace(example.substr(0, example.size() - 1), "no final newline").has_value());
}

TEST(Trace, RefusesWithTheRow) {
  struct Case {
    std::string_view line;
    std::string_view instead;
    std::string_view says;
  };
  const Case cases[] = {
      {"assay-trace 1", "assay-trace 2", "version '2'"},
      {"assay-trace 1", "assay-traces 1", "no 'assay-trace' line"},
      {"dialect: block", "dialect: handle", "dialect 'handle'"},
      {"page_size: 4096", "seed: 1", "stands twice"},
      {"seed: 42", "seed: 18446744073709551616", "not a number of 64 bits"},
      {"seed: 42", "Seed: 42", "malformed"},
      {"seed: 42", "seed", "neither 'key: value' nor 'events'"},
      {"seed: 42", "note2: a\x01z", "control character"},
      {"seed: 42", "note2: a\tz", "control character"},
      {"1 1250 1 0 allocate", "1 1250 1 0 alocate", "operation 'alocate'"},
      {"1 1250 1 0 allocate", "1 1250 4294967296 0 allocate", "not a number of 32 bits"},
      {"1 1250 1 0 allocate", "1 -5 1 0 allocate", "time '-5'"},
      {"1 1250 1 0 allocate", "1 12.5 1 0 allocate", "time '12.5'"},
      {"1 1250 1 0 allocate", "0 1250 1 0 allocate", "does not follow"},
      {"size=18446744073709551615", "size=18446744073709551616", "size '184"},
      {"size=18446744073709551615", "size=", "size ''"},
      {"size=18446744073709551615", "sise=3", "key 'sise'"},
      {"size=18446744073709551615", "size=3 size=3", "stands twice"},
      {"size=18446744073709551615", "size=3 init=one", "init 'one'"},
      {"size=18446744073709551615 too_large", "too_large", "names no size"},
      {"too_large", "huge", "outcome 'huge'"},
      {"too_large", "none", "outcome 'none'"},
      {"size=18446744073709551615 too_large", "size=4", "names no outcome"},
      {"too_large", "ok ok", "follows the outcome"},
      {"allocate 1 size=18446744073709551615 too_large", "allocate 0 size=1 ok",
       "while it is live"},
      {"end 3", "end 2", "cut off"},
      {"end 3", "end 4", "cut off"},
      {"end 3", "end three", "not a number"},
      {"end 3", "end 3 3", "more than a count"},
  };
  for (const Case& one : cases) {
    const auto [text, row] = with(one.line, one.instead);
    const auto trace = parse_trace(text, "bad");
    ASSERT_FALSE(trace.has_value()) << one.instead;
    EXPECT_EQ(trace.error().row, row) << trace.error().describe();
    EXPECT_NE(trace.error().message.find(one.says), std::string::npos)
        << trace.error().describe() << " does not say " << one.says;
    EXPECT_EQ(trace.error().describe().find('\n'), std::string::npos);
  }
}

TEST(Trace, EveryCutIsRefused) {
  // The last newline alone proves nothing; every other prefix has lost something.
  for (std::size_t length = 0; length + 1 < example.size(); ++length) {
    EXPECT_FALSE(parse_trace(example.substr(0, length), "cut").has_value()) << length;
  }
  EXPECT_FALSE(parse_trace(std::string(example) + "5 0 0 0 free 1 ok\n", "more").has_value());
}

TEST(Trace, OperationsOnUnknownIdsAndReuseOfDeadIdsAreLegal) {
  EXPECT_TRUE(parse_trace("assay-trace 1\ndialect: block\nevents\n"
                          "0 0 0 0 free 9 ok\n"
                          "1 0 0 0 resize 8 size=3 ok\n"
                          "2 0 0 0 allocate 9 size=0 ok\n"
                          "3 0 0 0 free 9 ok\n"
                          "4 0 0 0 allocate 9 size=1 ok\n"
                          "end 5",
                          "partial")
                  .has_value());
}

rc::Gen<std::uint64_t> any_figure() {
  return rc::gen::oneOf(rc::gen::inRange<std::uint64_t>(0, 5), rc::gen::arbitrary<std::uint64_t>(),
                        rc::gen::element<std::uint64_t>(UINT64_MAX, UINT64_MAX - 1));
}

rc::Gen<std::string> any_value() {  // trimmed printable text, '#' and ':' included
  return rc::gen::map(rc::gen::container<std::string>(rc::gen::inRange<char>(' ', '~')),
                      [](std::string text) {
                        text.erase(0, text.find_first_not_of(' '));
                        while (text.ends_with(' ')) text.pop_back();
                        return text;
                      });
}

Trace any_trace() {
  Trace trace;
  trace.header.subject = *any_value();
  trace.header.property = *any_value();
  trace.header.clock = *any_value();
  trace.header.seed = *any_figure();
  trace.header.page_size = *any_figure();
  trace.header.dropped = *any_figure();
  const auto extras = *rc::gen::inRange(0, 3);
  for (int i = 0; i < extras; ++i) {
    trace.header.extra.emplace_back("x." + std::to_string(i), *any_value());
  }
  const auto count = *rc::gen::inRange<std::uint64_t>(0, 20);
  std::uint64_t sequence = *rc::gen::inRange<std::uint64_t>(0, 10);
  for (std::uint64_t i = 0; i < count; ++i) {
    TraceEvent event;
    event.sequence = sequence;
    sequence += *rc::gen::inRange<std::uint64_t>(1, 1u << 30);
    event.time_ns = *any_figure();
    event.thread = *rc::gen::arbitrary<std::uint32_t>();
    event.operation = static_cast<TraceOperation>(*rc::gen::inRange(0, 6));
    event.init = *rc::gen::element(Init::undefined, Init::zero);
    const auto code = *rc::gen::inRange(0, static_cast<int>(ErrorCode::parse) + 1);
    event.outcome = static_cast<ErrorCode>(code);
    event.stream = *any_figure();
    event.id = event.operation == TraceOperation::allocate ? i : *any_figure();
    event.size = *any_figure();
    event.alignment = *any_figure();
    event.offset = *any_figure();
    trace.events.push_back(event);
  }
  return trace;
}

RC_GTEST_PROP(Trace, RoundTrip, ()) {
  const Trace trace = any_trace();
  const std::string text = to_text(trace);
  const auto read = parse_trace(text, "generated");
  if (!read) RC_FAIL(read.error().describe());
  RC_ASSERT(*read == trace);
  RC_ASSERT(to_text(*read) == text);
}

RC_GTEST_PROP(Trace, DamagedTextIsReadOrRefusedInOneLine, ()) {
  std::string text = to_text(any_trace());
  const auto damages = *rc::gen::inRange(1, 6);
  for (int i = 0; i < damages && !text.empty(); ++i) {
    const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
    switch (*rc::gen::inRange(0, 4)) {
      case 0: text[at] = static_cast<char>(*rc::gen::arbitrary<std::uint8_t>()); break;
      case 1: text.erase(at, *rc::gen::inRange<std::size_t>(1, 9)); break;
      case 2:
        text.insert(at, text.substr(*rc::gen::inRange<std::size_t>(0, text.size()), 17));
        break;
      default: text.resize(at); break;
    }
  }
  const auto read = parse_trace(text, "damaged");
  if (read) {
    RC_ASSERT(parse_trace(to_text(*read), "again").value() == *read);
  } else {
    RC_ASSERT(!read.error().message.empty());
    RC_ASSERT(read.error().describe().find('\n') == std::string::npos);
  }
}

// fault:B-36: numbers do not follow the locale.
TEST(Trace, TextDoesNotFollowTheLocale) {
  struct Grouping : std::numpunct<char> {
    [[nodiscard]] char do_thousands_sep() const override { return '.'; }
    [[nodiscard]] std::string do_grouping() const override { return "\3"; }
  };
  const auto before = std::locale::global(std::locale(std::locale::classic(), new Grouping));
  const auto read = parse_trace(example, "example");
  const std::string written = read ? to_text(*read) : read.error().describe();
  std::locale::global(before);
  EXPECT_EQ(written, example);
}

TEST(Trace, HeaderValuesStayOneLine) {
  Trace trace;
  trace.header.subject = "two\nlines\t";
  const auto read = parse_trace(to_text(trace), "written");
  ASSERT_TRUE(read.has_value()) << read.error().describe();
  EXPECT_EQ(read->header.subject, "two lines");
}

class Folder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "assay-trace-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override {
    ASSERT_EQ(std::system(("rm -r '" + folder_ + "'").c_str()), 0);  // NOLINT(*-mt-unsafe)
  }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string folder_;
};

using TraceFile = Folder;

TEST_F(TraceFile, IsWrittenWholeAndReadBack) {
  ASSERT_TRUE(write_atomically(path("a.trace"), "before").has_value());
  ASSERT_TRUE(write_atomically(path("a.trace"), example).has_value());
  const auto loaded = load_trace(path("a.trace"));
  ASSERT_TRUE(loaded.has_value()) << loaded.error().describe();
  EXPECT_EQ(loaded->format, TraceFormat::assay_trace);
  EXPECT_EQ(loaded->rows, (std::vector<std::uint64_t>{11, 12, 13}));
  EXPECT_EQ(std::system(("test $(ls '" + folder_ + "' | wc -l) = 1").c_str()), 0);  // NOLINT
}

TEST_F(TraceFile, GzipIsToldByContentAndACutOneIsRefused) {
  ASSERT_TRUE(write_atomically(path("plain"), example).has_value());
  ASSERT_EQ(std::system(("gzip -k '" + path("plain") + "'").c_str()), 0);  // NOLINT(*-mt-unsafe)
  ASSERT_EQ(std::rename(path("plain.gz").c_str(), path("packed").c_str()), 0);
  const auto loaded = load_trace(path("packed"));
  ASSERT_TRUE(loaded.has_value()) << loaded.error().describe();
  EXPECT_EQ(loaded->trace, *parse_trace(example, ""));

  std::ifstream file(path("packed"), std::ios::binary);
  const std::string packed(std::istreambuf_iterator<char>(file), {});
  for (std::size_t length = 2; length < packed.size(); ++length) {
    ASSERT_TRUE(write_atomically(path("cut"), packed.substr(0, length)).has_value());
    const auto cut = load_trace(path("cut"));
    ASSERT_FALSE(cut.has_value()) << length;
    EXPECT_NE(cut.error().message.find("gzip"), std::string::npos) << cut.error().describe();
  }
  ASSERT_TRUE(write_atomically(path("tail"), packed + "tail").has_value());
  EXPECT_FALSE(load_trace(path("tail")).has_value());
  const std::string padding(1000, '\0');
  ASSERT_TRUE(write_atomically(path("padded"), packed + padding).has_value());
  EXPECT_TRUE(load_trace(path("padded")).has_value());
  ASSERT_TRUE(write_atomically(path("tail"), packed + padding + "x").has_value());
  EXPECT_FALSE(load_trace(path("tail")).has_value());

  std::string damaged = packed;
  damaged[damaged.size() - 8] ^= 1;  // the check sum, behind every row
  ASSERT_TRUE(write_atomically(path("damaged"), damaged).has_value());
  const std::string message = load_trace(path("damaged")).error().message;
  EXPECT_NE(message.find(fmt::format("damaged at byte {} of {}; {} whole rows", packed.size() - 4,
                                     packed.size(), std::ranges::count(example, '\n'))),
            std::string::npos)
      << message;
}

TEST_F(TraceFile, FailuresNameTheFileAndLeaveNothing) {
  EXPECT_EQ(load_trace(path("absent")).error().describe(),
            path("absent") + ": cannot be read: No such file or directory");
  EXPECT_FALSE(load_trace(folder_).has_value());
  EXPECT_FALSE(write_atomically(path("absent/a"), "text").has_value());
  EXPECT_FALSE(write_atomically("/dev/full", "text").has_value());
  EXPECT_EQ(std::system(("rmdir '" + folder_ + "' && mkdir '" + folder_ + "'").c_str()),  // NOLINT
            0);
}

TEST(Pattern, FindsEveryChangedByte) {
  std::vector<std::byte> bytes(41);
  for (const std::uint64_t offset : {0U, 1U, 7U, 8U, 13U}) {
    fill_pattern(bytes, 5, offset);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      ASSERT_EQ(bytes[i], pattern_byte(5, offset + i));
      bytes[i] ^= std::byte{0x10};
      EXPECT_EQ(check_pattern(bytes, 5, offset), i);
      bytes[i] ^= std::byte{0x10};
    }
    EXPECT_EQ(check_pattern(bytes, 5, offset), std::nullopt);
    EXPECT_NE(check_pattern(bytes, 6, offset), std::nullopt);
    EXPECT_NE(check_pattern(bytes, 5, offset + 8), std::nullopt);
  }
}

}  // namespace
}  // namespace assay::harness
