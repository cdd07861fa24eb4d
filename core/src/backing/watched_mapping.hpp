// WatchedMapping: a mapping of a file whose lost pages read zero instead of ending the process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace assay::detail {

/// One entry of the table that the handler of SIGBUS reads. Entries are used again and never freed,
/// so that the handler may follow the table at any time.
///
/// **Invariants** `version_` is odd while the range is not to be believed: in an unused entry, and
/// while it changes. A range is believed if the version was the same even number before and after
/// it was read. Who pinned an entry and then found its version unchanged keeps unwatch() waiting.
/// **Threads** safe from any thread, and from a signal handler what find_and_mend says. Every
/// access is sequentially consistent: pins and version are each written by one side and read by the
/// other.
class WatchedMapping {
 public:
  /// Watches `pages`, a whole mapping. Null if memory is out. The first call installs the handler.
  [[nodiscard]] static WatchedMapping* watch(std::span<std::byte> pages) noexcept;
  /// Ends it, when no handler is at work on it any more. **Post** the mapping may go.
  void unwatch() noexcept;
  /// A page of the mapping could not be had: from some page to its end it reads zero.
  [[nodiscard]] bool torn() const noexcept { return torn_.load(); }

  /// Maps zero pages from the one that holds `address` to the end of its mapping, if it is a
  /// watched one. Async-signal-safe: no lock, no allocation.
  [[nodiscard]] static bool find_and_mend(std::uintptr_t address) noexcept;
  /// In a forked child: no other thread's handler is at work here.
  static void forget_pins() noexcept;

 private:
  [[nodiscard]] static WatchedMapping* take_unused() noexcept;
  [[nodiscard]] bool holds(std::uintptr_t address, std::uint32_t& version) const noexcept;
  [[nodiscard]] bool mend(std::uintptr_t address) noexcept;

  static std::atomic<WatchedMapping*> first_;

  WatchedMapping* next_ = nullptr;  // set before the entry is published, never after
  std::atomic<std::uint32_t> version_{1};
  std::atomic<std::uint32_t> pins_{0};
  std::atomic<std::uintptr_t> begin_{0};
  std::atomic<std::uintptr_t> end_{0};
  std::atomic<bool> used_{true};
  std::atomic<bool> torn_{false};
};

}  // namespace assay::detail
