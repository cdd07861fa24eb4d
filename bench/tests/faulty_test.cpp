// A broken subject is an error row, never a fast row, and takes nobody with it.
#include <map>

#include <fmt/format.h>

#include "rows.hpp"
#include "support.hpp"

namespace assay::bench {
namespace {

struct Outcome {
  harness::ChildResult child;
  Json context;
  std::map<std::string, Json> rows;

  [[nodiscard]] std::string error(const std::string& name) const {
    const auto found = rows.find(name);
    if (found == rows.end()) return "no such row";
    return found->second.value("error_message", std::string());
  }
};

Outcome measure(const std::vector<std::string>& subjects, const std::string& filter,
                std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"--benchmark_format=json", "--benchmark_min_time=0.001",
                                        fmt::format("--benchmark_filter={}", filter)};
  for (const auto& id : subjects) arguments.push_back(fmt::format("--subject={}", id));
  arguments.insert(arguments.end(), more.begin(), more.end());
  Outcome outcome{.child = run("assay-bench-faulty", arguments), .context = {}, .rows = {}};
  const Json document = parsed(outcome.child);
  if (!document.is_object()) return outcome;
  outcome.context = document["context"];
  for (const Json& row : document["benchmarks"]) outcome.rows[row["name"]] = row;
  return outcome;
}

TEST(Faulty, AFineSubjectIsMeasured) {
  const auto outcome = measure({"fine"}, "^allocate_free");
  EXPECT_EQ(outcome.child.code, 0);
  EXPECT_EQ(outcome.rows.size(), 4u);
}

TEST(Faulty, ARefusalWhileTimedIsAnErrorRow) {
  const auto outcome = measure({"refuses_later", "fine"}, "^allocate_free/");
  EXPECT_EQ(outcome.child.code, 4);
  EXPECT_TRUE(outcome.error("allocate_free/backing:refuses_later/size:256")
                  .starts_with("assay: allocate: out_of_memory"));
  EXPECT_EQ(outcome.error("allocate_free/backing:refuses_later/size:64"), "");
  EXPECT_EQ(outcome.error("allocate_free/backing:fine/size:256"), "");
}

TEST(Faulty, ARefusalBeforeItIsTimedIsAnErrorRow) {
  const auto outcome = measure({"refuses"}, "size:256$");
  EXPECT_EQ(outcome.child.code, 4);
  EXPECT_TRUE(outcome.error("allocate_free/backing:refuses/size:256")
                  .starts_with("assay: allocate: out_of_memory"));
}

TEST(Faulty, ACrashLeavesErrorRowsAndTheOthersGoOn) {
  const auto outcome = measure({"crashes", "fine"}, "^allocate_free/");
  EXPECT_EQ(outcome.child.code, 4);
  EXPECT_EQ(outcome.error("allocate_free/backing:crashes/size:64"), "");
  EXPECT_TRUE(outcome.error("allocate_free/backing:crashes/size:256")
                  .starts_with("assay: child crashed: "));
  EXPECT_NE(outcome.error("allocate_free/backing:crashes/size:1024").find("not reached"),
            std::string::npos);
  EXPECT_EQ(outcome.error("allocate_free/backing:fine/size:1024"), "");
}

TEST(Faulty, AHangIsToldAndTheOthersGoOn) {
  const auto outcome = measure({"hangs", "fine"}, "^allocate_free/", {"--row-timeout=1"});
  EXPECT_EQ(outcome.child.code, 4);
  EXPECT_EQ(outcome.error("allocate_free/backing:hangs/size:256"),
            "assay: child hung: no progress for 1 s");
  EXPECT_EQ(outcome.error("allocate_free/backing:fine/size:1024"), "");
}

TEST(Faulty, AnExitInTheMiddleIsACrash) {
  const auto outcome = measure({"exits"}, "^allocate_free/");
  EXPECT_EQ(outcome.child.code, 4);
  EXPECT_EQ(outcome.error("allocate_free/backing:exits/size:256"), "assay: child crashed: exit 9");
}

TEST(Faulty, BlocksThatAreTooShortOrSharedAreErrorRows) {
  const auto outcome = measure({"short_blocks", "shares"}, "^allocate_free.*size:256$");
  EXPECT_EQ(outcome.child.code, 4);
  EXPECT_EQ(outcome.error("allocate_free/backing:short_blocks/size:256"),
            "assay: a block of 255 bytes for a request of 256");
  EXPECT_NE(outcome.error("allocate_free_batch/backing:shares/size:256")
                .find("does not hold what was written"),
            std::string::npos);
}

// fault:B-39
TEST(Faulty, WorkThatIsNotWhatTheNameSaysIsAnError) {
  const auto outcome = measure({"fine"}, "^miscounted");
  EXPECT_EQ(outcome.child.code, 4);
  EXPECT_EQ(outcome.error("miscounted/backing:fine/size:64"),
            "assay: an iteration made 2 allocations and 2 frees instead of 1 of each");
}

TEST(Faulty, AnAbsentSubjectIsSkippedAndSaid) {
  const auto outcome = measure({"absent", "fine"}, "^allocate_free/");
  EXPECT_EQ(outcome.child.code, 0) << outcome.child.standard_error;
  EXPECT_EQ(outcome.rows.size(), 3u);
  ASSERT_EQ(outcome.context["skipped_subjects"].size(), 1u);
  EXPECT_EQ(outcome.context["skipped_subjects"][0]["subject"], "absent");
  harness::Subject absent;
  absent.preload = "libassay-no-such-library.so.1";
  absent.package = "assay-test-package";
  EXPECT_NE(outcome.child.standard_error.find("absent is skipped: " + how_to_get(absent)),
            std::string::npos)
      << outcome.child.standard_error;
  EXPECT_EQ(run("assay-bench-faulty", {"--subject=absent", "--smoke"}).code, 77);
  EXPECT_EQ(run("assay-bench-faulty", {"--subject=absent", "--benchmark_list_tests"}).code, 77);
}

TEST(Faulty, APreloadThatDoesNotTakeIsSkipped) {
  const auto outcome = measure({"not_malloc"}, "^allocate_free/");
  EXPECT_EQ(outcome.child.code, 77) << outcome.child.standard_error;
  EXPECT_TRUE(outcome.rows.empty());
  EXPECT_EQ(outcome.context["skipped_subjects"].size(), 1u);
}

}  // namespace
}  // namespace assay::bench
