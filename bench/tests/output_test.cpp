#include <csignal>
#include <fstream>
#include <limits>
#include <locale>
#include <sstream>

#include <sys/resource.h>

#include "collect.hpp"
#include "result_file.hpp"
#include "row_json.hpp"
#include "support.hpp"

namespace assay::bench {
namespace {

using Measured = benchmark::BenchmarkReporter::Run;

Row some_row() {
  const Offer offer{.subjects = harness::subjects(), .families = families()};
  return rows_of(offer, offer.subjects, Scope::standard).at(3);
}

Measured some_run(double seconds, std::int64_t iterations) {
  Measured run;
  run.iterations = iterations;
  run.real_accumulated_time = seconds;
  run.cpu_accumulated_time = seconds;
  run.repetitions = 1;
  run.repetition_index = 0;
  run.time_unit = benchmark::kNanosecond;
  return run;
}

/// Digits in groups of three, and a decimal comma.
class Grouping final : public std::numpunct<char> {
 private:
  char do_thousands_sep() const override { return '.'; }
  char do_decimal_point() const override { return ','; }
  std::string do_grouping() const override { return "\3"; }
};

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// fault:B-35
TEST(RowJson, ZeroTimeAndOddTextStayStrictJson) {
  Measured run = some_run(0, 0);
  run.counters["rate"] = std::numeric_limits<double>::infinity();
  run.counters["ratio"] = std::numeric_limits<double>::quiet_NaN();
  run.report_label = "quote \" backslash \\ tab \t escape \x1b wide \u00e9 spoilt \xff";
  const Json read = Json::parse(text_of(json_of(some_row(), run), 2), nullptr, false);
  ASSERT_TRUE(read.is_object());
  EXPECT_TRUE(read["rate"].is_null());
  EXPECT_TRUE(read["ratio"].is_null());
  EXPECT_EQ(read["non_finite"], Json({"rate", "ratio"}));
  const Json failed =
      Json::parse(text_of(error_row(some_row(), "C:\\new\xfe"), -1), nullptr, false);
  EXPECT_EQ(failed["error_message"], "C:\\new\ufffd");
}

// fault:B-36
TEST(RowJson, LocalesChangeNothing) {
  Measured run = some_run(1.2345678e-3, 1234567);
  run.counters["items_per_second"] = 1234567.25;
  const auto write = [&] {
    return text_of(json_of(some_row(), run), 2) + text_of(library_context(), 2);
  };
  const auto without_load = [](std::string text) {  // the one thing that changes by itself
    const auto at = text.find("load_avg");
    return text.erase(at, text.find(']', at) - at);
  };
  const std::string classic = write();
  const std::locale before = std::locale::global(std::locale(std::locale(), new Grouping));
  std::ostringstream probe;
  probe << 1234567;
  std::string grouped;
  EXPECT_NO_THROW(grouped = write());
  std::locale::global(before);
  EXPECT_EQ(probe.str(), "1.234.567") << "the locale did not take";
  EXPECT_EQ(without_load(grouped), without_load(classic));
}

// fault:B-39
TEST(RowJson, AnOperationOfNoTimeIsFlagged) {
  EXPECT_EQ(json_of(some_row(), some_run(0.4e-3, 1'000'000))["suspicious"], 1);
  EXPECT_FALSE(json_of(some_row(), some_run(0.6e-3, 1'000'000)).contains("suspicious"));
  Row batch = some_row();
  Family sixteen = *batch.family;
  sixteen.allocations = 16;
  batch.family = &sixteen;
  EXPECT_EQ(json_of(batch, some_run(7e-3, 1'000'000))["suspicious"], 1);
}

TEST(RowJson, AFailedRunHasNoTime) {
  Measured run = some_run(1, 1);
  run.error_occurred = true;
  run.error_message = "assay: allocate: out_of_memory";
  const Json row = json_of(some_row(), run);
  EXPECT_EQ(row["error_occurred"], true);
  for (const char* key : {"real_time", "cpu_time", "iterations"}) EXPECT_FALSE(row.contains(key));
}

TEST(RowJson, TheLibrarysContextNamesNoHost) {
  const Json context = library_context();
  EXPECT_TRUE(context.contains("num_cpus"));
  EXPECT_TRUE(context.contains("library_build_type"));
  EXPECT_FALSE(context.contains("host_name"));
}

TEST(RowsFromLines, KeepWhatWasMeasuredBeforeACrash) {
  const Offer offer{.subjects = harness::subjects(), .families = families()};
  const auto rows = rows_of(offer, offer.subjects.first(1), Scope::standard);
  Json row;
  row["row"] = json_of(rows[0], some_run(1, 100));
  const std::string lines = text_of(Json{{"begin", rows[0].name}}, -1) + "\n" + text_of(row, -1) +
                            "\n" + text_of(Json{{"begin", rows[1].name}}, -1) + "\n{\"row\": {\"na";
  const auto collected = rows_from_lines(lines, rows, "child crashed: killed by signal 11");
  ASSERT_EQ(collected.rows.size(), rows.size());
  EXPECT_TRUE(collected.rows[0].contains("real_time"));
  EXPECT_EQ(collected.rows[1]["error_message"], "assay: child crashed: killed by signal 11");
  EXPECT_EQ(collected.rows[2]["error_message"].get<std::string>(),
            "assay: child crashed: killed by signal 11; not reached, it was in " + rows[1].name);
}

TEST(RowsFromLines, ARowThatIsMissingIsAnErrorEvenAfterAGoodEnd) {
  const Offer offer{.subjects = harness::subjects(), .families = families()};
  const auto rows = rows_of(offer, offer.subjects.first(1), Scope::standard);
  const auto collected = rows_from_lines("", rows, "");
  ASSERT_EQ(collected.rows.size(), rows.size());
  for (const Json& row : collected.rows) {
    EXPECT_EQ(row["error_message"], "assay: child ended without this row");
  }
}

TEST(ResultFile, AFailedWriteLeavesTheOldFileAndNothingElse) {
  const Folder folder;
  const std::string path = folder.file("result.json");
  ASSERT_TRUE(write_whole(path, "old").has_value());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto wrote = write_whole(path, std::string(5000, 'x'));
  ::setrlimit(RLIMIT_FSIZE, &before);
  (void)std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(wrote.has_value());
  EXPECT_EQ(wrote.error().native, EFBIG);
  EXPECT_EQ(contents(path), "old");
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(ResultFile, WritesThroughALinkAndToADevice) {
  const Folder folder;
  ASSERT_TRUE(write_whole(folder.file("target"), "old").has_value());
  std::filesystem::create_symlink("target", folder.file("link"));
  ASSERT_TRUE(write_whole(folder.file("link"), "new").has_value());
  EXPECT_EQ(contents(folder.file("target")), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file("link")));
  EXPECT_TRUE(write_whole("/dev/null", "text").has_value());
  EXPECT_EQ(write_whole("/dev/full", "text").error().native, ENOSPC);
  EXPECT_EQ(write_whole(folder.file("no/such"), "text").error().native, ENOENT);
  EXPECT_EQ(write_whole(folder.file(""), "text").error().native, EISDIR);
}

}  // namespace
}  // namespace assay::bench
