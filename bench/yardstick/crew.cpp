#include "crew.hpp"

#include <pthread.h>
#include <sched.h>

#include <cstdlib>

#include <fmt/format.h>

#include "assay/buffer/access.hpp"
#include "assay/harness/system_files.hpp"

namespace assay::yardstick {
namespace {

/// Is `cpu` in a list such as "0-3,8"?
bool lists(const std::string& list, int cpu) {
  const char* at = list.c_str();
  while (*at >= '0' && *at <= '9') {
    char* end = nullptr;
    const long first = std::strtol(at, &end, 10);
    const long last = *end == '-' ? std::strtol(end + 1, &end, 10) : first;
    if (cpu >= first && cpu <= last) return true;
    at = *end == ',' ? end + 1 : end;
  }
  return false;
}

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void wait_for(const std::atomic<std::uint64_t>& counter, std::uint64_t value) noexcept {
  while (counter.load(std::memory_order_acquire) != value) pause();
}

std::vector<int> allowed_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<int> all;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return all;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) all.push_back(cpu);
  }
  return all;
}

}  // namespace

std::vector<int> two_of(const std::vector<int>& allowed, const std::string& siblings_of_first) {
  if (allowed.size() <= 2) return allowed;
  for (std::size_t i = 1; i < allowed.size(); ++i) {
    if (!lists(siblings_of_first, allowed[i])) return {allowed[0], allowed[i]};
  }
  return {allowed[0], allowed[1]};
}

const std::vector<int>& cpus() {
  static const std::vector<int> found = [] {
    std::vector<int> allowed = allowed_cpus();
    if (allowed.empty()) return allowed;
    const auto siblings = harness::line_of(
        fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", allowed[0]));
    return two_of(allowed, siblings.value_or(""));
  }();
  return found;
}

bool pin_to(int cpu) noexcept {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  return ::pthread_setaffinity_np(::pthread_self(), sizeof only, &only) == 0;
}

Crew::Crew(int second_cpu) : second_([this, second_cpu] { serve(second_cpu); }) {}

Crew::~Crew() {
  work_ = nullptr;
  asked_.fetch_add(1, std::memory_order_release);
  second_.join();
}

void Crew::run(const std::function<void()>& work) noexcept {
  work_ = &work;
  const auto round = asked_.fetch_add(1, std::memory_order_release) + 1;
  work();
  wait_for(done_, round);
}

void Crew::serve(int cpu) noexcept {
  pin_to(cpu);
  for (std::uint64_t round = 1;; ++round) {
    wait_for(asked_, round);
    if (work_ == nullptr) return;
    (*work_)();
    copied_ = payload_bytes_copied();
    done_.store(round, std::memory_order_release);
  }
}

}  // namespace assay::yardstick
