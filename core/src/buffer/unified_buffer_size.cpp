// UnifiedBuffer: growing and shrinking.
#include <algorithm>

#include "assay/buffer/unified_buffer.hpp"

namespace assay {

void UnifiedBuffer::shrink(std::size_t new_size) noexcept {
  ASSAY_CONTRACT(new_size <= size_, "shrink to a larger size");
  size_ = new_size;
}

Result<void> UnifiedBuffer::try_grow_in_place(std::size_t new_size) noexcept {
  if (new_size <= size_) {
    size_ = new_size;
    return {};
  }
  if (controller_ == nullptr) {
    return Error::make(ErrorCode::not_supported, "try_grow_in_place", "", new_size);
  }
  AllocationController& root = *controller_;
  const std::size_t dirty_end = std::max(stale_, root.mark());
  if (new_size > root.requested()) {
    Error error;
    if (!root.grow(new_size, Init::zero, MayMove::no, error)) {
      error.feature = "try_grow_in_place";
      error.limit = std::max<std::uint64_t>(error.limit, capacity());
      return error;
    }
  }
  // Only bytes that were once written, or came undefined, can be anything but zero.
  const std::size_t zero_end = std::min(new_size, dirty_end);
  if (zero_end > size_) {
    ASSAY_TRY_VOID(root.source().fill(root.block(), size_, zero_end - size_, std::byte{0}));
  }
  size_ = new_size;
  return {};
}

Result<void> UnifiedBuffer::resize(std::size_t new_size) noexcept {
  if (controller_ == nullptr) {
    if (new_size == 0) return {};
    ASSAY_TRY(*this, create(new_size));
    return {};
  }
  const auto in_place = try_grow_in_place(new_size);
  if (in_place || in_place.error().code != ErrorCode::not_supported) return in_place;
  return move_to_new_block(new_size);
}

Result<void> UnifiedBuffer::move_to_new_block(std::size_t new_size) noexcept {
  AllocationController& old = *controller_;
  Error error;
  AllocationController* const fresh = AllocationController::allocate(
      old.home(), {.size = new_size, .alignment = old.alignment(), .init = Init::zero}, error);
  if (fresh == nullptr) return error;
  // What was never written is zero on both sides: copying it would only touch pages.
  const std::size_t kept = std::min(size_, std::max(stale_, old.mark()));
  fresh->raise_mark(fresh->address() + kept);
  const auto copied =
      fresh->source().copy_between(fresh->block(), 0, old.source(), old.block(), 0, kept);
  if (!copied) {
    fresh->release();
    return copied.error();
  }
  detail::payload_copied += kept;
  old.release();
  controller_ = fresh;
  size_ = new_size;
  stale_ = 0;
  return {};
}

}  // namespace assay
