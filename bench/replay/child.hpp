// One subject, replayed in a child process of its own.
#pragma once

#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "assay/harness/subject.hpp"
#include "options.hpp"

namespace assay::replay {

/// How one subject fared. `figures` holds the keys of a row of the JSON from `time_s` on; times
/// are null unless the status is ok.
struct Row {
  std::string subject;
  std::string status;  ///< ok, error, skipped, crashed, timed_out
  std::string reason;
  double timer_cost_ns = 0;
  nlohmann::ordered_json figures;
};

/// A plan in memory that children inherit.
class SharedPlan {
 public:
  /// **Errors** io.
  static Result<SharedPlan> make(const harness::PlanView& plan);
  SharedPlan(SharedPlan&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  SharedPlan& operator=(SharedPlan&&) = delete;
  ~SharedPlan();
  [[nodiscard]] int fd() const noexcept { return fd_; }

 private:
  explicit SharedPlan(int fd) noexcept : fd_(fd) {}
  int fd_;
};

/// Replays in a child. A crash, a hang or a missing library is a row like any other.
[[nodiscard]] Row run_subject(const harness::Subject& subject, const SharedPlan& plan,
                              const Options& options);

/// True if this process was started by run_subject.
[[nodiscard]] bool is_child(std::span<char* const> arguments) noexcept;
/// What it then does instead of everything else; returns the exit code.
int child_main(std::span<char* const> arguments);
/// The same for a subject that is not in the registry.
int child_main(std::span<char* const> arguments, const harness::Subject& subject);

/// A row of the JSON: subject, status, reason, then the figures.
[[nodiscard]] nlohmann::ordered_json to_json(const Row& row);

}  // namespace assay::replay
