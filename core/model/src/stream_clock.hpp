// StreamClock: what a point in a stream is ordered after, whether or not that has run. Order is
// what the program asked for, so it is known when work is enqueued.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace assay::cuda::model {

/// What outlives a stream: clocks name it by this.
struct QueueLife {
  bool settled = false;  ///< over, and seen complete by the host: everything to come is after it
};
using QueueLifePointer = std::shared_ptr<QueueLife>;

struct Passage;
using PassagePointer = std::shared_ptr<const Passage>;

/// For each stream the last operation that is before this point.
///
/// Gates and host functions may order what follows them behind anything that the program has done
/// by the time they end; until then nobody can tell, and the clock keeps them as passages.
///
/// **Invariants** holds no settled stream and no passed passage after settle(), so it grows with
/// the live streams only. **Threads** under the scheduler's lock.
class StreamClock {
 public:
  void join(const StreamClock& other);
  /// Everything up to operation `ticket` of that stream is before.
  void reach(const QueueLifePointer& queue, std::uint64_t ticket);
  /// Of one stream and kind, the last says all that the earlier ones say.
  void pass(const PassagePointer& passage);
  [[nodiscard]] std::size_t passages() const noexcept { return passages_.size(); }
  /// Drops what every later point is after anyway.
  void settle();

  /// Is that operation before this point for certain?
  [[nodiscard]] bool covers(const QueueLifePointer& queue, std::uint64_t ticket) const;
  /// Or may it be, by a gate or a host function? `serial` is the operation's number among all.
  [[nodiscard]] bool may_cover(const QueueLifePointer& queue, std::uint64_t ticket,
                               std::uint64_t serial) const;

 private:
  struct Component {
    QueueLifePointer queue;
    std::uint64_t ticket;
  };
  std::vector<Component> components_;  ///< by pointer
  std::vector<PassagePointer> passages_;
  std::uint64_t horizon_ = 0;  ///< operations up to this serial may be before, by a gate
};

/// A gate or a host function in a stream.
struct Passage {
  QueueLifePointer queue;  ///< whose stream it is in
  std::uint64_t ticket = 0;
  bool host_function = false;
  bool passed = false;
  std::uint64_t horizon = 0;  ///< of a gate: the serial when it passed
  StreamClock known;          ///< of a host function: what the host had seen when it ended
};

}  // namespace assay::cuda::model
