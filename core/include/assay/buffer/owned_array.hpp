// OwnedArray: elements in a block of a controller, owned like any unique array.
#pragma once

#include <cstddef>
#include <memory>

#include "assay/buffer/allocation_controller.hpp"

namespace assay {

/// Drops the array's reference to its block; living siblings of the block stay untouched.
class OwnedDeleter {
 public:
  OwnedDeleter() = default;
  OwnedDeleter(AllocationController* controller, std::size_t count) noexcept
      : controller_(controller), count_(count) {}

  void operator()(const void*) const noexcept { controller_->release(); }
  /// Number of elements of the array.
  [[nodiscard]] std::size_t size() const noexcept { return count_; }

 private:
  AllocationController* controller_ = nullptr;
  std::size_t count_ = 0;
};

/// A unique array; `get_deleter().size()` is its length. Its memory is wiped and given back by the
/// policy it came with.
template <class E>
using OwnedArray = std::unique_ptr<E[], OwnedDeleter>;

}  // namespace assay
