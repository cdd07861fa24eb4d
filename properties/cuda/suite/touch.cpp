#include "suite/touch.hpp"

#include <csetjmp>
#include <csignal>

namespace assay::conformance {
namespace {

sigjmp_buf after_fault;
volatile std::sig_atomic_t armed = 0;
volatile std::sig_atomic_t telling = 0;
struct sigaction told{};  ///< who handled SIGSEGV before

void on_fault(int signal, siginfo_t* info, void* context) {
  if (armed == 0) {  // not our touch: end as the program would have
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    return;
  }
  armed = 0;
  if (telling != 0 && signal == SIGSEGV && (told.sa_flags & SA_SIGINFO) != 0) {
    telling = 0;
    told.sa_sigaction(signal, info, context);
  }
  ::siglongjmp(after_fault, signal);
}

/// SIGSEGV and SIGBUS are ours while this lives.
class Guard {
 public:
  Guard() noexcept {
    struct sigaction ours{};
    ours.sa_sigaction = on_fault;
    ours.sa_flags = SA_SIGINFO | SA_NODEFER;
    ::sigaction(SIGSEGV, &ours, &segv_);
    told = segv_;
    ::sigaction(SIGBUS, &ours, &bus_);
  }
  ~Guard() {
    ::sigaction(SIGSEGV, &segv_, nullptr);
    ::sigaction(SIGBUS, &bus_, nullptr);
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  struct sigaction segv_{};
  struct sigaction bus_{};
};

}  // namespace

int read_at(const volatile void* address) noexcept {
  const Guard guard;
  if (const int signal = sigsetjmp(after_fault, 1); signal != 0) return signal;
  armed = 1;
  [[maybe_unused]] const char seen = *static_cast<const volatile char*>(address);
  armed = 0;
  return 0;
}

int write_at(volatile void* address) noexcept {
  const Guard guard;
  if (const int signal = sigsetjmp(after_fault, 1); signal != 0) return signal;
  armed = 1;
  *static_cast<volatile char*>(address) = 0x5A;
  armed = 0;
  return 0;
}

int read_told(const volatile void* address) noexcept {
  telling = 1;
  const int signal = read_at(address);
  telling = 0;
  return signal;
}

}  // namespace assay::conformance
