// CheckingUpstream: what really lies below an account, against which the account is judged.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "assay/backing/backing.hpp"
#include "assay/base/checked.hpp"

namespace assay::tenant {

/// Hands out pages of `page` bytes: addresses without memory, or blocks of the program's leaf where
/// it has one. Knows how much is out at any moment, and whether that ever passed the limit it was
/// told. Calls can be made to fail.
class CheckingUpstream final : public Backing {
 public:
  static inline std::size_t page = 64;  ///< with a leaf its granularity
  static inline Ref<Backing> leaf;      ///< memory of a real backing, or none

  static Ref<CheckingUpstream> make() { return Ref<CheckingUpstream>::adopt(new CheckingUpstream); }

  /// What may be out at most; passing it is remembered.
  std::atomic<std::uint64_t> limit{UINT64_MAX};
  /// The call of each kind, from now, that fails; 0: none.
  std::atomic<std::uint64_t> fail_allocation_in{0};
  std::atomic<std::uint64_t> fail_resize_in{0};
  std::atomic<std::uint64_t> fail_free_in{0};

  [[nodiscard]] std::uint64_t held() const { return held_.load(); }
  [[nodiscard]] bool passed_limit() const { return passed_limit_.load(); }
  [[nodiscard]] std::uint64_t most_held() const { return most_held_.load(); }

 private:
  CheckingUpstream()
      : Backing({.id = "checking",
                 .capabilities = Capabilities::thread_safe | Capabilities::resize_in_place |
                                 Capabilities::resize_moves,
                 .granularity = page,
                 .natural_alignment = page}) {}

  ~CheckingUpstream() override {
    for (const auto& [block, request] : lost_) leaf->deallocate(block, request);
  }

  static bool due(std::atomic<std::uint64_t>& countdown) noexcept {
    std::uint64_t left = countdown.load();
    while (left != 0 && !countdown.compare_exchange_weak(left, left - 1)) {
    }
    return left == 1;
  }
  void hold(std::uint64_t bytes) noexcept {
    const std::uint64_t now = held_.fetch_add(bytes) + bytes;
    if (now > limit.load()) passed_limit_.store(true);
    std::uint64_t most = most_held_.load();
    while (now > most && !most_held_.compare_exchange_weak(most, now)) {
    }
  }

  Block do_allocate(const Request& request, Error& error) noexcept override {
    if (due(fail_allocation_in)) {
      error = Error::make(ErrorCode::out_of_memory, "allocate", info().id, request.size);
      return {};
    }
    const std::size_t capacity = align_up(request.size, page);
    if (!leaf) {
      hold(capacity);
      return {next_address_.fetch_add(std::uint64_t{1} << 32), capacity};
    }
    const Block block = allocate_from(*leaf, request, error);
    if (block) hold(block.capacity);
    return block;
  }
  Freed do_deallocate(Block block, const Release& release) noexcept override {
    if (due(fail_free_in)) {  // its bytes stay held
      const std::lock_guard lock(mutex_);
      if (leaf) lost_.emplace_back(block, release.request);
      return Freed::failed;
    }
    held_.fetch_sub(block.capacity);
    return leaf ? deallocate_to(*leaf, block, release) : Freed::now;
  }
  [[nodiscard]] std::size_t do_footprint(const Request& request) const noexcept override {
    return align_up(request.size, page);
  }
  [[nodiscard]] Usage do_usage() const noexcept override { return {0, held(), held()}; }
  Block do_resize(Block block, const Request& from, const Request& to, MayMove,
                  Error& error) noexcept override {
    if (due(fail_resize_in)) {
      error = Error::make(ErrorCode::out_of_memory, "resize", info().id, to.size);
      return {};
    }
    const std::size_t capacity = align_up(to.size, page);
    if (leaf && capacity != block.capacity) {
      // Always to a block of the exact size, so that the account is compared with what is asked.
      const Block moved = allocate_from(*leaf, to, error);
      if (!moved) return {};
      if (capacity > block.capacity) hold(capacity - block.capacity);
      if (capacity < block.capacity) held_.fetch_sub(block.capacity - capacity);
      deallocate_to(*leaf, block, Release{from, false});
      return moved;
    }
    if (capacity > block.capacity) hold(capacity - block.capacity);
    if (capacity < block.capacity) held_.fetch_sub(block.capacity - capacity);
    return {block.address, capacity};
  }

  std::atomic<std::uint64_t> next_address_{std::uint64_t{1} << 32};
  std::atomic<std::uint64_t> held_{0};
  std::atomic<std::uint64_t> most_held_{0};
  std::atomic<bool> passed_limit_{false};
  std::mutex mutex_;
  std::vector<std::pair<Block, Request>> lost_;  ///< blocks of the leaf whose free was to fail
};

}  // namespace assay::tenant
