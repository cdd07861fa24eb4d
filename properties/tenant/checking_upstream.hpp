// CheckingUpstream: what really lies below an account, against which the account is judged.
#pragma once

#include <atomic>
#include <cstdint>

#include "assay/backing/backing.hpp"
#include "assay/base/checked.hpp"

namespace assay::tenant {

/// Hands out addresses, no memory, in pages of `page` bytes. Knows how much is out at any moment,
/// and whether that ever passed the limit it was told. Calls can be made to fail.
class CheckingUpstream final : public Backing {
 public:
  static constexpr std::size_t page = 64;

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
    hold(capacity);
    return {next_address_.fetch_add(std::uint64_t{1} << 32), capacity};
  }
  Freed do_deallocate(Block block, const Release&) noexcept override {
    if (due(fail_free_in)) return Freed::failed;  // its bytes stay held
    held_.fetch_sub(block.capacity);
    return Freed::now;
  }
  [[nodiscard]] std::size_t do_footprint(const Request& request) const noexcept override {
    return align_up(request.size, page);
  }
  [[nodiscard]] Usage do_usage() const noexcept override { return {0, held(), held()}; }
  Block do_resize(Block block, const Request&, const Request& to, MayMove,
                  Error& error) noexcept override {
    if (due(fail_resize_in)) {
      error = Error::make(ErrorCode::out_of_memory, "resize", info().id, to.size);
      return {};
    }
    const std::size_t capacity = align_up(to.size, page);
    if (capacity > block.capacity) hold(capacity - block.capacity);
    if (capacity < block.capacity) held_.fetch_sub(block.capacity - capacity);
    return {block.address, capacity};
  }

  std::atomic<std::uint64_t> next_address_{std::uint64_t{1} << 32};
  std::atomic<std::uint64_t> held_{0};
  std::atomic<std::uint64_t> most_held_{0};
  std::atomic<bool> passed_limit_{false};
};

}  // namespace assay::tenant
