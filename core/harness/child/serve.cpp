#include "assay/harness/die_with_parent.hpp"
#include "executor.hpp"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace assay::harness {
namespace {

constexpr unsigned abandoned_after_s = 60;  // the longest that any case may take

[[noreturn]] void be_the_case(const Provider& provider, SharedCase& shared, pid_t server) noexcept {
  die_with_parent(server);
  ::alarm(abandoned_after_s);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::_exit(execute_case(provider, shared));
}

bool read_byte(int fd, char& byte) noexcept {
  for (;;) {
    const ssize_t got = ::read(fd, &byte, 1);
    if (got == 1) return true;
    if (got == 0 || errno != EINTR) return false;
  }
}

/// Waits until the case has ended, but leaves it unreaped.
void await(pid_t child) noexcept {
  siginfo_t info;
  while (::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) != 0 &&
         errno == EINTR) {
  }
}

int reap(pid_t child) noexcept {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

/// The wait status as waitpid will tell it, without reaping.
int status_of(pid_t child) noexcept {
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  return info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status & 0x7f;
}

}  // namespace

int serve_cases(const Provider& provider, int shared_fd, int control_fd) noexcept {
  void* const mapped =
      ::mmap(nullptr, sizeof(SharedCase), PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd, 0);
  if (mapped == MAP_FAILED) return 70;
  auto& shared = *static_cast<SharedCase*>(mapped);
  // A parent that is killed takes the server along, and so the case, even one that hangs. One that
  // died before this line has closed its end of the socket, and no case is ever started.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (shared.magic != shared_case_magic || shared.version != shared_case_version ||
      shared.size != sizeof(SharedCase)) {
    return 70;  // another build's program: its layout is not ours
  }
  provider.describe(provider.self, shared);
  shared.facts.ready = 1;
  char request = 'f';
  if (::write(control_fd, &request, 1) != 1) return 0;

  const pid_t self = ::getpid();
  pid_t last = 0;
  while (read_byte(control_fd, request)) {
    if (last > 0) reap(last);
    last = ::fork();
    if (last == 0) be_the_case(provider, shared, self);
    int status = -1;
    if (last > 0) {
      shared.case_pid = last;
      await(last);
      status = status_of(last);
    }
    if (::write(control_fd, &status, sizeof status) != sizeof status) break;
  }
  if (last > 0) reap(last);
  return 0;
}

}  // namespace assay::harness
