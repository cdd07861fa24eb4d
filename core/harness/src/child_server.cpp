#include "assay/harness/child_server.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <new>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "assay/harness/process.hpp"

#include "c_strings.hpp"

extern char** environ;

namespace assay::harness {
namespace {

constexpr int child_shared_fd = 3;
constexpr int child_control_fd = 4;
constexpr auto last_wait = std::chrono::milliseconds(5000);  // for a killed case to be gone

Error io_error(const char* feature, int native) noexcept {
  Error error = Error::make(ErrorCode::io, feature, "child server");
  error.native = native;
  return error;
}

void close_if_open(int& fd) noexcept {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

std::vector<std::string> arguments_for(const Subject& subject) {
  const std::string shared = std::to_string(child_shared_fd);
  const std::string control = std::to_string(child_control_fd);
  if (!runs_in_preload_child(subject)) {
    return {this_program(), "--serve", std::string(subject.id), shared, control};
  }
  std::vector<std::string> arguments = {sibling_program("assay-preload-child"), shared, control};
  if (subject.is_process()) arguments.emplace_back(subject.preload);
  return arguments;
}

std::vector<std::string> environment_for(const Subject& subject) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with("LD_PRELOAD=")) environment.emplace_back(*entry);
  }
  if (subject.is_process()) environment.push_back(fmt::format("LD_PRELOAD={}", subject.preload));
  return environment;
}

std::string describe_step(std::uint32_t step) {
  switch (step) {
    case step_making: return "while the subject was made";
    case step_draining: return "while the remaining blocks were freed";
    case step_ending: return "while the subject was destroyed";
    case step_finished: return "after the last step";
    default: return fmt::format("in step {}", step);
  }
}

}  // namespace

std::string describe_end(const CaseRun& run) {
  std::string text;
  switch (run.end) {
    case CaseRun::End::finished: return "finished";
    case CaseRun::End::crashed:
      text = run.signal != 0
                 ? fmt::format("killed by signal {} ({})", run.signal, ::strsignal(run.signal))
                 : fmt::format("exit {}", run.exit_code);
      text += fmt::format(" {}", describe_step(run.step));
      break;
    case CaseRun::End::hung: text = fmt::format("no progress {}", describe_step(run.step)); break;
    case CaseRun::End::unmade:
      return fmt::format("could not be made: {}", name_of(static_cast<ErrorCode>(run.error_code)));
    case CaseRun::End::server_lost: text = "the child that serves the cases died"; break;
  }
  if (!run.said.empty()) text += ": " + run.said;
  return text;
}

bool runs_in_preload_child(const Subject& subject) noexcept {
  return subject.is_process() || subject.id == "malloc";
}

Result<std::unique_ptr<ChildServer>> ChildServer::start(const Subject& subject,
                                                        std::chrono::milliseconds patience) {
  std::unique_ptr<ChildServer> server(new ChildServer);
  if (!server->make_channels()) return io_error("make the channels of a child", errno);
  if (const int failed = server->spawn(subject); failed != 0) {
    return io_error("start a child process", failed);
  }
  char ready = 0;
  pollfd answer{server->control_fd_, POLLIN, 0};
  if (::poll(&answer, 1, static_cast<int>(patience.count())) == 1) {
    (void)!::read(server->control_fd_, &ready, 1);
  }
  if (ready != 'f') server->shared_->facts.ready = 0;
  return server;
}

ChildServer::~ChildServer() {
  close_if_open(control_fd_);
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  if (shared_ != nullptr) ::munmap(shared_, sizeof(SharedCase));
  close_if_open(child_control_fd_);
  close_if_open(shared_fd_);
  close_if_open(words_fd_);
}

bool ChildServer::make_channels() {
  shared_fd_ = ::memfd_create("assay-case", MFD_CLOEXEC);
  words_fd_ = ::memfd_create("assay-words", MFD_CLOEXEC);
  if (shared_fd_ < 0 || words_fd_ < 0 || ::ftruncate(shared_fd_, sizeof(SharedCase)) != 0 ||
      ::fcntl(words_fd_, F_SETFL, O_APPEND) != 0) {
    return false;
  }
  void* const mapped =
      ::mmap(nullptr, sizeof(SharedCase), PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd_, 0);
  if (mapped == MAP_FAILED) return false;
  shared_ = ::new (mapped) SharedCase;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
  control_fd_ = ends[0];
  child_control_fd_ = ends[1];
  return true;
}

