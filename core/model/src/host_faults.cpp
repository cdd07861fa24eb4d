#include "host_faults.hpp"

#include <csignal>
#include <cstdint>
#include <string>

#include "memory.hpp"
#include "mutants.hpp"
#include "process.hpp"
#include "rules.hpp"
#include "stream_engine.hpp"
#include "virtual_memory.hpp"

namespace assay::cuda::model {

namespace {

/// The disposition that was there before.
struct sigaction earlier{};

thread_local constinit bool handling = false;

void diagnose_live(const Allocation& allocation, std::uint64_t address) {
  const std::string what = "the host touched " + describe_range(address, 1) + " of " +
                           name_of(allocation.kind) + " memory " +
                           describe_range(allocation.address, allocation.size) + ", made by " +
                           describe(allocation.allocated);
  if (allocation.kind == Kind::managed) {
    diagnose(Rule::host_access_busy, what + ", while " + describe_busy());
  } else if (!host_reaches(allocation)) {
    diagnose(Rule::host_access_device, what + ", which is the device's alone");
  }
}

void diagnose_fault(std::uint64_t address) {
  if (const AllocationRef live = find_allocation(address); live != nullptr) {
    diagnose_live(*live, address);
    return;
  }
  if (const auto reservation = find_reservation(address); reservation != nullptr) {
    diagnose(Rule::host_access_device, "the host touched " + describe_range(address, 1) +
                                           ", which " + describe(reservation->reserved) +
                                           " reserved and nobody mapped");
    return;
  }
  const std::string history = history_of(address);
  if (history == never_given_out) {
    if (find_reservation(address) == nullptr) return;
    diagnose(Rule::host_access_device, "the host touched " + describe_range(address, 1) + ", " +
                                           history_with_reservations(address));
    return;
  }
  diagnose(Rule::host_access_freed,
           "the host touched " + describe_range(address, 1) + " of " + history);
}

/// As if this handler were not there.
void pass_on(int signal, siginfo_t* info, void* context) {
  if ((earlier.sa_flags & SA_SIGINFO) != 0) {
    earlier.sa_sigaction(signal, info, context);
  } else if (earlier.sa_handler != SIG_DFL && earlier.sa_handler != SIG_IGN) {
    earlier.sa_handler(signal);
  } else if (info->si_code > 0) {
    sigaction(signal, &earlier, nullptr);  // the access is made again, and ends the program
  } else if (earlier.sa_handler == SIG_DFL) {
    sigaction(signal, &earlier, nullptr);  // sent, by raise() or kill(): nothing would repeat it
    raise(signal);
  }
}

// What it calls is not safe in a handler of any signal, but this one was raised by the program's
// own access to the driver's memory, where it holds no lock of the model and none of the heap's.
void on_fault(int signal, siginfo_t* info, void* context) {
  const bool raised_by_access = info->si_code > 0;
  if (raised_by_access && !handling && !in_forked_child()) {
    handling = true;
    diagnose_fault(reinterpret_cast<std::uintptr_t>(info->si_addr));
    handling = false;
  }
  pass_on(signal, info, context);
}

}  // namespace

void watch_host_faults() noexcept {
  struct sigaction ours{};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&ours.sa_mask);
  sigaction(SIGSEGV, &ours, &earlier);
}

}  // namespace assay::cuda::model
