#include "probe/probe.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <thread>

namespace assay::conformance {

const std::vector<Probe>& all_probes() {
  static const std::vector<Probe> probes = [] {
    std::vector<Probe> all;
    for (const auto& group :
         {memory_probes(), virtual_memory_probes(), advice_probes(), pool_probes()}) {
      std::copy(group.begin(), group.end(), std::back_inserter(all));
    }
    std::sort(all.begin(), all.end(), [](const Probe& a, const Probe& b) {
      return std::atoi(a.id + 1) < std::atoi(b.id + 1);
    });
    return all;
  }();
  return probes;
}

bool is_absent(Run& run, const void* function, const char* name) {
  if (function != nullptr) return false;
  run.note(std::string("absent: ") + name);
  return true;
}

struct TwoSeconds::State {
  std::mutex mutex;
  std::condition_variable done;
  bool ended = false;
  bool passed = false;
  std::thread thread;
};

TwoSeconds::TwoSeconds(Run& run) : state_(new State) {
  state_->thread = std::thread([state = state_, model = run.model] {
    std::unique_lock lock(state->mutex);
    if (state->done.wait_for(lock, std::chrono::seconds(2), [&] { return state->ended; })) return;
    state->passed = true;
    open_all_gates(model);
  });
}

bool TwoSeconds::passed() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ended = true;
  }
  state_->done.notify_all();
  if (state_->thread.joinable()) state_->thread.join();
  return state_->passed;
}

TwoSeconds::~TwoSeconds() {
  (void)passed();
  delete state_;
}

}  // namespace assay::conformance
