#include "child.hpp"

#include <cerrno>
#include <csignal>
#include <stdexcept>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "assay/base/system.hpp"
#include "assay/harness/driver_facts.hpp"
#include "row_json.hpp"

namespace assay::bench {
namespace {

constexpr std::string_view checked_on_model = "checked, no rates: model (not a GPU)";

/// Lines to the parent. What was written stays readable when this process dies.
class Wire {
 public:
  explicit Wire(int fd) : fd_(fd) {}

  void send(std::string_view key, Json value) const {
    Json message;
    message[std::string(key)] = std::move(value);
    const std::string line = text_of(message, -1) + "\n";
    for (std::size_t sent = 0; sent < line.size();) {
      const ssize_t wrote = ::write(fd_, line.data() + sent, line.size() - sent);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) throw std::runtime_error("cannot write to the parent process");
      sent += static_cast<std::size_t>(wrote);
    }
  }

 private:
  int fd_;
};

/// One row while the library runs it: calls the body several times, with growing iterations.
class RunningRow {
 public:
  RunningRow(const Row& row, const Options& options, const Wire& wire)
      : row_(&row),
        input_{row.size_bytes, options.seed},
        limit_s_(options.row_timeout_s),
        smoke_(options.smoke),
        wire_(&wire) {}

  void operator()(benchmark::State& state) {
    ::alarm(limit_s_);  // a row that hangs is killed; the parent knows which one it was
    if (!started_) start();
    if (trouble_.empty()) {
      row_->family->run(state, *backing_, input_);
    } else {
      state.SkipWithError(trouble_.c_str());
    }
    ::alarm(0);
  }

  [[nodiscard]] const Row& row() const noexcept { return *row_; }

  /// Lets go of the backing, so that the next row starts from a fresh one.
  void finish() { backing_ = {}; }

 private:
  void start() {
    started_ = true;
    wire_->send(begin_key, row_->name);
    trouble_ = make_and_verify();
  }

  std::string make_and_verify() {
    const std::size_t needed = row_->size_bytes * row_->family->live_blocks;
    if (const std::size_t free = available_memory(); free != 0 && needed + needed / 4 > free) {
      return fmt::format("{}needs {} bytes of memory, {} are available", skip_prefix, needed, free);
    }
    auto made = row_->subject->make({});
    if (!made) {
      const std::string why =
          row_->subject->needs_driver ? harness::why_no_driver(made.error().code) : "";
      return why.empty() ? fmt::format("{}{}", error_prefix, describe(made.error()))
                         : fmt::format("{}{}", skip_prefix, why);
    }
    backing_ = std::move(made).value();
    if (!backing_->can(row_->family->needs)) {
      return fmt::format("{}the subject lacks a capability that the row needs", skip_prefix);
    }
    const std::string wrong = row_->family->verify(*backing_, input_);
    if (!wrong.empty()) return fmt::format("{}{}", error_prefix, wrong);
    const bool on_model = row_->subject->needs_driver && harness::driver_is_model();
    if (!on_model) return "";
    if (smoke_) return fmt::format("{}{}", skip_prefix, checked_on_model);
    return fmt::format("{}{}", skip_prefix, harness::not_timed_on_model);
  }

  const Row* row_;
  Input input_;
  unsigned limit_s_;
  bool smoke_;
  const Wire* wire_;
  bool started_ = false;
  std::string trouble_;
  Ref<Backing> backing_;
};

/// Sends each run of a row, then lets go of its backing.
class WireReporter final : public benchmark::BenchmarkReporter {
 public:
  WireReporter(const Wire& wire, std::vector<RunningRow>& rows) : wire_(wire), rows_(rows) {}

 private:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      RunningRow* const row = find(run.run_name.function_name);
      if (row == nullptr) continue;
      wire_.send(row_key, json_of(row->row(), run));
      row->finish();
    }
  }
  RunningRow* find(const std::string& name) {
    for (RunningRow& one : rows_) {
      if (one.row().name == name) return &one;
    }
    return nullptr;
  }

  const Wire& wire_;
  std::vector<RunningRow>& rows_;
};

/// Sets every flag of the library that an environment variable could have set otherwise.
void initialize_library(const Options& options) {
  std::vector<std::string> flags = {
      "assay-bench",
      "--benchmark_filter=all",
      fmt::format("--benchmark_min_time={}", options.min_time_or_default_s()),
      fmt::format("--benchmark_repetitions={}", options.repetitions),
      "--benchmark_list_tests=false",
      "--benchmark_min_warmup_time=0",
      "--benchmark_enable_random_interleaving=false",
      "--benchmark_report_aggregates_only=false",
      "--benchmark_display_aggregates_only=false",
      "--benchmark_format=console",
      "--benchmark_out=",
      "--benchmark_perf_counters=",
      "--benchmark_time_unit=ns",
  };
  std::vector<char*> arguments;
  for (std::string& flag : flags) arguments.push_back(flag.data());
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  benchmark::Initialize(&count, arguments.data());
}

std::vector<Row> matching_rows(const Options& options, const Offer& offer,
                               const harness::Subject* subject) {
  std::string why;
  const auto filter = RowFilter::make(options.filter, why);
  if (!filter) throw std::runtime_error("the filter was refused: " + why);
  std::vector<Row> rows = rows_of(offer, {&subject, 1}, options.scope);
  std::erase_if(rows, [&](const Row& row) { return !filter.value().matches(row.name); });
  return rows;
}

}  // namespace

int run_child(const Options& options, const Offer& offer) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // also when the parent is killed, nothing stays behind
  if (::getppid() != options.parent_pid) return static_cast<int>(Exit::internal);
  const Wire wire(options.child_fd);
  const harness::Subject* subject = nullptr;
  for (const harness::Subject* one : offer.subjects) {
    if (one->id == options.subjects.at(0)) subject = one;
  }
  if (subject == nullptr) return static_cast<int>(Exit::usage);
  if (subject->is_process()) {
    if (const auto proven = harness::prove_preload(*subject); !proven) {
      wire.send(skip_key, fmt::format("{} did not replace malloc", subject->preload));
      return static_cast<int>(Exit::nothing_ran);
    }
  }
  const auto rows = matching_rows(options, offer, subject);
  std::vector<RunningRow> running;
  running.reserve(rows.size());
  for (const Row& row : rows) running.emplace_back(row, options, wire);
  initialize_library(options);
  for (RunningRow& one : running) {
    auto* const registered = benchmark::RegisterBenchmark(
        one.row().name.c_str(), [&one](benchmark::State& state) { one(state); });
    if (options.smoke) registered->Iterations(1);
  }
  WireReporter reporter(wire, running);
  benchmark::RunSpecifiedBenchmarks(&reporter);
  benchmark::Shutdown();
  return 0;
}

}  // namespace assay::bench
