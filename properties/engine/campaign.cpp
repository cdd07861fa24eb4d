#include "campaign.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "assay/harness/driver_facts.hpp"
#include "assay/harness/result_context.hpp"
#include "cell.hpp"

namespace assay::properties {
namespace {

using harness::CellOutcome;
using harness::ChildServer;
using harness::Subject;
using harness::VerifyCell;
using harness::VerifySubject;

constexpr std::chrono::milliseconds start_patience{20'000};
// A subject that hung once, with the full patience, is believed sooner in its other properties.
constexpr std::chrono::milliseconds stall_after_a_hang{500};

/// All work of one subject: its properties in one child after another.
struct Job {
  const Subject* subject = nullptr;
  std::vector<const Property*> properties;
  VerifySubject told;
  std::vector<VerifyCell> cells;
};

VerifySubject describe_subject(const Subject& subject) {
  VerifySubject told;
  told.id = subject.id;
  told.origin = subject.origin;
  told.process = harness::runs_in_preload_child(subject);
  told.package = subject.package;
  return told;
}

class Campaign {
 public:
  explicit Campaign(const CampaignPlan& plan) : plan_(plan) {
    for (const Subject* subject : plan.subjects) add_job(*subject, plan.properties);
    for (const Subject* mutant : plan.mutants) {
      add_job(*mutant, {find_property(mutant->killed_by)});
    }
    for (const Job& job : jobs_) cells_left_ += job.properties.size();
  }

  harness::VerifyResult run() {
    const auto started = Clock::now();
    end_ = started + plan_.budget;
    workers_ = std::max(
        1u, std::min(std::thread::hardware_concurrency(), static_cast<unsigned>(jobs_.size())));
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < workers_; ++i) threads.emplace_back([this] { work(); });
    threads.clear();
    return collect(std::chrono::duration<double>(Clock::now() - started).count());
  }

 private:
  void add_job(const Subject& subject, std::vector<const Property*> properties) {
    for (const Property* property : properties) {
      ASSAY_CONTRACT(property != nullptr, "a mutant names a property that does not exist");
      sources_.try_emplace(property, *property, plan_.seed);
    }
    jobs_.push_back({&subject, std::move(properties), describe_subject(subject), {}});
  }

  void work() {
    for (std::size_t i = next_job_.fetch_add(1); i < jobs_.size(); i = next_job_.fetch_add(1)) {
      run_job(jobs_[i]);
    }
  }

  void run_job(Job& job) {
    const Subject& subject = *job.subject;
    std::unique_ptr<ChildServer> server;
    bool hung_before = false;
    for (const Property* property : job.properties) {
      // A child of its own where the last one is lost.
      if (!server || !server->ready()) {
        auto started = ChildServer::start(subject, start_patience);
        if (!started) return skip_all(job, describe(started.error()));
        server = std::move(started).value();
      }
      if (!server->ready()) {
        finish(job, lost(job, *property, *server));
        continue;
      }
      if (std::string reason = why_not_here(subject, server->facts()); !reason.empty()) {
        return skip_all(job, reason);
      }
      job.told.ran = true;
      if (job.told.process) job.told.provider = server->facts().provider;
      CellPlan cell_plan = plan_of_cell();
      if (hung_before) cell_plan.stall = stall_after_a_hang;
      finish(job, run_cell(subject, *property, *server, sources_.at(property), cell_plan));
      hung_before = hung_before || job.cells.back().outcome == CellOutcome::timed_out;
      if (harness::is_bad(job.cells.back().outcome)) server.reset();
    }
  }

  VerifyCell lost(Job& job, const Property& property, const ChildServer& server) const {
    job.told.ran = true;
    VerifyCell cell;
    cell.subject = job.subject->id;
    cell.property = property.id;
    cell.outcome = CellOutcome::crashed;
    cell.seed = plan_.seed;
    cell.detail = "the child died before the first case";
    if (const std::string words = server.last_words(); !words.empty()) cell.detail += ": " + words;
    return cell;
  }

  void skip_all(Job& job, const std::string& reason) {
    job.told.reason = reason;
    job.cells.clear();
    for (const Property* property : job.properties) {
      VerifyCell cell;
      cell.subject = job.subject->id;
      cell.property = property->id;
      cell.outcome = CellOutcome::skipped;
      cell.detail = reason;
      cell.seed = plan_.seed;
      finish(job, std::move(cell));
    }
  }

  void finish(Job& job, VerifyCell cell) {
    const std::lock_guard lock(mutex_);
    if (cells_left_ > 0) --cells_left_;
    if (plan_.on_cell) plan_.on_cell(cell);
    job.cells.push_back(std::move(cell));
  }

  /// A cell's share of the time that is left.
  CellPlan plan_of_cell() {
    const std::lock_guard lock(mutex_);
    const auto left = std::max(end_ - Clock::now(), Clock::duration::zero());
    const auto share = left * workers_ / std::max<std::size_t>(1, cells_left_);
    return {.seed = plan_.seed,
            .cases = plan_.cases,
            .deadline = Clock::now() + share,
            .trace_folder = plan_.trace_folder};
  }

  harness::VerifyResult collect(double elapsed_s) {
    harness::VerifyResult result;
    result.context = harness::result_context(plan_.seed);
    const auto used_driver = [](const Job& job) {
      return job.subject->needs_driver && job.told.ran;
    };
    if (std::ranges::any_of(jobs_, used_driver)) result.context.update(harness::driver_context());
    result.seed = plan_.seed;
    result.elapsed_s = elapsed_s;
    for (const Property* property : plan_.properties) {
      result.properties.push_back({std::string(property->id), std::string(property->goal)});
    }
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      Job& job = jobs_[i];
      if (i >= plan_.subjects.size()) {
        const VerifyCell& cell = job.cells.front();
        result.mutants.push_back({cell.subject, cell.property, harness::is_bad(cell.outcome),
                                  cell.outcome == CellOutcome::pass
                                      ? fmt::format("survived {} cases", cell.cases)
                                      : cell.detail});
        continue;
      }
      result.subjects.push_back(std::move(job.told));
      std::move(job.cells.begin(), job.cells.end(), std::back_inserter(result.cells));
    }
    return result;
  }

  const CampaignPlan& plan_;
  std::vector<Job> jobs_;
  std::map<const Property*, CaseSource> sources_;
  std::atomic<std::size_t> next_job_{0};
  std::mutex mutex_;
  std::size_t cells_left_ = 0;
  unsigned workers_ = 1;
  Clock::time_point end_;
};

}  // namespace

harness::VerifyResult run_campaign(const CampaignPlan& plan) {
  return Campaign(plan).run();
}

}  // namespace assay::properties
