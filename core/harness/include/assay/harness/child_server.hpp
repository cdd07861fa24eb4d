// ChildServer: the warm child that forks once per case, seen from the parent.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "assay/harness/shared_case.hpp"
#include "assay/harness/subject.hpp"

namespace assay::harness {

/// What a case runs: pure data, so that it can be printed, kept and run again.
struct Case {
  CaseSettings settings;
  std::vector<Command> commands;
};

/// How one case ended, copied out of the shared file.
struct CaseRun {
  enum class End {
    finished,
    crashed,      ///< a signal, or an exit before the end
    hung,         ///< a step without progress; it was killed
    unmade,       ///< the subject refused to be made: error_code
    server_lost,  ///< the server itself died: nothing can be said of the case
  } end = End::finished;
  int signal = 0;  ///< crashed: the signal, or 0 if it exited by itself
  int exit_code = 0;
  std::uint32_t step = 0;  ///< command that ran last, or a Step
  std::uint32_t error_code = 0;
  std::string said;  ///< last line that the child wrote to standard error
  std::vector<Outcome> outcomes;
  std::vector<Finding> findings;
  Figures figures;
};

/// One line for a person: "killed by signal 11 (Segmentation fault) in step 3".
[[nodiscard]] std::string describe_end(const CaseRun& run);

/// A child process that serves cases of one subject.
///
/// **Threads** one at a time. Destroying it ends the child, and so does the end of the thread that
/// started it, however that comes about.
class ChildServer {
 public:
  /// Starts the child and waits for its facts: this program with `--serve` for a subject that is
  /// made in process, assay-preload-child for malloc and what replaces it. **Errors** io.
  static Result<std::unique_ptr<ChildServer>> start(const Subject& subject,
                                                    std::chrono::milliseconds patience);
  ~ChildServer();
  ChildServer(const ChildServer&) = delete;
  ChildServer& operator=(const ChildServer&) = delete;

  [[nodiscard]] const ChildFacts& facts() const noexcept { return shared_->facts; }
  /// The server came up and told its facts; otherwise `last_words` says what it left behind.
  [[nodiscard]] bool ready() const noexcept { return shared_->facts.ready == 1; }
  [[nodiscard]] std::string last_words() const;

  /// Runs one case in a fresh fork. A step without progress for `stall` is a hang, and the case is
  /// killed. **Pre** at most command_limit commands. **Cost** one fork (0.2–0.4 ms).
  CaseRun run(const Case& which, std::chrono::milliseconds stall);

 private:
  ChildServer() = default;
  bool make_channels();
  int spawn(const Subject& subject);
  /// Waits for `size` bytes of an answer; kills the case when its step stalls.
  bool await_answer(void* answer, std::size_t size, std::chrono::milliseconds stall, bool& hung);
  void collect(CaseRun& run, std::size_t command_count) const;

  SharedCase* shared_ = nullptr;
  int shared_fd_ = -1;
  int control_fd_ = -1;
  int child_control_fd_ = -1;
  int words_fd_ = -1;
  int pid_ = -1;
};

/// True if the subject runs in assay-preload-child instead of this program.
[[nodiscard]] bool runs_in_preload_child(const Subject& subject) noexcept;

/// True if this program is built with sanitizers: foreign libraries are then left out.
[[nodiscard]] bool built_with_sanitizers() noexcept;

/// In a child started with `--serve`: serves the subject until the parent closes the socket.
/// Returns the program's exit status.
int serve_subject(const Subject& subject, int shared_fd, int control_fd);

}  // namespace assay::harness
