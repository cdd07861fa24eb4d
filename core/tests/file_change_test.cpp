// What happens to a file behind a File's back: which of it is a change of the source.
#include <gtest/gtest.h>

#include "checking_backing.hpp"
#include "file_fixture.hpp"

namespace assay {
namespace {

using test::Content;
using test::counting;
using test::Event;
using test::opened;
using test::part;
using test::ScratchFile;

class FileThatChanged : public testing::TestWithParam<Event> {};
class FileThatStayed : public testing::TestWithParam<Event> {};

TEST_P(FileThatChanged, IsSourceChangedAndNothingIsWritten) {  // bytes:W-15
  const ScratchFile scratch(counting(10'000));
  const Ref<File> file = opened(scratch, {.offset = 100, .size = 5000});
  ASSERT_TRUE(file->verify(file->block()).has_value());
  GetParam().happen(scratch);
  Content to(5000);
  const Content before = to;
  for (int again = 0; again < 2; ++again) {  // for good
    const auto read = file->copy_out(file->block(), 0, to);
    ASSERT_FALSE(read.has_value());
    EXPECT_EQ(read.error().code, ErrorCode::source_changed);
    EXPECT_FALSE(read.error().retryable);
    EXPECT_STRNE(read.error().native_text, "");
    EXPECT_EQ(file->verify(file->block()).error().code, ErrorCode::source_changed);
  }
  EXPECT_EQ(to, before);
  EXPECT_EQ(file->reads().calls, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    FileSource, FileThatChanged,
    testing::Values(Event{"Emptied", [](const ScratchFile& file) { file.resize(0); }},
                    Event{"CutBehindTheWindow", [](const ScratchFile& file) { file.resize(9000); }},
                    Event{"Grown", [](const ScratchFile& file) { file.resize(10'001); }},
                    Event{"CutAndGrownBack",
                          [](const ScratchFile& file) {
                            file.resize(0);
                            file.resize(10'000);
                          }},
                    Event{"Overwritten",
                          [](const ScratchFile& file) { file.overwrite(200, counting(9)); }},
                    Event{"Touched", [](const ScratchFile& file) { file.touch(); }},
                    Event{"OverwrittenAndItsTimeSetBack",
                          [](const ScratchFile& file) { file.overwrite_unseen(200, counting(9)); }},
                    Event{"CutAndItsTimeSetBackUnderAnotherLink",
                          [](const ScratchFile& file) {
                            ASSERT_EQ(::link(file.path(), file.beside("second").c_str()), 0);
                            const struct stat before = file.status();
                            file.resize(9000);
                            const timespec times[2] = {before.st_atim, before.st_mtim};
                            ASSERT_EQ(::utimensat(AT_FDCWD, file.path(), times, 0), 0);
                          }},
                    Event{"OverwrittenByAnotherNameAfterAReplacement",
                          [](const ScratchFile& file) {
                            const int old = ::open(file.path(), O_WRONLY | O_CLOEXEC);
                            file.replace(counting(10));
                            ASSERT_EQ(::pwrite(old, "x", 1, 300), 1);
                            ::close(old);
                          }}),
    [](const auto& test) { return test.param.name; });

TEST_P(FileThatStayed, KeepsItsBytes) {
  const Content content = counting(10'000);
  const ScratchFile scratch(content);
  const Ref<File> file = opened(scratch, {.offset = 100, .size = 5000});
  GetParam().happen(scratch);
  Content to(5000);
  const auto read = file->copy_out(file->block(), 0, to);
  ASSERT_TRUE(read.has_value()) << describe(read.error());
  EXPECT_TRUE(file->verify(file->block()).has_value());
  EXPECT_EQ(to, part(content, 100, 5000));
}

INSTANTIATE_TEST_SUITE_P(
    FileSource, FileThatStayed,
    testing::Values(Event{"ReplacedByRename",
                          [](const ScratchFile& file) { file.replace(counting(10'000, 9)); }},
                    Event{"Unlinked",
                          [](const ScratchFile& file) { ASSERT_EQ(::unlink(file.path()), 0); }},
                    Event{"RenamedAway",
                          [](const ScratchFile& file) {
                            ASSERT_EQ(::rename(file.path(), file.beside("old").c_str()), 0);
                          }},
                    Event{"RenamedAwayAndAnotherInItsPlace",
                          [](const ScratchFile& file) {
                            ASSERT_EQ(::rename(file.path(), file.beside("old").c_str()), 0);
                            ScratchFile::create(file.path(), counting(10'000, 9));
                          }},
                    Event{"Linked",
                          [](const ScratchFile& file) {
                            ASSERT_EQ(::link(file.path(), file.beside("second").c_str()), 0);
                          }},
                    Event{"MadeUnreadable",
                          [](const ScratchFile& file) { ASSERT_EQ(::chmod(file.path(), 0), 0); }},
                    Event{"ReadByOthers",
                          [](const ScratchFile& file) { ASSERT_GT(opened(file)->size(), 0u); }}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace assay
