// Bytes: making, facts, sharing, writing and growth. Cutting and joining: bytes_split.cpp.
#include "assay/buffer/bytes.hpp"

#include <algorithm>
#include <cstring>

namespace assay {

// --- making

Bytes Bytes::empty_at(Home& home) noexcept {
  if (home.immortal() && &home == &Home::host()) return {};
  home.retain();
  return {nullptr, nullptr, 0, no_block | reinterpret_cast<std::uintptr_t>(&home)};
}

Result<Bytes> Bytes::make(Home& home, std::size_t capacity, std::size_t alignment, Init init,
                          bool use_slack) noexcept {
  if (capacity == 0) return empty_at(home);
  const Backing& backing = home.backing();
  if (!backing.can(Capabilities::host_access)) {
    return Error::make(ErrorCode::not_supported, "Bytes", backing.info().id, capacity);
  }
  Error error;
  auto* const root = AllocationController::allocate(home,
                                                    {.size = capacity,
                                                     .alignment = alignment,
                                                     .reserve = 0,
                                                     .init = init,
                                                     .use_slack = use_slack},
                                                    error);
  if (root == nullptr) return error;
  auto* const data = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(root->address()));
  return Bytes(root, data, 0, root->end() - root->address());
}

Result<Bytes> Bytes::from_span(std::span<const std::byte> bytes, Home& home) noexcept {
  ASSAY_TRY(Bytes made, make(home, bytes.size(), home.alignment(), Init::undefined, false));
  detail::copy_payload(made.data_, bytes.data(), bytes.size());
  made.len_ = bytes.size();
  return made;
}

Result<Bytes> Bytes::with_capacity(std::size_t capacity, Home& home) noexcept {
  return make(home, capacity, home.alignment(), Init::undefined, true);
}

Result<Bytes> Bytes::zeroed(std::size_t size, Home& home) noexcept {
  ASSAY_TRY(Bytes made, make(home, size, home.alignment(), Init::zero, false));
  made.len_ = size;
  return made;
}

Result<Bytes> Bytes::from_external(const ExternalMemory& external, Home& home) noexcept {
  if (external.memory.empty()) {  // nothing to keep: the owner has it back at once
    if (external.release != nullptr) external.release(external.context, external.memory);
    return empty_at(home);
  }
  Ref<Source> source = External::make(external);
  if (!source) return Error::make(ErrorCode::out_of_memory, "from_external", "external");
  const std::size_t alignment = external_alignment(external.memory.data());
  return adopt(source, external.memory, alignment, external.access, external.property, home);
}

Result<Bytes> Bytes::adopt(Ref<Source>& source, std::span<std::byte> memory, std::size_t alignment,
                           ExternalAccess access, AllocationProperty property,
                           Home& home) noexcept {
  const Block block{reinterpret_cast<std::uintptr_t>(memory.data()), memory.size()};
  Error error;
  auto* const root =
      AllocationController::adopt(source, block, alignment, access, property, home, error);
  if (root == nullptr) return error;
  const bool born_shared = access == ExternalAccess::immutable;
  return Bytes(root, memory.data(), memory.size(), born_shared ? shared_tail : memory.size());
}

// --- facts

Home& Bytes::home() const noexcept {
  if (controller_ != nullptr) return controller_->home();
  const std::uint64_t named = tail_ & ~no_block;
  if (named == 0) return Home::host();
  return *reinterpret_cast<Home*>(static_cast<std::uintptr_t>(named));
}

std::size_t Bytes::align() const noexcept {
  return controller_ == nullptr ? home().alignment() : controller_->alignment_at(address());
}

AllocationProperty Bytes::property() const noexcept {
  if (controller_ != nullptr) return controller_->property();
  return AllocationProperty::native;
}

std::size_t Bytes::retained_bytes() const noexcept {
  return controller_ == nullptr ? 0 : controller_->block().capacity;
}

/// Bytes from `data` that this value could write without a new block, dead siblings' included;
/// 0 if a write would fork.
std::size_t Bytes::reach() const noexcept {
  if (controller_ == nullptr) return 0;
  if (!is_exclusive() && !can_steal()) return 0;
  const AllocationController& root = controller_->root();
  if (root.unique()) return static_cast<std::size_t>(root.end() - address());
  if (is_exclusive()) return static_cast<std::size_t>(tail_);
  return static_cast<std::size_t>(controller_->end() - address());
}