int ChildServer::spawn(const Subject& subject) {
  std::vector<std::string> arguments = arguments_for(subject);
  std::vector<std::string> environment = environment_for(subject);
  // Moved out of the way of 3 and 4 first, so that neither dup2 overwrites the other's source.
  const int shared = ::fcntl(shared_fd_, F_DUPFD_CLOEXEC, 10);
  const int control = ::fcntl(child_control_fd_, F_DUPFD_CLOEXEC, 10);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, words_fd_, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, words_fd_, STDERR_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, shared, child_shared_fd);
  ::posix_spawn_file_actions_adddup2(&actions, control, child_control_fd);
  const int failed = ::posix_spawn(&pid_, arguments[0].c_str(), &actions, nullptr,
                                   pointers_to(arguments).data(), pointers_to(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (shared >= 0) ::close(shared);
  if (control >= 0) ::close(control);
  close_if_open(child_control_fd_);  // so that the child's end is seen as end of file
  if (failed != 0) pid_ = -1;
  return failed;
}

std::string ChildServer::last_words() const {
  char text[2048];
  const off_t size = ::lseek(words_fd_, 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - static_cast<off_t>(sizeof text));
  const ssize_t got = ::pread(words_fd_, text, sizeof text, from);
  std::string_view words(text, got > 0 ? static_cast<std::size_t>(got) : 0);
  // A sanitizer's report is long; its summary says it in one line.
  if (const auto at = words.rfind("SUMMARY: "); at != std::string_view::npos)
    words.remove_prefix(at);
  while (!words.empty() && words.back() == '\n') words.remove_suffix(1);
  if (const auto newline = words.rfind('\n'); newline != std::string_view::npos) {
    words.remove_prefix(newline + 1);
  }
  return std::string(words);
}

CaseRun ChildServer::run(const Case& which, std::chrono::milliseconds stall) {
  ASSAY_CONTRACT(which.commands.size() <= command_limit, "too many commands in a case");
  SharedCase& shared = *shared_;
  shared.settings = which.settings;
  shared.command_count = static_cast<std::uint32_t>(which.commands.size());
  shared.case_pid = 0;
  shared.error_code = 0;
  shared.step.store(step_making, std::memory_order_relaxed);
  shared.figures = {};
  std::copy(which.commands.begin(), which.commands.end(), shared.commands);
  std::fill_n(shared.outcomes, which.commands.size(), Outcome{});
  (void)!::ftruncate(words_fd_, 0);

  CaseRun run;
  const char request = 'r';
  int status = -1;
  bool hung = false;
  const bool asked = ::send(control_fd_, &request, 1, MSG_NOSIGNAL) == 1;
  if (!asked || !await_answer(&status, sizeof status, stall, hung) || status == -1) {
    run.end = hung ? CaseRun::End::hung : CaseRun::End::server_lost;
  } else if (hung) {
    run.end = CaseRun::End::hung;
  } else if (WIFSIGNALED(status)) {
    run.end = CaseRun::End::crashed;
    run.signal = WTERMSIG(status);
  } else if (shared.error_code != 0) {
    run.end = CaseRun::End::unmade;
  } else if (WEXITSTATUS(status) != 0 || shared.step.load() != step_finished) {
    run.end = CaseRun::End::crashed;
    run.exit_code = WEXITSTATUS(status);
  }
  collect(run, which.commands.size());
  return run;
}

bool ChildServer::await_answer(void* answer, std::size_t size, std::chrono::milliseconds stall,
                               bool& hung) {
  using Clock = std::chrono::steady_clock;
  auto* const bytes = static_cast<char*>(answer);
  std::size_t got = 0;
  std::uint64_t seen = shared_->progress.load(std::memory_order_acquire);
  auto last_progress = Clock::now();
  const auto look_every = std::max(stall / 8, std::chrono::milliseconds(10));
  while (got < size) {
    pollfd readable{control_fd_, POLLIN, 0};
    const auto patience = hung ? last_wait : look_every;
    const int ready = ::poll(&readable, 1, static_cast<int>(patience.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return false;
    if (ready == 0) {
      if (hung) return false;  // not even the kill was answered
      const std::uint64_t now = shared_->progress.load(std::memory_order_acquire);
      if (now != seen) last_progress = Clock::now();
      seen = now;
      if (Clock::now() - last_progress < stall) continue;
      hung = true;
      // The server leaves the case unreaped, so this pid is still the case's.
      if (shared_->case_pid <= 0) return false;
      ::kill(shared_->case_pid, SIGKILL);
      continue;
    }
    const ssize_t length = ::read(control_fd_, bytes + got, size - got);
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) return false;
    got += static_cast<std::size_t>(length);
  }
  return true;
}

void ChildServer::collect(CaseRun& run, std::size_t command_count) const {
  run.step = shared_->step.load(std::memory_order_acquire);
  run.error_code = shared_->error_code;
  run.figures = shared_->figures;
  run.outcomes.assign(shared_->outcomes, shared_->outcomes + command_count);
  const std::size_t findings = std::min(run.figures.finding_count, finding_limit);
  run.findings.assign(shared_->findings, shared_->findings + findings);
  if (run.end != CaseRun::End::finished) run.said = last_words();
}

}  // namespace assay::harness
