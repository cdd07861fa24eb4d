#include "suite/touch.hpp"

#include <csetjmp>
#include <csignal>

namespace assay::conformance {
namespace {

sigjmp_buf after_fault;
volatile std::sig_atomic_t armed = 0;

void on_fault(int signal) {
  if (armed == 0) {  // not our touch: end as the program would have
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    return;
  }
  armed = 0;
  ::siglongjmp(after_fault, signal);
}

/// SIGSEGV and SIGBUS are ours while this lives.
class Guard {
 public:
  Guard() noexcept {
    struct sigaction ours{};
    ours.sa_handler = on_fault;
    ours.sa_flags = SA_NODEFER;
    ::sigaction(SIGSEGV, &ours, &segv_);
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

}  // namespace assay::conformance
