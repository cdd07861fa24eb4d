// Probe: an upstream for tests that keeps a ledger of every call and can be told to misbehave.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include <gtest/gtest.h>

#include "assay/backing/heap.hpp"

namespace assay::test {

/// Forwards to heap. Counts calls, checks that a free names the block and the size that were given,
/// and refuses to hold more than `bytes_max`.
class Probe final : public Adaptor {
 public:
  [[nodiscard]] static Ref<Probe> make(std::uint64_t bytes_max = UINT64_MAX,
                                       std::uint32_t extra_capabilities = 0) {
    return Ref<Probe>::adopt(new Probe(bytes_max, extra_capabilities));
  }

  [[nodiscard]] std::uint64_t allocations() const { return locked(allocations_); }
  [[nodiscard]] std::uint64_t frees() const { return locked(frees_); }
  [[nodiscard]] std::uint64_t held_bytes() const { return locked(held_bytes_); }
  [[nodiscard]] std::uint64_t held_peak() const { return locked(held_peak_); }
  [[nodiscard]] std::uint64_t bad_frees() const { return locked(bad_frees_); }
  [[nodiscard]] std::uint64_t zero_requests() const { return locked(zero_requests_); }
  [[nodiscard]] std::vector<std::size_t> sizes() const {
    const std::lock_guard lock(mutex_);
    return sizes_;
  }

  std::atomic<bool> fail_frees{false};
  std::atomic<bool> pend_frees{false};
  /// Runs inside each free, after the memory is back and before the caller hears of it.
  std::function<void(std::uint64_t address)> after_free;

 private:
  struct Given {
    std::size_t size;
    std::size_t alignment;
    std::size_t capacity;
  };

  Probe(std::uint64_t bytes_max, std::uint32_t extra)
      : Adaptor(probe_info(extra), Heap::make()), bytes_max_(bytes_max) {}
  static SourceInfo probe_info(std::uint32_t extra) {
    SourceInfo info = Heap::make()->info();
    info.id = "probe";
    info.capabilities = info.capabilities.bits() | extra;
    return info;
  }
  std::uint64_t locked(const std::uint64_t& value) const {
    const std::lock_guard lock(mutex_);
    return value;
  }

  Block do_allocate(const Request& request, Error& error) noexcept override {
    const std::lock_guard lock(mutex_);
    ++allocations_;
    sizes_.push_back(request.size);
    if (request.init == Init::zero) ++zero_requests_;
    if (upstream().footprint(request) > bytes_max_ - held_bytes_) {
      error = Error::make(ErrorCode::out_of_memory, "allocate", "probe", request.size);
      error.in_use = held_bytes_;
      error.limit = bytes_max_;
      return {};
    }
    const Block block = allocate_from(upstream(), request, error);
    if (!block) return block;
    given_[block.address] = {request.size, request.alignment, block.capacity};
    held_bytes_ += block.capacity;
    held_peak_ = std::max(held_peak_, held_bytes_);
    return block;
  }

  Freed do_deallocate(Block block, const Release& release) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      ++frees_;
      const auto found = given_.find(block.address);
      // As munmap would: a free of another size or place is refused.
      if (found == given_.end() || found->second.size != release.request.size ||
          found->second.alignment != release.request.alignment ||
          found->second.capacity != block.capacity) {
        ++bad_frees_;
        return Freed::failed;
      }
      if (fail_frees) {
        lost_.push_back({block, release});
        return Freed::failed;
      }
      held_bytes_ -= block.capacity;
      given_.erase(found);
      deallocate_to(upstream(), block, release);
    }
    if (after_free) after_free(block.address);
    return pend_frees ? Freed::pending : Freed::now;
  }

  Block do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                  Error& error) noexcept override {
    const std::lock_guard lock(mutex_);
    const Block resized = resize_in(upstream(), block, from, to, may_move, error);
    if (!resized) return resized;
    given_.erase(block.address);
    given_[resized.address] = {to.size, to.alignment, resized.capacity};
    held_bytes_ += resized.capacity - block.capacity;
    held_peak_ = std::max(held_peak_, held_bytes_);
    return resized;
  }

  ~Probe() override {
    for (const auto& [block, release] : lost_) deallocate_to(upstream(), block, release);
  }

  const std::uint64_t bytes_max_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Given> given_;
  std::vector<std::pair<Block, Release>> lost_;
  std::vector<std::size_t> sizes_;
  std::uint64_t allocations_ = 0, frees_ = 0, held_bytes_ = 0, held_peak_ = 0, bad_frees_ = 0,
                zero_requests_ = 0;
};

/// True if every byte of a range of a host block is `value`.
inline bool all_bytes(Backing& backing, Block block, std::size_t from, std::size_t to,
                      unsigned char value) {
  const auto bytes = backing.host_bytes(block).value().subspan(from, to - from);
  return std::ranges::all_of(bytes, [&](std::byte one) { return one == std::byte{value}; });
}

inline void fill_all(Backing& backing, Block block, unsigned char value) {
  ASSERT_TRUE(backing.fill(block, 0, block.capacity, std::byte{value}).has_value());
}

}  // namespace assay::test
