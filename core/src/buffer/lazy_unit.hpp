// LazyUnit: what a unit's controller keeps beside its 64 bytes, for as long as it has an origin.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "assay/base/node_pool.hpp"
#include "assay/buffer/allocation_controller.hpp"

namespace assay {

/// The range of an origin that a unit stands for, and the turn to read it.
class LazyUnit {
 public:
  LazyUnit(AllocationController& origin, std::size_t offset) noexcept
      : origin_(&origin), offset_(offset) {
    origin.retain();
  }
  ~LazyUnit() { origin_->release(); }
  LazyUnit(const LazyUnit&) = delete;
  LazyUnit& operator=(const LazyUnit&) = delete;

  static void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    static_assert(sizeof(LazyUnit) <= node_pool::large_node);
    return node_pool::allocate(size);
  }
  static void operator delete(void* node) noexcept {
    node_pool::deallocate(node, sizeof(LazyUnit));
  }
  static void operator delete(void* node, const std::nothrow_t&) noexcept {
    node_pool::deallocate(node, sizeof(LazyUnit));
  }

 private:
  friend class AllocationController;

  AllocationController* origin_;  // counted
  std::size_t offset_;            // of the range in the origin's block
  std::mutex turn_;               // held by the one thread that reads
  std::atomic<std::uint32_t> attempts_{0};
  Error last_;  // of the last attempt, if it failed; guarded by turn_
};

}  // namespace assay