bool Bytes::same_bytes(const Bytes& other) const noexcept {
  if (len_ != other.len_) return false;
  if (len_ == 0 || data_ == other.data_) return true;
  return std::memcmp(data_, other.data_, len_) == 0;
}

Error Bytes::failed(ErrorCode code, const char* feature, std::uint64_t requested) const noexcept {
  const char* const id =
      controller_ != nullptr ? controller_->source().info().id : home().backing().info().id;
  return Error::make(code, feature, id, requested);
}

// --- reading

Result<void> Bytes::copy_into(std::span<std::byte> to, std::size_t offset) const noexcept {
  if (offset > len_ || to.size() > len_ - offset) {
    Error error = failed(ErrorCode::out_of_range, "copy_into", offset > len_ ? offset : to.size());
    error.limit = len_;
    return error;
  }
  detail::copy_payload(to.data(), data_ + offset, to.size());
  return {};
}

Result<std::size_t> Bytes::hash() const noexcept {
  return std::hash<Bytes>()(*this);
}

// --- sharing

void Bytes::drop_block() noexcept {
  note_written();
  controller_->release();
}

Result<void> Bytes::shared() noexcept {
  if (!is_exclusive()) return {};
  if (len_ == 0) {
    *this = empty_at(home());
    return {};
  }
  if (!controller_->unique()) {
    Error error;
    auto* const child = controller_->make_child(address(), static_cast<std::size_t>(tail_), error);
    if (child == nullptr) return error;
    controller_ = child;
  }
  tail_ = shared_tail;
  return {};
}

Result<Bytes> Bytes::clone() const noexcept {
  if (is_shared()) {
    controller_->retain();
    return Bytes(controller_, data_, len_, shared_tail);
  }
  if (len_ == 0) return empty_at(home());
  return copy_of(0, len_, len_, controller_->fork_alignment());
}

Result<Bytes> Bytes::view(std::size_t start, std::size_t end) const noexcept {
  if (start > end || end > len_) {
    Error error = failed(ErrorCode::out_of_range, "view", start > end ? start : end);
    error.limit = len_;
    return error;
  }
  if (is_exclusive()) return failed(ErrorCode::not_supported, "view of an exclusive value", end);
  if (start == end) return empty_at(home());
  controller_->retain();
  return Bytes(controller_, data_ + start, end - start, shared_tail);
}

// --- writing

/// Makes a shared value exclusive where it is. **Pre** can_steal().
void Bytes::steal() noexcept {
  const auto end = controller_->end();
  if (controller_->is_child()) controller_ = controller_->dissolve();
  tail_ = end - address();
}

/// An exclusive copy of a part, with a block of its own. **Pre** a value with a block.
Result<Bytes> Bytes::copy_of(std::size_t start, std::size_t size, std::size_t capacity,
                             std::size_t alignment) const noexcept {
  ASSAY_TRY(Bytes made, make(home(), capacity, alignment, Init::undefined, capacity > size));
  if (size != 0) detail::copy_payload(made.data_, data_ + start, size);
  made.len_ = size;
  return made;
}

Result<std::span<std::byte>> Bytes::write_shared(Writer writer) noexcept {
  if (controller_ == nullptr) return std::span<std::byte>();
  if (can_steal()) {
    steal();
  } else {
    if (!writer.policy.copy_allowed()) return failed(ErrorCode::would_copy, "write", len_);
    ASSAY_TRY(Bytes fork, copy_of(0, len_, len_, controller_->fork_alignment()));
    *this = std::move(fork);
  }
  return std::span<std::byte>(data_, len_);
}

/// Tries to have `required` bytes at `data` without a new block; nothing has changed if not.
bool Bytes::grow_where_it_is(std::size_t required, std::size_t target) noexcept {
  std::size_t room = reach();
  if (room == 0) return false;
  if (room < required) {
    AllocationController& root = controller_->root();
    if (!root.unique()) return false;
    const auto offset = static_cast<std::size_t>(address() - root.address());
    if (len_ == 0 && offset + room >= required) {
      data_ -= offset;  // no content, no sibling: the whole block is free to start again
      room += offset;
    } else {
      Error ignored;
      const auto whole = checked_add(offset, target);
      if (!whole || !root.grow_in_place(*whole, Init::undefined, ignored)) return false;
      room = static_cast<std::size_t>(root.end() - address());
    }
  }
  if (is_shared()) steal();
  tail_ = std::max<std::uint64_t>(room, tail_);
  return true;
}

