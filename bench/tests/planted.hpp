// Two small programs for the gate's own test: the same rows, one of them with 20 % more calls.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "allocate_free.hpp"
#include "program.hpp"

namespace assay::bench {

/// The row that is slower in assay-bench-planted.
inline constexpr std::string_view planted_subject = "heap";
inline constexpr std::size_t planted_size_bytes = 256;
inline constexpr std::uint64_t planted_period = 5;

/// allocate_free, which in the planted row does every fifth iteration twice. Both programs run the
/// same instructions in every other row, so that nothing but the planted work can differ.
class PlantedAllocateFree {
 public:
  static constexpr Family facts{.name = "allocate_free",
                                .summary = "one block allocated and freed, never touched",
                                .sizes = {.first = 64, .last = 4096, .last_full = 4096},
                                .allocations = 1};
  /// Set once, before anything runs: is this the planted program?
  static inline bool planting = false;

  explicit PlantedAllocateFree(const Input& input) : plain_(input), size_bytes_(input.size_bytes) {}

  bool operator()(Backing& backing, Error& error) noexcept {
    if (!plain_(backing, error)) return false;
    if (--left_ != 0) [[likely]]
      return true;
    return end_of_period(backing, error);
  }

 private:
  [[gnu::noinline]] bool end_of_period(Backing& backing, Error& error) noexcept {
    if (!planting || size_bytes_ != planted_size_bytes || backing.info().id != planted_subject) {
      left_ = std::numeric_limits<std::uint64_t>::max();
      return true;
    }
    left_ = planted_period;
    return plain_(backing, error);
  }

  AllocateFree plain_;
  std::size_t size_bytes_;
  std::uint64_t left_ = planted_period;
};

/// `main` of both programs.
int planted_main(int argc, char** argv, bool planting);

}  // namespace assay::bench
