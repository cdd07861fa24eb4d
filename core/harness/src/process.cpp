#include "assay/harness/process.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "assay/harness/die_with_parent.hpp"
#include "c_strings.hpp"

extern char** environ;

namespace assay::harness {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  int read = -1;
  int write = -1;
};

Error io_error(const char* feature, int native) noexcept {
  Error error = Error::make(ErrorCode::io, feature, "process");
  error.native = native;
  return error;
}

std::vector<std::string> environment_of(const ChildSpec& spec) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    bool replaced = false;
    for (const auto& [key, value] : spec.environment) replaced = replaced || key == name;
    if (!replaced) merged.emplace_back(text);
  }
  for (const auto& [key, value] : spec.environment) merged.push_back(key + "=" + value);
  return merged;
}

/// Appends what can be read now; false at end of file.
bool drain(int fd, std::string& into) {
  std::array<char, 1 << 14> buffer;
  const ssize_t got = ::read(fd, buffer.data(), buffer.size());
  if (got > 0) into.append(buffer.data(), static_cast<std::size_t>(got));
  return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

class Output {
 public:
  Output(const ChildSpec& spec, ChildResult& result) : spec_(spec), result_(result) {}

  void take(int fd, bool is_error, bool& open) {
    std::string& text = is_error ? result_.standard_error : result_.standard_output;
    open = drain(fd, text);
    if (!is_error || !spec_.on_stderr_line) return;
    for (auto end = text.find('\n', told_); end != std::string::npos;
         end = text.find('\n', told_)) {
      spec_.on_stderr_line(text.substr(told_, end - told_));
      told_ = end + 1;
    }
  }

 private:
  const ChildSpec& spec_;
  ChildResult& result_;
  std::size_t told_ = 0;
};

int milliseconds_left(Clock::time_point deadline, bool limited) {
  if (!limited) return -1;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  return left.count() > 0 ? static_cast<int>(left.count()) : 0;
}

/// Reads both pipes until they close or time runs out; false if it ran out.
bool collect(const ChildSpec& spec, int out, int err, Clock::time_point deadline,
             ChildResult& result) {
  Output output(spec, result);
  std::array<bool, 2> open = {true, true};
  while (open[0] || open[1]) {
    std::array<pollfd, 2> fds = {pollfd{open[0] ? out : -1, POLLIN, 0},
                                 pollfd{open[1] ? err : -1, POLLIN, 0}};
    const int wait_ms = milliseconds_left(deadline, spec.timeout.count() > 0);
    const int ready = ::poll(fds.data(), fds.size(), wait_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return false;
    if (fds[0].revents != 0) output.take(out, false, open[0]);
    if (fds[1].revents != 0) output.take(err, true, open[1]);
  }
  return true;
}

/// Waits for the child; kills it when the deadline passes.
void reap(pid_t child, const ChildSpec& spec, Clock::time_point deadline, bool out_of_time,
          ChildResult& result) {
  int status = 0;
  const bool limited = spec.timeout.count() > 0;
  while (!out_of_time) {
    const pid_t done = ::waitpid(child, &status, limited ? WNOHANG : 0);
    if (done == child || (done < 0 && errno != EINTR)) break;
    if (limited && Clock::now() >= deadline) out_of_time = true;
    if (done == 0) ::usleep(200);
  }
  if (out_of_time) {
    ::kill(-child, SIGKILL);
    ::kill(child, SIGKILL);
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    result.end = ChildResult::End::timed_out;
    return;
  }
  result.end = WIFSIGNALED(status) ? ChildResult::End::signalled : ChildResult::End::exited;
  result.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

/// What the forked child does; only what a thread may do that is alone after a fork. Returns on
/// failure, with errno set.
void become(const ChildSpec& spec, pid_t parent, int out, int err, char** arguments,
            char** environment) {
  die_with_parent(parent);
  // A group of its own, so that its children die with it.
  if (spec.timeout.count() > 0 && ::setpgid(0, 0) != 0) return;
  if (spec.capture && (::dup2(out, STDOUT_FILENO) < 0 || ::dup2(err, STDERR_FILENO) < 0)) return;
  ::execve(arguments[0], arguments, environment);
}

/// Starts the child. Returns an errno, or 0. Not posix_spawn: that cannot bind it to its parent.
int start(const ChildSpec& spec, int out, int err, pid_t& child) {
  std::vector<std::string> arguments = spec.arguments;
  std::vector<std::string> environment = environment_of(spec);
  const std::vector<char*> argument_pointers = pointers_to(arguments);
  const std::vector<char*> environment_pointers = pointers_to(environment);
  int failure[2];
  if (::pipe2(failure, O_CLOEXEC) != 0) return errno;
  const pid_t parent = ::getpid();
  child = ::fork();
  if (child == 0) {
    become(spec, parent, out, err, const_cast<char**>(argument_pointers.data()),
           const_cast<char**>(environment_pointers.data()));
    const int why = errno;
    (void)!::write(failure[1], &why, sizeof why);
    ::_exit(127);
  }
  int why = child < 0 ? errno : 0;
  ::close(failure[1]);
  if (child > 0) {
    while (::read(failure[0], &why, sizeof why) < 0 && errno == EINTR) {
    }
    while (why != 0 && ::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  ::close(failure[0]);
  return why;
}

}  // namespace

std::string ChildResult::describe() const {
  switch (end) {
    case End::exited: return fmt::format("exit {}", code);
    case End::signalled: return fmt::format("killed by signal {} ({})", code, ::strsignal(code));
    case End::timed_out: return fmt::format("timed out after {} ms", timeout.count());
  }
  return "";
}

Result<ChildResult> run_child(const ChildSpec& spec) {
  ASSAY_CONTRACT(!spec.arguments.empty(), "a child needs a program");
  Pipe out;
  Pipe err;
  if (spec.capture) {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) return io_error("pipe", errno);
    out = {fds[0], fds[1]};
    if (::pipe2(fds, O_CLOEXEC) != 0) return io_error("pipe", errno);
    err = {fds[0], fds[1]};
  }
  pid_t child = -1;
  const int failed = start(spec, out.write, err.write, child);
  if (spec.capture) {
    ::close(out.write);
    ::close(err.write);
  }
  ChildResult result;
  result.timeout = spec.timeout;
  const auto deadline = Clock::now() + spec.timeout;
  bool in_time = true;
  if (spec.capture) {
    if (failed == 0) in_time = collect(spec, out.read, err.read, deadline, result);
    ::close(out.read);
    ::close(err.read);
  }
  if (failed != 0) return io_error("start a child process", failed);
  reap(child, spec, deadline, !in_time, result);
  return result;
}

std::string this_program() {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : std::string();
}

std::string sibling_program(const std::string& name) {
  if (const char* folder = std::getenv("ASSAY_LIBEXEC"); folder != nullptr && *folder != '\0') {
    return fmt::format("{}/{}", folder, name);
  }
  const std::string self = this_program();
  return self.substr(0, self.rfind('/') + 1) + name;
}

}  // namespace assay::harness
