// All pools, as pool.cpp and pool_block.cpp share them.
#pragma once

#include <deque>
#include <mutex>
#include <vector>

#include "handle_table.hpp"
#include "pool.hpp"

namespace assay::cuda::model {

struct Pools {
  std::mutex mutex;
  HandleTable<Pool, MemPool, 0x5e> handles;  ///< of those not destroyed
  std::vector<PoolPointer> list;             ///< with those destroyed that have blocks
  std::vector<PoolPointer> current;          ///< where it is not the default one
  std::deque<AllocationRef> stale;           ///< freed of late
  std::array<MemoryUse, kind_count> going{};
  std::atomic<bool> any_block{false};
};
[[nodiscard]] Pools& pools() noexcept;

/// Pre of both: the lock is held.
PoolPointer enter_pool(Pools& all, const MemPoolProps& properties, const Site& site);
void leave_if_done(Pools& all, const PoolPointer& pool) noexcept;

}  // namespace assay::cuda::model
