// Blocks of pools: given out, freed, and found again by stale pointers.
#include <algorithm>
#include <utility>

#include "arena.hpp"
#include "pool.hpp"
#include "pool_order.hpp"
#include "pool_registry.hpp"
#include "retire.hpp"
#include "stream_engine.hpp"

namespace assay::cuda::model {

namespace {

constexpr std::size_t stale_max = 64;
constexpr std::uint64_t stale_bytes_max = 256ULL << 20;

std::size_t index_of(Kind kind) {
  return static_cast<std::size_t>(kind);
}

/// The program has freed the block: its bytes are no longer used, but for work before the free.
/// Pre: the locks of the scheduler and of the pools are held.
void begin_free(Pools& all, const Allocation& allocation, const StreamPoint& at, const Site& site) {
  PoolBlock& block = *allocation.pooled;
  block.freed = true;
  block.freed_at = at;
  block.freed_by = site;
  block.uses.clear();
  Pool& pool = *block.pool;
  ++pool.going;
  pool.used -= block.bytes;
  pool.reserve.leave(block.bytes, at);
  MemoryUse& going = all.going[index_of(allocation.kind)];
  ++going.objects;
  going.bytes += allocation.size;
}

/// The free has run, or never will. Pre: the lock is held.
void end_free(Pools& all, const AllocationRef& allocation) noexcept {
  const PoolBlock& block = *allocation->pooled;
  static_cast<void>(take_out(allocation, block.freed_by));
  MemoryUse& going = all.going[index_of(allocation->kind)];
  --going.objects;
  going.bytes -= allocation->size;
  all.stale.push_back(allocation);
  std::uint64_t bytes = 0;
  for (const AllocationRef& each : all.stale) bytes += each->size;
  while (all.stale.size() > stale_max || (all.stale.size() > 1 && bytes > stale_bytes_max)) {
    bytes -= all.stale.front()->size;
    all.stale.pop_front();
  }
  --block.pool->blocks;
  --block.pool->going;
  leave_if_done(all, block.pool);
}

/// A free on its way through a stream. It ends when it runs, or is dropped with its context.
class PendingFree {
 public:
  explicit PendingFree(AllocationRef allocation) : allocation_(std::move(allocation)) {}
  PendingFree(const PendingFree&) = delete;
  PendingFree& operator=(const PendingFree&) = delete;
  ~PendingFree() {
    if (begun_) finish();
  }

  void begin() noexcept { begun_ = true; }
  void finish() noexcept {
    Pools& all = pools();
    const std::scoped_lock lock(all.mutex);
    if (std::exchange(begun_, false)) end_free(all, allocation_);
  }

 private:
  AllocationRef allocation_;
  bool begun_ = false;  ///< under the lock of the pools once it is true
};

Status refuse_second_free(const Allocation& allocation, const Site& site) {
  diagnose(Rule::pool_free_twice, describe(site) + " of " +
                                      describe_range(allocation.address, allocation.size) +
                                      ", made by " + describe(allocation.allocated) +
                                      ", freed by " + describe(allocation.pooled->freed_by));
  return answer(Rule::pool_free_twice, Status::invalid_value);
}

/// Pre: both locks are held.
Status give_out(Pools& all, const PoolPointer& pool, std::size_t size, const Site& site,
                const StreamOrder& order, std::vector<StreamMark>& after, AllocationRef& out) {
  const std::uint64_t bytes = round_up(size, block_alignment);
  const PoolReserve::Limits limits{pool->bytes_max, [&](std::uint64_t wanted) {
                                     return pool->kind == Kind::pinned ||
                                            charge_device(pool->device, wanted);
                                   }};
  if (!pool->reserve.take(bytes, pool->policy, order, limits, after)) {
    return answer(Rule::pool_capacity, Status::out_of_memory);
  }
  auto block = std::make_shared<PoolBlock>();
  block->pool = pool;
  block->bytes = bytes;
  block->allocated = order.here();
  const unsigned flags = pool->kind == Kind::managed ? mem_attach_global : 0;
  const Status status = allocate_uncharged(pool->kind, size, flags, pool->device, site, out, block);
  if (status != Status::success) {
    pool->reserve.leave(bytes, {});
    return status;
  }
  pool->used += bytes;
  pool->used_high = std::max(pool->used_high, pool->used);
  ++pool->blocks;
  all.any_block.store(true, std::memory_order_release);
  return Status::success;
}

}  // namespace

Status allocate_pooled(const PoolPointer& pool, std::size_t size, const QueuePointer& queue,
                       const Site& site, AllocationRef& out) {
  constexpr std::size_t size_max = std::size_t{1} << 47;
  if (size > size_max) return answer(Rule::pool_capacity, Status::out_of_memory);
  Operation mark;
  mark.name = site.function;
  mark.site = site;
  return scheduler().enqueue(
      queue, std::move(mark),
      [&](const StreamOrder& order, Operation&, std::vector<StreamMark>& after) {
        Pools& all = pools();
        const std::scoped_lock lock(all.mutex);
        return give_out(all, pool, size, site, order, after, out);
      });
}

Status free_pooled(const AllocationRef& allocation, const QueuePointer& queue, const Site& site) {
  const auto pending = std::make_shared<PendingFree>(allocation);
  Operation operation;
  operation.name = site.function;
  operation.site = site;
  operation.run = [pending] {
    pending->finish();
    return Status::success;
  };
  return scheduler().enqueue(queue, std::move(operation),
                             [&](const StreamOrder& order, Operation&, std::vector<StreamMark>&) {
                               Pools& all = pools();
                               const std::scoped_lock lock(all.mutex);
                               if (allocation->pooled->freed)
                                 return refuse_second_free(*allocation, site);
                               check_pool_free(*allocation, site, order);
                               begin_free(all, *allocation, order.here(), site);
                               pending->begin();
                               return Status::success;
                             });
}

Status free_pooled_now(const AllocationRef& allocation, const Site& site) {
  const bool in_flight = !is_going(*allocation) && diagnose_work_in_flight(*allocation, site);
  Status status = Status::success;
  scheduler().consult_host_order([&](const StreamOrder& host) {
    Pools& all = pools();
    const std::scoped_lock lock(all.mutex);
    if (allocation->pooled->freed) {
      status = refuse_second_free(*allocation, site);
      return;
    }
    if (!in_flight) check_pool_free(*allocation, site, host);
    begin_free(all, *allocation, {}, site);
    end_free(all, allocation);
  });
  return status;
}

AllocationRef find_stale(std::uint64_t address) noexcept {
  Pools& all = pools();
  if (!all.any_block.load(std::memory_order_acquire)) return nullptr;
  const std::scoped_lock lock(all.mutex);
  for (const AllocationRef& each : all.stale) {
    if (each->contains(address)) return each;
  }
  return nullptr;
}

void check_pool_order(const Operation& operation, const StreamOrder& order) noexcept {
  Pools& all = pools();
  if (!all.any_block.load(std::memory_order_acquire)) return;
  std::vector<const Allocation*> seen;
  for (const auto* ranges : {&operation.reads, &operation.writes}) {
    for (const Range& range : *ranges) {
      AllocationRef found = find_allocation(range.address);
      if (found == nullptr) found = find_stale(range.address);
      if (found == nullptr || found->pooled == nullptr) continue;
      if (std::find(seen.begin(), seen.end(), found.get()) != seen.end()) continue;
      seen.push_back(found.get());
      const std::scoped_lock lock(all.mutex);
      note_pool_use(*found, operation.site, order);
    }
  }
}

}  // namespace assay::cuda::model
