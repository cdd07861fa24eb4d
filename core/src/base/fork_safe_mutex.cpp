#include "assay/base/fork_safe_mutex.hpp"

#include <pthread.h>

namespace assay {

/// All living ForkSafeMutexes, and what happens to them around a fork.
struct ForkHandlers {
  static inline constinit std::mutex list_mutex;
  static inline constinit ForkSafeMutex* first = nullptr;

  static void prepare() {
    list_mutex.lock();
    for (ForkSafeMutex* one = first; one != nullptr; one = one->next_) one->lock();
  }
  static void give_back() {
    for (ForkSafeMutex* one = first; one != nullptr; one = one->next_) one->unlock();
    list_mutex.unlock();
  }
  static void add(ForkSafeMutex& one) {
    // A full table of handlers (never seen) leaves the plain mutex, which a lone thread may fork.
    [[maybe_unused]] static const int registered = ::pthread_atfork(prepare, give_back, give_back);
    const std::lock_guard lock(list_mutex);
    one.next_ = first;
    if (first != nullptr) first->previous_ = &one;
    first = &one;
  }
  static void remove(ForkSafeMutex& one) {
    const std::lock_guard lock(list_mutex);
    (one.previous_ != nullptr ? one.previous_->next_ : first) = one.next_;
    if (one.next_ != nullptr) one.next_->previous_ = one.previous_;
  }
};

ForkSafeMutex::ForkSafeMutex() {
  ForkHandlers::add(*this);
}

ForkSafeMutex::~ForkSafeMutex() {
  ForkHandlers::remove(*this);
}

}  // namespace assay