template <class Fill>
Result<void> Bytes::grow(std::size_t additional, Fill&& fill) noexcept {
  const auto required = checked_add(len_, additional);
  if (!required || *required > size_max) {
    Error error = failed(ErrorCode::too_large, "grow", additional);
    error.in_use = len_;
    error.limit = size_max;
    return error;
  }
  const std::size_t current = is_exclusive() ? static_cast<std::size_t>(tail_) : 0;
  if (is_exclusive() && *required <= current) {
    fill(data_ + len_);
    return {};
  }
  // Doubling makes appends amortised; capacities above half of the address space cannot double.
  const std::size_t target = current > size_max / 2 ? *required : std::max(*required, current * 2);
  if (grow_where_it_is(*required, target)) {
    fill(data_ + len_);
    return {};
  }
  const std::size_t alignment =
      controller_ == nullptr ? home().alignment() : controller_->fork_alignment();
  auto fresh = copy_of(0, len_, target, alignment);
  if (!fresh && target > *required) fresh = copy_of(0, len_, *required, alignment);
  if (!fresh) return fresh.error();
  Bytes moved = std::move(fresh).value();
  fill(moved.data_ + len_);  // the old block still lives: the bytes to add may lie in it
  *this = std::move(moved);
  return {};
}

Result<void> Bytes::extend_slow(std::span<const std::byte> bytes) noexcept {
  if (bytes.empty()) return {};
  ASSAY_TRY_VOID(grow(
      bytes.size(), [&](std::byte* to) { detail::copy_payload(to, bytes.data(), bytes.size()); }));
  len_ += bytes.size();
  return {};
}

Result<void> Bytes::resize(std::size_t new_len) noexcept {
  if (new_len <= len_) {
    truncate(new_len);
    return {};
  }
  const std::size_t additional = new_len - len_;
  ASSAY_TRY_VOID(grow(additional, [&](std::byte* to) { std::memset(to, 0, additional); }));
  len_ = new_len;
  return {};
}

Result<void> Bytes::reserve(std::size_t additional) noexcept {
  if (additional == 0) return {};
  return grow(additional, [](std::byte*) {});
}

Result<void> Bytes::compact() noexcept {
  if (controller_ == nullptr) return {};
  if (len_ == 0) {
    *this = empty_at(home());
    return {};
  }
  const std::size_t alignment = controller_->fork_alignment();
  const Request own{.size = len_, .alignment = alignment};
  if (retained_bytes() <= home().backing().footprint(own)) return {};
  ASSAY_TRY(Bytes copy, copy_of(0, len_, len_, alignment));
  if (is_shared()) copy.tail_ = shared_tail;
  *this = std::move(copy);
  return {};
}

// --- giving away

AllocationController* Bytes::surrender() noexcept {
  note_written();
  if (is_shared()) steal();
  AllocationController* const root = std::exchange(controller_, nullptr);
  root->home().retain();
  const auto named = reinterpret_cast<std::uintptr_t>(&root->home());
  tail_ = no_block | named;
  data_ = nullptr;
  len_ = 0;
  return root;
}

Error Bytes::check_vector(const char* source_id, std::size_t element) const noexcept {
  const char* const feature = "try_into_vec";
  if (!controller_->root().foreign() || controller_->source().info().id != source_id) {
    return failed(ErrorCode::not_supported, feature, len_);
  }
  // A vector outside would be freed without the wipe that this home promises.
  if (controller_->wipes()) return failed(ErrorCode::not_supported, feature, len_);
  if (!controller_->unique() || !controller_->root().unique()) {
    return failed(ErrorCode::not_unique, feature, len_);
  }
  if (address() != controller_->root().address() || len_ % element != 0) {
    return failed(ErrorCode::out_of_range, feature, len_);
  }
  return {};
}

Error Bytes::check_owned(std::size_t element, std::size_t alignment) const noexcept {
  const char* const feature = "try_into_owned";
  if (controller_->immutable()) return failed(ErrorCode::not_supported, feature, len_);
  if (!is_exclusive() && !can_steal()) return failed(ErrorCode::not_unique, feature, len_);
  if (len_ % element != 0) return failed(ErrorCode::out_of_range, feature, len_);
  if (!is_aligned(address(), alignment)) {
    return failed(ErrorCode::invalid_alignment, feature, alignment);
  }
  return {};
}

}  // namespace assay
