// Crew: CPUs to pin to, and a second thread that works beside the measuring one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace assay::yardstick {

/// Two of the CPUs `allowed`, in rising order: the first, and the next that is not in the list (as
/// the kernel writes them, "0-3,8") of its hyper-threads; the second CPU if all are, or fewer if
/// there are.
[[nodiscard]] std::vector<int> two_of(const std::vector<int>& allowed,
                                      const std::string& siblings_of_first);

/// two_of those that this process could use when first asked: before its threads were pinned.
[[nodiscard]] const std::vector<int>& cpus();

/// Pins the calling thread; false if the kernel refuses.
bool pin_to(int cpu) noexcept;

/// A second thread on a CPU of its own. Both sides of a barrier spin, as a wake-up would take
/// longer than what is measured.
class Crew {
 public:
  /// Throws std::system_error if there can be no thread.
  explicit Crew(int second_cpu);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Runs `work` on both threads at once and returns when both are done.
  void run(const std::function<void()>& work) noexcept;
  /// Payload bytes that the second thread's handles copied so far. **Pre** not within run.
  [[nodiscard]] std::uint64_t copied() const noexcept { return copied_; }

 private:
  void serve(int cpu) noexcept;

  const std::function<void()>* work_ = nullptr;  // null: the thread ends
  std::uint64_t copied_ = 0;
  std::atomic<std::uint64_t> asked_{0};
  std::atomic<std::uint64_t> done_{0};
  std::thread second_;
};

}  // namespace assay::yardstick
