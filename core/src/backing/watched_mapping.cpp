#include "watched_mapping.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <new>

#include "assay/base/system.hpp"

namespace assay::detail {
namespace {

using Handler = struct sigaction;

/// What SIGBUS meant before, written once, before our handler can run.
constinit Handler previous{};
constinit std::atomic<bool> previous_known{false};
constinit std::atomic<bool> previous_spent{false};  ///< it was for one signal (SA_RESETHAND)
constinit std::atomic<std::size_t> page{0};

/// The instruction that faulted faults again when the handler returns.
bool faults_again(int code) noexcept {
  return code == BUS_ADRALN || code == BUS_ADRERR || code == BUS_OBJERR || code == BUS_MCEERR_AR;
}

void take_default_action(int signal, int code) noexcept {
  Handler by_default{};
  by_default.sa_handler = SIG_DFL;
  ::sigaction(signal, &by_default, nullptr);
  if (!faults_again(code)) ::raise(signal);  // blocked until the handler returns
}

/// Does what would have been done had our handler never been installed.
void pass_on(int signal, siginfo_t* info, void* context) noexcept {
  const bool for_once = (previous.sa_flags & static_cast<int>(SA_RESETHAND)) != 0;
  const bool by_default = !previous_known.load(std::memory_order_acquire) ||
                          ((previous.sa_flags & SA_SIGINFO) == 0 && previous.sa_handler == SIG_DFL);
  if (by_default || (for_once && previous_spent.exchange(true))) {
    take_default_action(signal, info->si_code);
    return;
  }
  if ((previous.sa_flags & SA_SIGINFO) == 0 && previous.sa_handler == SIG_IGN) {
    if (faults_again(info->si_code)) take_default_action(signal, info->si_code);
    return;
  }
  // Blocked while the previous handler runs: what the interrupted code blocked, what it asks for,
  // and the signal itself unless it said otherwise. The kernel takes all back at our return.
  sigset_t blocked = static_cast<ucontext_t*>(context)->uc_sigmask;
  for (int other = 1; other < NSIG; ++other) {
    if (::sigismember(&previous.sa_mask, other) == 1) ::sigaddset(&blocked, other);
  }
  if ((previous.sa_flags & SA_NODEFER) == 0) ::sigaddset(&blocked, signal);
  ::pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
  } else {
    previous.sa_handler(signal);
  }
}

void on_bus_error(int signal, siginfo_t* info, void* context) noexcept {
  const int native = errno;
  const bool mended =
      info->si_code == BUS_ADRERR &&
      WatchedMapping::find_and_mend(reinterpret_cast<std::uintptr_t>(info->si_addr));
  if (!mended) pass_on(signal, info, context);
  errno = native;
}

bool install() noexcept {
  page.store(page_size(), std::memory_order_relaxed);
  ::sigaction(SIGBUS, nullptr, &previous);
  previous_known.store(true, std::memory_order_release);
  Handler ours{};
  ours.sa_sigaction = on_bus_error;
  // On the alternate stack where a thread has one, as runtimes with small stacks require. A signal
  // that is ignored or fatal interrupts no system call; a handler's own choice is kept.
  const bool had_handler = (previous.sa_flags & SA_SIGINFO) != 0 ||
                           (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN);
  const int restart = had_handler ? previous.sa_flags & SA_RESTART : SA_RESTART;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | restart;
  ::sigfillset(&ours.sa_mask);  // nothing may leave the handler by a jump while an entry is pinned
  ::sigaction(SIGBUS, &ours, nullptr);
  ::pthread_atfork(nullptr, nullptr, WatchedMapping::forget_pins);
  return true;
}

/// The system call itself: the function in front of it is not async-signal-safe, and a sanitizer's
/// would take this for a write to the pages.
bool map_zeros(std::uintptr_t from, std::uintptr_t to, int placement) noexcept {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | placement;
  const long mapped = ::syscall(SYS_mmap, from, to - from, PROT_READ, flags, -1, 0L);
  return mapped == static_cast<long>(from);
}

bool unmap(std::uintptr_t from, std::uintptr_t to) noexcept {
  return ::syscall(SYS_munmap, from, to - from) == 0;
}

}  // namespace

constinit std::atomic<WatchedMapping*> WatchedMapping::first_{nullptr};

WatchedMapping* WatchedMapping::take_unused() noexcept {
  for (WatchedMapping* one = first_.load(); one != nullptr; one = one->next_) {
    bool unused = false;
    if (one->used_.compare_exchange_strong(unused, true)) return one;
  }
  auto* const made = new (std::nothrow) WatchedMapping;
  if (made == nullptr) return nullptr;
  made->next_ = first_.load();
  while (!first_.compare_exchange_weak(made->next_, made)) {
  }
  return made;
}

WatchedMapping* WatchedMapping::watch(std::span<std::byte> pages) noexcept {
  [[maybe_unused]] static const bool installed = install();
  WatchedMapping* const entry = take_unused();
  if (entry == nullptr) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(pages.data());
  entry->begin_.store(begin);
  entry->end_.store(begin + pages.size());
  entry->torn_.store(false);
  entry->version_.fetch_add(1);
  return entry;
}

void WatchedMapping::unwatch() noexcept {
  version_.fetch_add(1);
  while (pins_.load() != 0) ::sched_yield();
  used_.store(false);
}

void WatchedMapping::forget_pins() noexcept {
  for (WatchedMapping* one = first_.load(); one != nullptr; one = one->next_) one->pins_.store(0);
}

bool WatchedMapping::holds(std::uintptr_t address, std::uint32_t& version) const noexcept {
  version = version_.load();
  if (version % 2 != 0) return false;
  const bool inside = begin_.load() <= address && address < end_.load();
  return inside && version_.load() == version;
}

bool WatchedMapping::find_and_mend(std::uintptr_t address) noexcept {
  for (WatchedMapping* one = first_.load(); one != nullptr; one = one->next_) {
    std::uint32_t version = 0;
    if (!one->holds(address, version)) continue;
    one->pins_.fetch_add(1);
    const bool mended = one->version_.load() == version && one->mend(address);
    one->pins_.fetch_sub(1);
    return mended;
  }
  return false;
}

/// To the end, not the one page: what follows a lost page of a truncated file is lost too, and many
/// single pages could be more mappings than a process may have. One that already has too many is
/// refused any other, so the whole mapping goes first, and never takes the place of a stranger's.
bool WatchedMapping::mend(std::uintptr_t address) noexcept {
  torn_.store(true);  // before the first zero can be read
  const std::uintptr_t from = address & ~(page.load(std::memory_order_relaxed) - 1);
  const std::uintptr_t begin = begin_.load();
  const std::uintptr_t end = end_.load();
  return map_zeros(from, end, MAP_FIXED) ||
         (unmap(begin, end) && map_zeros(begin, end, MAP_FIXED_NOREPLACE));
}

}  // namespace assay::detail
