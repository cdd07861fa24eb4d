// tracing: records every call, to be replayed or looked at.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "assay/backing/backing.hpp"
#include "assay/backing/trace_event.hpp"
#include "assay/base/live_count.hpp"

namespace assay {

/// Records the calls on its upstream in one bounded ring a thread.
///
/// A full ring overwrites its oldest events, and `dropped()` counts them: what led to a failure is
/// kept. Sequence numbers order all threads: an allocation takes its number after the upstream
/// has answered and a free takes its own before the upstream is asked, so no merged recording
/// frees an id before it allocated it, nor shows two live blocks where there was one address.
///
/// Ids stand for blocks, never addresses. A free of a block that is not recorded has id 0; a free
/// that failed has the outcome invalid_argument, and the block keeps its record.
///
/// **Threads** as the upstream; `drain` may run at any time. **Cost** a call adds two atomic
/// counters, a clock read, and two uncontended locks: of the ring and of the address record.
class Tracing final : public Adaptor {
 public:
  static constexpr std::size_t default_events_per_thread = 65536;
  /// What a spec string may ask for: a ring is written whole when its thread comes, here 320 MiB.
  static constexpr std::size_t events_per_thread_max = std::size_t{1} << 22;

  /// **Pre** an upstream is given, and room for at least one event.
  [[nodiscard]] static Ref<Tracing> make(Ref<Backing> upstream,
                                         std::size_t events_per_thread = default_events_per_thread);
  ~Tracing() override;

  /// Takes out what was recorded, in order. A call that runs meanwhile is left for the next time,
  /// whose events may then be older than these. **Errors** out_of_memory; then all stays recorded.
  [[nodiscard]] Result<std::vector<TraceEvent>> drain();

  /// Events that were overwritten or had no room, ever.
  [[nodiscard]] std::uint64_t dropped() const noexcept;

 private:
  struct Ring;
  struct Record {
    std::uint64_t id = 0;
  };
  struct alignas(64) Shard {
    std::mutex mutex;
    std::map<std::uint64_t, Record> blocks;  ///< by address; its nodes go in and out unallocated
  };
  using Node = std::map<std::uint64_t, Record>::node_type;

  Tracing(Ref<Backing> upstream, std::size_t events_per_thread);
  Block do_allocate(const Request& request, Error& error) noexcept override;
  Freed do_deallocate(Block block, const Release& release) noexcept override;
  Block do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                  Error& error) noexcept override;
  Result<void> do_fill(Block block, std::size_t offset, std::size_t size,
                       std::byte value) noexcept override;
  Result<std::size_t> do_trim(std::size_t keep_bytes) noexcept override;

  Shard& shard_of(std::uint64_t address) noexcept;
  static Node make_node() noexcept;
  void enter(std::uint64_t address, Node node) noexcept;
  Node take_out(std::uint64_t address) noexcept;
  std::uint64_t id_of(std::uint64_t address) noexcept;
  [[nodiscard]] TraceEvent stamped(TraceOperation operation) noexcept;
  void push(TraceEvent event) noexcept;
  Ring* ring_of_this_thread() noexcept;

  static constexpr std::size_t shard_count = 16;

  const std::size_t events_per_thread_;
  const std::uint64_t key_;  ///< tells this recorder from one that had its address before
  const std::chrono::steady_clock::time_point start_;
  std::atomic<std::uint64_t> next_sequence_{0};
  std::atomic<std::uint64_t> next_id_{1};
  std::atomic<std::uint64_t> dropped_{0};
  std::array<Shard, shard_count> shards_;
  mutable std::mutex rings_mutex_;
  std::vector<std::unique_ptr<Ring>> rings_;
  LiveCount live_;
};

}  // namespace assay
