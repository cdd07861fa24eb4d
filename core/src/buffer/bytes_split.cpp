// Bytes: cutting, joining and compacting.
#include <algorithm>

#include "assay/buffer/bytes.hpp"

namespace assay {

void Bytes::truncate(std::size_t n) noexcept {
  ASSAY_CONTRACT(n <= len_, "truncate beyond the length");
  if (n == len_) return;
  note_written();
  if (n == 0 && is_shared()) {
    *this = empty_at(home());
    return;
  }
  // Without a node for a narrower unit the old one stays, and a later read fills it whole.
  if (!settle() && reshape(n, controller_->alignment())) return;
  len_ = n;
}

/// Divides the value where it is; cannot fail. **Pre** offset <= len(), a value with a block.
Bytes Bytes::cut(std::size_t offset) noexcept {
  const std::size_t right_len = len_ - offset;
  const std::uint64_t right_tail = is_shared() ? tail_ : tail_ - offset;
  const bool right_has_nothing = right_len == 0 && (is_shared() || right_tail == 0);
  if (right_has_nothing) return empty_at(home());
  if (offset == 0) {
    Bytes right = std::move(*this);
    *this = empty_at(right.home());
    return right;
  }
  if (right_len != 0) return cut_inside(offset);
  controller_->retain();  // room alone
  tail_ = offset;
  return Bytes(controller_, data_ + offset, 0, right_tail);
}

Result<Bytes> Bytes::split_slow(std::size_t offset, SplitPolicy policy,
                                std::size_t min_align) noexcept {
  if (offset > len_) {
    Error error = failed(ErrorCode::out_of_range, "split", offset);
    error.limit = len_;
    return error;
  }
  if (!is_alignment(min_align)) return failed(ErrorCode::invalid_alignment, "split", min_align);
  if (controller_ == nullptr) return empty_at(home());
  if (!settle()) return split_unread(offset, min_align);
  const bool becomes_owned = is_shared() && policy == SplitPolicy::owned;
  const std::size_t alignment = std::max(min_align, controller_->fork_alignment());
  Error error;
  if (becomes_owned && !can_steal()) {
    if (offset < len_ && offset % min_align != 0) {  // halves of one copy would misalign the right
      Bytes left = copy_of(0, offset, offset, alignment, error);
      if (error.code != ErrorCode::none) return error;
      Bytes right = copy_of(offset, len_ - offset, len_ - offset, alignment, error);
      if (error.code != ErrorCode::none) return error;
      swap(left);
      return right;
    }
    Bytes fork = copy_of(0, len_, len_, alignment, error);
    if (error.code != ErrorCode::none) return error;
    ASSAY_TRY(Bytes right, fork.split(offset, policy, min_align));
    swap(fork);
    return right;
  }

  const auto misaligned = [&](std::size_t start, std::size_t size) {
    return size != 0 && controller_->alignment_at(address() + start) < min_align;
  };
  const bool copy_left = misaligned(0, offset);
  const bool copy_right = misaligned(offset, len_ - offset);
  const bool stays_shared = is_shared() && !becomes_owned;
  const auto copied = [&](bool wanted, std::size_t start, std::size_t size) {
    if (!wanted || error.code != ErrorCode::none) return Bytes();
    Bytes copy = copy_of(start, size, size, alignment, error);
    if (stays_shared && error.code == ErrorCode::none) copy.tail_ = shared_tail;
    return copy;
  };
  Bytes left = copied(copy_left, 0, offset);
  Bytes right = copied(copy_right, offset, len_ - offset);
  if (error.code != ErrorCode::none) return error;

  // Nothing can fail any more.
  if (becomes_owned) steal();
  if (copy_right) {
    if (copy_left) {
      *this = std::move(left);
    } else {
      truncate(offset);  // the part left in place keeps all the room
    }
    return right;
  }
  right = cut(offset);
  if (copy_left) *this = std::move(left);
  return right;
}

/// A lazy value over a part of this one, which shares neither unit nor mirror with it.
/// **Pre** not resident.
Result<Bytes> Bytes::lazy_part(std::size_t start, std::size_t size,
                               std::size_t alignment) const noexcept {
  Error error;
  auto* const unit =
      AllocationController::unit_of(controller_->origin(), controller_->offset_in_origin() + start,
                                    size, alignment, controller_->home(), error);
  if (unit == nullptr) return error;
  return Bytes(unit, nullptr, size, shared_tail);
}

/// Stands for `size` bytes from here on in the origin, in a unit of its own if others use this one
/// or have read it meanwhile. **Pre** `data_` is null, size != 0.
Result<void> Bytes::reshape(std::size_t size, std::size_t alignment) noexcept {
  // Another handle may have read the unit and gone since this one last looked.
  if (controller_->unique() && !controller_->is_resident()) {
    controller_->reshape(size, alignment);
    len_ = size;
  } else {
    ASSAY_TRY(*this, lazy_part(0, size, alignment));
  }
  return {};
}

/// A split that reads nothing: two units of one origin. **Pre** not resident, offset <= len().
Result<Bytes> Bytes::split_unread(std::size_t offset, std::size_t min_align) noexcept {
  const std::size_t own = controller_->alignment();
  const std::size_t alignment = std::max(own, min_align);
  if (offset == 0 || offset == len_) {
    if (alignment != own) ASSAY_TRY_VOID(reshape(len_, alignment));
    Bytes none = empty_at(home());
    if (offset == 0) none.swap(*this);
    return none;
  }
  ASSAY_TRY(Bytes right, lazy_part(offset, len_ - offset, alignment));
  ASSAY_TRY_VOID(reshape(offset, alignment));
  return right;
}

/// Joins two unread ranges of one origin. **Pre** neither is resident nor empty.
Result<void> Bytes::join_unread(Bytes& right) noexcept {
  const AllocationController& a = *controller_;
  const AllocationController& b = *right.controller_;
  if (&a.origin() != &b.origin() || a.offset_in_origin() + len_ != b.offset_in_origin()) {
    return failed(ErrorCode::not_adjacent, "join", right.len_);
  }
  ASSAY_TRY_VOID(reshape(len_ + right.len_, std::max(a.alignment(), b.alignment())));
  right = empty_at(right.home());
  return {};
}

Result<void> Bytes::join(Bytes&& right) noexcept {
  ASSAY_CONTRACT(this != &right, "join of a value with itself");
  const bool here = settle();
  const bool there = right.settle();
  const bool one_root = controller_ != nullptr && right.controller_ != nullptr &&
                        &controller_->root() == &right.controller_->root();
  const bool spare_follows = one_root && right.len_ == 0 && is_exclusive() &&
                             right.is_exclusive() && data_ + tail_ == right.data_;
  if (spare_follows) {
    tail_ += right.tail_;
    right = empty_at(right.home());
    return {};
  }
  const bool only_room = controller_ == nullptr && right.controller_ != nullptr;
  if (right.len_ == 0 && !only_room) {
    right = empty_at(right.home());
    return {};
  }
  if (len_ == 0) {
    Bytes none = empty_at(right.home());  // whose policy it keeps
    *this = std::move(right);
    right = std::move(none);
    return {};
  }
  if (!here && !there) return join_unread(right);
  if (!here || !there || !one_root || data_ + len_ != right.data_) {
    return failed(ErrorCode::not_adjacent, "join", right.len_);
  }
  if (is_shared() && controller_ == right.controller_) {
    len_ += right.len_;
    right = empty_at(right.home());
    return {};
  }
  const bool left_sole = is_exclusive() || can_steal();
  const bool right_sole = right.is_exclusive() || right.can_steal();
  if (!left_sole || !right_sole) return failed(ErrorCode::not_unique, "join", right.len_);
  if (is_shared()) steal();
  if (right.is_shared()) right.steal();
  tail_ = len_ + right.tail_;
  len_ += right.len_;
  right = empty_at(right.home());
  return {};
}

Result<void> Bytes::compact() noexcept {
  if (controller_ == nullptr) return {};
  if (len_ == 0) {
    *this = empty_at(home());
    return {};
  }
  // A mirror of its own needs its origin no more.
  const bool own_mirror = settle() && controller_->is_unit() && controller_->unique();
  const std::size_t retained = own_mirror ? controller_->block().capacity : retained_bytes();
  const std::size_t alignment = controller_->fork_alignment();
  const Request own{.size = len_, .alignment = alignment};
  if (retained <= home().backing().footprint(own)) {
    if (own_mirror) controller_->own_mirror();
    return {};
  }
  Error error;
  Bytes copy = copy_of(0, len_, len_, alignment, error);
  if (error.code != ErrorCode::none) return error;
  if (is_shared()) copy.tail_ = shared_tail;
  *this = std::move(copy);
  return {};
}

}  // namespace assay
