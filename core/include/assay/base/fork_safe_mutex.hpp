// ForkSafeMutex: a mutex that a forked child finds free.
#pragma once

#include <mutex>

namespace assay {

/// A mutex that `fork` takes and both sides give back, so that no child inherits it locked by a
/// thread that it does not have, and what it guards is never seen half changed.
///
/// **Threads** lock and unlock as std::mutex. Never hold two: fork takes all of them, in no order
/// that a caller could know. **Cost** of a fork: one lock a living ForkSafeMutex.
class ForkSafeMutex {
 public:
  ForkSafeMutex();
  ~ForkSafeMutex();
  ForkSafeMutex(const ForkSafeMutex&) = delete;
  ForkSafeMutex& operator=(const ForkSafeMutex&) = delete;

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  friend struct ForkHandlers;
  std::mutex mutex_;
  ForkSafeMutex* next_ = nullptr;
  ForkSafeMutex* previous_ = nullptr;
};

}  // namespace assay
