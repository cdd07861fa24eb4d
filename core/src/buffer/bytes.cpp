// Bytes: making, facts, sharing, writing and growth. Cutting, joining and compacting:
// bytes_split.cpp.
#include "assay/buffer/bytes.hpp"

#include <algorithm>
#include <cstring>

#include "assay/backing/mapped_file.hpp"

namespace assay {

// --- making

Bytes Bytes::empty_at(Home& home) noexcept {
  if (home.immortal() && &home == &Home::host()) return {};
  home.retain();
  return {nullptr, nullptr, 0, no_block | reinterpret_cast<std::uintptr_t>(&home)};
}

/// An empty value with room; without a block `error` is set. In registers and memory of the
/// caller's, since a Result of each layer would be moved through it.
Bytes Bytes::make(Home& home, std::size_t capacity, std::size_t alignment, Init init,
                  bool use_slack, Error& error) noexcept {
  if (capacity == 0) return empty_at(home);
  const Backing& backing = home.backing();
  if (!backing.can(Capabilities::host_access)) {
    error = Error::make(ErrorCode::not_supported, "Bytes", backing.info().id, capacity);
    return {};
  }
  auto* const root = AllocationController::allocate(home,
                                                    {.size = capacity,
                                                     .alignment = alignment,
                                                     .reserve = 0,
                                                     .init = init,
                                                     .use_slack = use_slack},
                                                    error);
  if (root == nullptr) return {};
  return {root, pointer_to(root->address()), 0, root->end() - root->address()};
}

Result<Bytes> Bytes::from_span(std::span<const std::byte> bytes, Home& home) noexcept {
  Error error;
  Bytes made = make(home, bytes.size(), home.alignment(), Init::undefined, false, error);
  if (error.code != ErrorCode::none) return error;
  detail::copy_payload(made.data_, bytes.data(), bytes.size());
  made.len_ = bytes.size();
  return made;
}

Result<Bytes> Bytes::with_capacity(std::size_t capacity, Home& home) noexcept {
  Error error;
  Bytes made = make(home, capacity, home.alignment(), Init::undefined, true, error);
  if (error.code != ErrorCode::none) return error;
  return made;
}

Result<Bytes> Bytes::zeroed(std::size_t size, Home& home) noexcept {
  Error error;
  Bytes made = make(home, size, home.alignment(), Init::zero, false, error);
  if (error.code != ErrorCode::none) return error;
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

Result<Bytes> Bytes::from_source(Ref<Source> source, Block block, AllocationProperty property,
                                 Home& home) noexcept {
  if (!source) return Error::make(ErrorCode::invalid_argument, "from_source without a source");
  if (!block) {
    return Error::make(ErrorCode::invalid_argument, "from_source without a block",
                       source->info().id);
  }
  if (block.capacity > size_max) {
    return Error::make(ErrorCode::too_large, "from_source", source->info().id, block.capacity);
  }
  if (block.capacity == 0) {  // nothing to keep: the source has it back at once
    source->release(block, {});
    return empty_at(home);
  }
  if (source->can(Capabilities::host_access)) {
    const std::span<std::byte> memory(pointer_to(block.address), block.capacity);
    ASSAY_TRY(Bytes made, adopt(source, memory, external_alignment(memory.data()),
                                ExternalAccess::immutable, property, home));
    made.tail_ = watched_tail;
    return made;
  }
  Error error;
  auto* const origin = AllocationController::adopt(
      source, block, home.alignment(), ExternalAccess::immutable, property, home, error);
  if (origin == nullptr) return error;
  auto* const unit =
      AllocationController::unit_of(*origin, 0, block.capacity, home.alignment(), home, error);
  if (unit == nullptr) {
    origin->abandon();
    return error;
  }
  origin->release();
  return Bytes(unit, nullptr, block.capacity, shared_tail);
}

Result<Bytes> Bytes::from_file(const char* path, FileRegion region, Home& home) noexcept {
  ASSAY_TRY(Ref<File> file, File::open(path, region));
  const Block block = file->block();
  if (!block) return empty_at(home);
  return from_source(std::move(file), block, AllocationProperty::file, home);
}

Result<Bytes> Bytes::map_file(const char* path, FileRegion region, Home& home) noexcept {
  ASSAY_TRY(Ref<MappedFile> file, MappedFile::open(path, region));
  const std::span<const std::byte> memory = file->memory();
  if (memory.empty()) return empty_at(home);
  const Block block{reinterpret_cast<std::uintptr_t>(memory.data()), memory.size()};
  return from_source(std::move(file), block, AllocationProperty::file, home);
}

// --- facts

Home& Bytes::home_without_block() const noexcept {
  const std::uint64_t named = tail_ & ~no_block;
  if (named == 0) return Home::host();
  return *reinterpret_cast<Home*>(static_cast<std::uintptr_t>(named));
}

std::size_t Bytes::align() const noexcept {
  if (controller_ == nullptr) return home().alignment();
  const std::byte* const known = known_data();
  if (known == nullptr) return controller_->alignment();  // the first byte of a unit's mirror
  return controller_->alignment_at(reinterpret_cast<std::uintptr_t>(known));
}

AllocationProperty Bytes::property() const noexcept {
  if (controller_ != nullptr) return controller_->property();
  return AllocationProperty::native;
}

const char* Bytes::path() const noexcept {
  if (controller_ == nullptr) return "";
  const AllocationController& root = controller_->root();
  return (root.is_unit() ? root.origin() : root).source().path();
}

std::size_t Bytes::retained_bytes() const noexcept {
  return controller_ == nullptr ? 0 : controller_->retained_bytes();
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

/// **Pre** equal lengths.
bool Bytes::same_content(const Bytes& other) const noexcept {
  if (len_ == 0 || same_range(other)) return true;
  return std::memcmp(data(), other.data(), len_) == 0;
}

/// One range of one block, whether it has been read or not. **Pre** equal lengths, not empty.
bool Bytes::same_range(const Bytes& other) const noexcept {
  if (controller_ != other.controller_) return false;
  const std::byte* const a = known_data();
  const std::byte* const b = other.known_data();
  // Both are at the front of a unit, or at the same place of a block.
  return a == b || (controller_->is_unit() && is_resident() && data() == other.data());
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
  return to.empty() ? Result<void>() : bring(offset, to);
}

/// Copies a part, from memory or straight from the source. **Pre** inside a value with a block.
Result<void> Bytes::bring(std::size_t offset, std::span<std::byte> to) const noexcept {
  if (!is_resident()) return controller_->read_origin(offset, to);
  detail::copy_payload(to.data(), data() + offset, to.size());
  return still_same();
}

/// Asked after bytes were looked at that someone outside could have changed meanwhile.
Result<void> Bytes::still_same() const noexcept {
  if (tail_ != watched_tail) return {};
  return controller_->source().verify(controller_->block());
}

const std::byte* Bytes::data_of_mirror() const noexcept {
  const std::byte* const mirror = pointer_to(controller_->address());
  ASSAY_CONTRACT(mirror != nullptr, "the bytes of a lazy value before they were read");
  return mirror;
}

Result<std::span<const std::byte>> Bytes::read_slow(Reader reader) const noexcept {
  if (controller_ == nullptr) return std::span<const std::byte>();
  if (known_data() == nullptr) {
    if (!controller_->is_resident()) {
      if (!reader.policy.copy_allowed()) return failed(ErrorCode::would_copy, "read", len_);
      ASSAY_TRY_VOID(controller_->materialise());
    }
    std::atomic_ref(data_).store(pointer_to(controller_->address()), std::memory_order_release);
  }
  ASSAY_TRY_VOID(still_same());
  return span();
}

Result<bool> Bytes::equals(const Bytes& other) const noexcept {
  if (len_ != other.len_) return false;
  if (len_ == 0 || same_range(other)) return true;
  ASSAY_TRY(const std::span<const std::byte> mine, read());
  ASSAY_TRY(const std::span<const std::byte> theirs, other.read());
  const bool equal = std::memcmp(mine.data(), theirs.data(), len_) == 0;
  ASSAY_TRY_VOID(still_same());
  ASSAY_TRY_VOID(other.still_same());
  return equal;
}

Result<std::size_t> Bytes::hash() const noexcept {
  ASSAY_TRY_VOID(read());
  const std::size_t hash = std::hash<Bytes>()(*this);
  ASSAY_TRY_VOID(still_same());
  return hash;
}

// --- sharing

void Bytes::drop_block() noexcept {
  note_written();
  controller_->release();
}

/// What is left of `shared()`: nothing to do, nothing to share, or a half whose siblings live.
Result<void> Bytes::share_part() noexcept {
  if (!is_exclusive()) return {};
  if (len_ == 0) {
    *this = empty_at(home());
    return {};
  }
  Error error;
  auto* const child = controller_->make_child(address(), static_cast<std::size_t>(tail_), error);
  if (child == nullptr) return error;
  controller_ = child;
  tail_ = shared_tail;
  return {};
}

Result<Bytes> Bytes::clone() const noexcept {
  if (is_shared()) {
    controller_->retain();
    return Bytes(controller_, const_cast<std::byte*>(known_data()), len_, tail_);
  }
  if (len_ == 0) return empty_at(home());
  Error error;
  Bytes copy = copy_of(0, len_, len_, controller_->fork_alignment(), error);
  if (error.code != ErrorCode::none) return error;
  return copy;
}

Result<Bytes> Bytes::view(std::size_t start, std::size_t end) const noexcept {
  if (start > end || end > len_) {
    Error error = failed(ErrorCode::out_of_range, "view", start > end ? start : end);
    error.limit = len_;
    return error;
  }
  if (is_exclusive()) return failed(ErrorCode::not_supported, "view of an exclusive value", end);
  if (start == end) return empty_at(home());
  if (!is_resident()) {
    if (end - start == len_) return clone();
    return lazy_part(start, end - start, controller_->alignment());
  }
  controller_->retain();
  return Bytes(controller_, const_cast<std::byte*>(data()) + start, end - start, tail_);
}

// --- writing

/// Makes a shared value exclusive where it is. **Pre** can_steal().
void Bytes::steal() noexcept {
  if (controller_->is_unit()) controller_->own_mirror();
  const auto end = controller_->end();
  if (controller_->is_child()) controller_ = controller_->dissolve();
  tail_ = end - address();
}

/// An exclusive copy of a part, with a block of its own; or an empty value and `error`. **Pre** a
/// value with a block.
Bytes Bytes::copy_of(std::size_t start, std::size_t size, std::size_t capacity,
                     std::size_t alignment, Error& error) const noexcept {
  Bytes made = make(home(), capacity, alignment, Init::undefined, capacity > size, error);
  if (size == 0 || error.code != ErrorCode::none) return made;
  made.len_ = size;  // before the bytes come, so that a failing read is wiped too
  if (const auto brought = bring(start, {made.data_, size}); !brought) {
    error = brought.error();
    return {};
  }
  return made;
}

Result<std::span<std::byte>> Bytes::write_shared(Writer writer) noexcept {
  if (controller_ == nullptr) return std::span<std::byte>();
  settle();
  if (can_steal()) {
    steal();
  } else {
    if (!writer.policy.copy_allowed()) return failed(ErrorCode::would_copy, "write", len_);
    Error error;
    Bytes fork = copy_of(0, len_, len_, controller_->fork_alignment(), error);
    if (error.code != ErrorCode::none) return error;
    swap(fork);
  }
  return std::span<std::byte>(data_, len_);
}

/// Tries to have `required` bytes in this block, which may move by pages; nothing has changed if
/// that cannot be.
bool Bytes::grow_in_block(std::size_t required, std::size_t target) noexcept {
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
      const bool moves_pages = root.source().can(Capabilities::moves_pages);
      const bool grown =
          whole && (root.grow(*whole, Init::undefined, MayMove::no, ignored) ||
                    (moves_pages && root.grow(*whole, Init::undefined, MayMove::yes, ignored)));
      if (!grown) return false;
      data_ = pointer_to(root.address() + offset);
      room = static_cast<std::size_t>(root.end() - address());
    }
  }
  if (is_shared()) steal();
  tail_ = room;  // a child's own end is of no use any more: its root may have moved
  return true;
}

/// Makes the value exclusive with room for `additional` more bytes; on error it is as before.
Result<void> Bytes::grow(std::size_t additional) noexcept {
  const auto required = checked_add(len_, additional);
  if (!required || *required > size_max) {
    Error error = failed(ErrorCode::too_large, "grow", additional);
    error.in_use = len_;
    error.limit = size_max;
    return error;
  }
  const std::size_t current = is_exclusive() ? static_cast<std::size_t>(tail_) : 0;
  if (is_exclusive() && *required <= current) return {};
  settle();
  // Doubling makes appends amortised; capacities above half of the address space cannot double.
  const std::size_t target = current > size_max / 2 ? *required : std::max(*required, current * 2);
  if (grow_in_block(*required, target)) return {};
  const std::size_t alignment =
      controller_ == nullptr ? home().alignment() : controller_->fork_alignment();
  Error error;
  Bytes fresh = copy_of(0, len_, target, alignment, error);
  if (error.code != ErrorCode::none && target > *required) {
    error = {};
    fresh = copy_of(0, len_, *required, alignment, error);
  }
  if (error.code != ErrorCode::none) return error;
  swap(fresh);
  return {};
}

Result<void> Bytes::extend_slow(std::span<const std::byte> bytes) noexcept {
  if (bytes.empty()) return {};
  // Bytes of this very value move with it, also those of a mirror that another handle has read.
  settle();
  const std::less<const std::byte*> below;
  const std::byte* const first = data_;
  const bool own =
      first != nullptr && !below(bytes.data(), first) && below(bytes.data(), first + len_);
  const std::ptrdiff_t offset = own ? bytes.data() - first : 0;
  ASSAY_TRY_VOID(grow(bytes.size()));
  detail::copy_payload(data_ + len_, own ? data_ + offset : bytes.data(), bytes.size());
  len_ += bytes.size();
  return {};
}

Result<void> Bytes::resize(std::size_t new_len) noexcept {
  if (new_len <= len_) {
    truncate(new_len);
    return {};
  }
  const std::size_t additional = new_len - len_;
  ASSAY_TRY_VOID(grow(additional));
  std::memset(data_ + len_, 0, additional);
  len_ = new_len;
  return {};
}

Result<void> Bytes::reserve(std::size_t additional) noexcept {
  return additional == 0 ? Result<void>() : grow(additional);
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
  if (data_ == nullptr) return failed(ErrorCode::not_resident, feature, len_);
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
  if (data_ == nullptr) return failed(ErrorCode::not_resident, feature, len_);
  if (controller_->immutable()) return failed(ErrorCode::not_supported, feature, len_);
  if (!is_exclusive() && !can_steal()) return failed(ErrorCode::not_unique, feature, len_);
  if (len_ % element != 0) return failed(ErrorCode::out_of_range, feature, len_);
  if (!is_aligned(address(), alignment)) {
    return failed(ErrorCode::invalid_alignment, feature, alignment);
  }
  return {};
}

}  // namespace assay
