#include "program.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "assay/harness/output.hpp"
#include "crew.hpp"
#include "measure.hpp"
#include "options.hpp"
#include "report.hpp"
#include "result_file.hpp"
#include "row_json.hpp"

namespace assay::yardstick {
namespace {

template <class... Arguments>
void complain(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::print(stderr, "assay-yardstick: {}\n",
             fmt::format(format, std::forward<Arguments>(arguments)...));
}

/// One updating line on a terminal, else a plain line for each row.
class Progress {
 public:
  explicit Progress(std::size_t rows) : terminal_(::isatty(STDERR_FILENO) == 1), rows_(rows) {}
  ~Progress() {
    if (terminal_) fmt::print(stderr, "\r\033[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void begin(const Row& row) {
    ++number_;
    if (!terminal_) return;
    fmt::print(stderr, "\r\033[K[{}/{}] {}", number_, rows_, id_of(row));
    std::fflush(stderr);
  }
  void end(const Row& row, const Outcome& outcome) const {
    if (terminal_) {
      fmt::print(stderr, "\r\033[K");
      return;
    }
    const std::string_view what = !outcome.error.empty()     ? "FAILED"
                                  : !outcome.skipped.empty() ? "skipped"
                                                             : name_of(outcome.verdict);
    fmt::print(stderr, "[{}/{}] {}: {}\n", number_, rows_, id_of(row), what);
  }

 private:
  bool terminal_;
  std::size_t rows_;
  std::size_t number_ = 0;
};

struct Chosen {
  const Row* row = nullptr;
  std::size_t index = 0;  ///< in the program
};

/// How many rows came to what.
struct Tally {
  std::size_t met = 0;
  std::size_t missed = 0;
  std::size_t disturbed = 0;
  std::size_t checked = 0;
  std::size_t failed = 0;
  std::size_t skipped = 0;

  void add(const Outcome& outcome) {
    if (!outcome.error.empty()) {
      ++failed;
    } else if (!outcome.skipped.empty()) {
      ++skipped;
    } else {
      switch (outcome.verdict) {
        case Verdict::checked: ++checked; break;
        case Verdict::met: ++met; break;
        case Verdict::missed: ++missed; break;
        case Verdict::disturbed: ++disturbed; break;
      }
    }
  }
  [[nodiscard]] std::string line(bool smoke) const {
    const std::string measured =
        smoke ? fmt::format("{} checked", checked)
              : fmt::format("{} met, {} missed, {} disturbed", met, missed, disturbed);
    return fmt::format("{}, {} failed, {} skipped", measured, failed, skipped);
  }
  [[nodiscard]] Exit ending(bool strict) const {
    if (failed != 0) return Exit::bad;
    if (met + missed + disturbed + checked == 0) return Exit::nothing_ran;
    return strict && missed + disturbed != 0 ? Exit::inconclusive : Exit::good;
  }
};

void list(std::span<const Chosen> chosen, std::size_t width) {
  for (const Chosen& one : chosen) {
    fmt::print("{:<{}} {} <= {} x {}\n", id_of(*one.row), width, one.row->summary, one.row->limit,
               one.row->yardstick);
  }
}

Exit measure(const Options& options, std::span<const Chosen> chosen, std::size_t width) {
  Settings settings;
  settings.windows = options.windows;
  settings.smoke = options.smoke;
  Json document;
  document["context"] = context_of(options);  // of the process as it came, before it is pinned
  const std::size_t usable = cpus().size();
  if (usable == 0 || !pin_to(cpus()[0])) complain("this thread cannot be pinned to a CPU");
  Json rows = Json::array();
  Tally tally;
  fmt::print("{}\n", table_head(width));
  std::fflush(stdout);
  {
    Progress progress(chosen.size());
    for (const Chosen& one : chosen) {
      progress.begin(*one.row);
      const Outcome outcome = run_row(*one.row, settings, usable);
      progress.end(*one.row, outcome);
      tally.add(outcome);
      fmt::print("{}\n", table_line(*one.row, outcome, width));
      std::fflush(stdout);
      rows.push_back(json_of(*one.row, outcome, one.index));
    }
  }
  fmt::print("\n{}\n", tally.line(options.smoke));
  if (!options.json.empty()) {
    document["benchmarks"] = std::move(rows);
    const auto wrote = bench::write_whole(options.json, bench::text_of(document, 2) + "\n");
    if (!wrote) {
      complain("--json {}: {}", options.json, describe(wrote.error()));
      return Exit::usage;
    }
  }
  return tally.ending(options.strict);
}

Exit run(int argc, char** argv, std::span<const Row> rows) {
  const Parsed parsed = parse_options(argc, argv);
  if (parsed.ends) return *parsed.ends;
  const Options& options = parsed.options;
  std::string why;
  const auto filter = bench::RowFilter::make(options.filter, why);
  if (!filter) {
    complain("--filter: '{}' is not a regular expression: {}", options.filter, why);
    return Exit::usage;
  }
  std::vector<Chosen> chosen;
  std::size_t width = 3;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!filter.value().matches(id_of(rows[i]))) continue;
    chosen.push_back({&rows[i], i});
    width = std::max(width, id_of(rows[i]).size());
  }
  if (chosen.empty()) {
    complain("--filter: no row matches '{}'; see --list", options.filter);
    return Exit::usage;
  }
  if (options.list) {
    list(chosen, width);
    return Exit::good;
  }
  if (!options.json.empty()) {  // asked before a long run
    if (const auto writable = harness::check_writable(options.json); !writable) {
      complain("--json {}: {}", options.json, describe(writable.error()));
      return Exit::usage;
    }
  }
  return measure(options, chosen, width);
}

}  // namespace

int yardstick_main(int argc, char** argv, std::span<const Row> rows) noexcept {
  return harness::run_program("assay-yardstick",
                              [&] { return static_cast<int>(run(argc, argv, rows)); });
}

}  // namespace assay::yardstick
