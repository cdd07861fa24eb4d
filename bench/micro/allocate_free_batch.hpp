// allocate_free_batch: 16 blocks live at once, freed in a shuffled order.
#pragma once

#include <array>
#include <numeric>
#include <random>
#include <utility>

#include "../runner/family.hpp"

namespace assay::bench {

class AllocateFreeBatch {
 public:
  static constexpr std::size_t count = 16;
  static constexpr Family facts{
      .name = "allocate_free_batch",
      .summary = "16 blocks allocated, then freed in a shuffled order",
      .sizes = {.first = 16, .last = std::size_t{1} << 20, .last_full = std::size_t{1} << 20},
      .allocations = count,
      .live_blocks = count};

  explicit AllocateFreeBatch(const Input& input) : request_{.size = input.size_bytes} {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::mt19937_64 random(input.seed);
    for (std::size_t i = count - 1; i > 0; --i) std::swap(order_[i], order_[random() % (i + 1)]);
  }

  bool operator()(Backing& backing, Error& error) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      const auto block = backing.allocate(request_);
      if (!block) [[unlikely]] {
        error = block.error();
        for (std::size_t taken = 0; taken < i; ++taken) {
          backing.deallocate(blocks_[taken], request_);
        }
        return false;
      }
      blocks_[i] = block.value();
    }
    benchmark::DoNotOptimize(blocks_);
    for (const std::size_t i : order_) backing.deallocate(blocks_[i], request_);
    return true;
  }

 private:
  Request request_;
  std::array<std::size_t, count> order_{};
  std::array<Block, count> blocks_{};
};

}  // namespace assay::bench
