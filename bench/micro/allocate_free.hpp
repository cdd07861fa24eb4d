// allocate_free: one block allocated and freed, its memory never touched.
#pragma once

#include "../runner/family.hpp"

namespace assay::bench {

class AllocateFree {
 public:
  static constexpr Family facts{
      .name = "allocate_free",
      .summary = "one block allocated and freed, never touched",
      .sizes = {.first = 16, .last = std::size_t{256} << 20, .last_full = std::size_t{256} << 20},
      .allocations = 1};

  explicit AllocateFree(const Input& input) : request_{.size = input.size_bytes} {}

  bool operator()(Backing& backing, Error& error) noexcept {
    auto block = backing.allocate(request_);
    if (!block) [[unlikely]] {
      error = block.error();
      return false;
    }
    benchmark::DoNotOptimize(block.value().address);
    backing.deallocate(block.value(), request_);
    return true;
  }

 private:
  Request request_;
};

}  // namespace assay::bench
