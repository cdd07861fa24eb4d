// Bytes: a contiguous run of bytes that can be shared, cut, viewed and written on copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "assay/backing/file.hpp"
#include "assay/base/result.hpp"
#include "assay/buffer/access.hpp"
#include "assay/buffer/allocation_controller.hpp"
#include "assay/buffer/owned_array.hpp"
#include "assay/buffer/plain.hpp"

namespace assay {

struct Retention;

/// Move-only owner of a run of bytes: 32 bytes by value, no allocation per handle.
///
///     data ─────────┐                        no block:  data null, tail names the home
///     len           │                        exclusive: tail is the capacity from `data`
///     controller ─┐ │                        shared:    the window is [data, data + len)
///     tail        │ ▼
///                 ▼ |###### len ######|.. spare ..|
///              count, source, home, mark
///
/// An exclusive value is written in place; sharing is explicit (`shared()`). A write to a shared
/// value takes the block over if it is the last of its group, and forks otherwise.
///
/// A value of a file or of device memory is shared and *lazy*: `data` is null until the first read
/// has brought its bytes into a block of its home, once for all its clones. Views and halves of it
/// read their own range alone. Facts, views, splits and printing never read.
///
/// **Invariants** a failing operation leaves content, mode and group as they were. A zero-length
/// value that is shared or has no room holds no block. `data()` is null without a block.
/// **Threads** like a `std::vector`, the first read included: const operations may meet on one
/// value. Handles of one block may be used from different threads.
/// **Spans** every non-const operation invalidates spans taken earlier.
class Bytes {
 public:
  /// An empty value at home on the host. Allocates nothing.
  constexpr Bytes() noexcept = default;
  Bytes(Bytes&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        len_(std::exchange(other.len_, 0)),
        controller_(std::exchange(other.controller_, nullptr)),
        tail_(std::exchange(other.tail_, no_block)) {}
  Bytes& operator=(Bytes&& other) noexcept {
    Bytes taken(std::move(other));
    swap(taken);
    return *this;
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes() {
    if (controller_ != nullptr) {
      drop_block();
    } else if (tail_ != no_block) {
      home().release_reference();
    }
  }
  void swap(Bytes& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(len_, other.len_);
    std::swap(controller_, other.controller_);
    std::swap(tail_, other.tail_);
  }

  // --- making
  /// An exclusive copy. **Errors** those of the backing. **Cost** copies every byte.
  [[nodiscard]] static Result<Bytes> from_span(std::span<const std::byte> bytes,
                                               Home& home = Home::host()) noexcept;
  [[nodiscard]] static Result<Bytes> from_text(std::string_view text,
                                               Home& home = Home::host()) noexcept {
    return from_span(std::as_bytes(std::span(text)), home);
  }
  /// An empty exclusive value with room. Room 0 never touches the backing.
  [[nodiscard]] static Result<Bytes> with_capacity(std::size_t capacity,
                                                   Home& home = Home::host()) noexcept;
  /// An exclusive value of `size` zeros.
  [[nodiscard]] static Result<Bytes> zeroed(std::size_t size, Home& home = Home::host()) noexcept;
  /// Takes a vector over without a copy; on error the vector is untouched. The value's range is
  /// the vector's size, not its capacity (which only the vector may use), so growth moves.
  template <PlainElement E>
  [[nodiscard]] static Result<Bytes> from_vector(std::vector<E>&& elements,
                                                 Home& home = Home::host()) noexcept;
  /// Takes foreign memory over without a copy; on error it stays the caller's and its release
  /// function is not called. Immutable memory gives a shared value, writable an exclusive one.
  [[nodiscard]] static Result<Bytes> from_external(const ExternalMemory& external,
                                                   Home& home = Home::host()) noexcept;

  /// A window of a file, read when it is first needed; the file is opened and checked now.
  /// **Errors** those of File::open, out_of_memory, not_supported for a home that the host cannot
  /// reach.
  [[nodiscard]] static Result<Bytes> from_file(const char* path, FileRegion region = {},
                                               Home& home = Home::host()) noexcept;
  /// A window of a file as a private read-only mapping: no byte is copied, pages come at first
  /// touch. Shared and immutable; `read` asks whether the file is still the same. **Errors** as
  /// from_file.
  [[nodiscard]] static Result<Bytes> map_file(const char* path, FileRegion region = {},
                                              Home& home = Home::host()) noexcept;
  /// The block of any source, as a shared value: lazy if the host cannot reach it, else immutable
  /// in place, and then `read` asks Source::verify; an empty one goes back at once. On error it
  /// stays the caller's. **Errors** too_large, out_of_memory, not_supported for a home that the
  /// host cannot reach. **Cost** a node, or three if lazy.
  [[nodiscard]] static Result<Bytes> from_source(Ref<Source> source, Block block,
                                                 AllocationProperty property,
                                                 Home& home = Home::host()) noexcept;

  // --- facts: never allocate, never copy, never read
  [[nodiscard]] std::size_t len() const noexcept { return len_; }
  [[nodiscard]] bool is_empty() const noexcept { return len_ == 0; }
  /// Bytes usable without a new block: never looks at siblings. `len()` if shared.
  [[nodiscard]] std::size_t capacity() const noexcept {
    return is_exclusive() ? static_cast<std::size_t>(tail_) : len_;
  }
  [[nodiscard]] bool is_exclusive() const noexcept { return static_cast<std::int64_t>(tail_) >= 0; }
  [[nodiscard]] bool is_shared() const noexcept { return (tail_ >> 62) == 3; }
  /// Are the bytes in the host's reach? If not, the first read brings them there.
  [[nodiscard]] bool is_resident() const noexcept {
    return known_data() != nullptr || controller_ == nullptr || controller_->is_resident();
  }
  [[nodiscard]] bool has_block() const noexcept { return controller_ != nullptr; }
  /// An alignment that `data()` really has, whatever the allocator's mood; until it is resident,
  /// one that it will have.
  [[nodiscard]] std::size_t align() const noexcept;
  /// Where the bytes are now.
  [[nodiscard]] AllocationProperty property() const noexcept;
  /// Path of the file that the bytes come from, or "".
  [[nodiscard]] const char* path() const noexcept;
  /// Bytes of memory that this value keeps alive, however small its window.
  [[nodiscard]] std::size_t retained_bytes() const noexcept;
  [[nodiscard]] Home& home() const noexcept {
    return controller_ != nullptr ? controller_->home() : home_without_block();
  }

  // --- reading. **Pre** resident: a file or device value has been read before
  [[nodiscard]] const std::byte* data() const noexcept {
    const std::byte* const known = known_data();
    if (known != nullptr || controller_ == nullptr) [[likely]]
      return known;
    return data_of_mirror();
  }
  [[nodiscard]] std::span<const std::byte> span() const noexcept { return {data(), len_}; }
  [[nodiscard]] const std::byte* begin() const noexcept { return data(); }
  [[nodiscard]] const std::byte* end() const noexcept { return data() + len_; }
  [[nodiscard]] std::byte operator[](std::size_t index) const noexcept {
    ASSAY_CONTRACT(index < len_, "index past the end of Bytes");
    return data()[index];
  }
  /// Equal bytes; where they live does not matter. **Cost** none for two views of one range, or if
  /// the lengths differ. **Pre** resident, if the lengths are equal.
  friend bool operator==(const Bytes& a, const Bytes& b) noexcept { return a.same_bytes(b); }

  // --- reading, whatever it takes: these alone may bring the bytes of a lazy value
  /// The bytes. **Errors** would_copy if they are not resident and `reader` forbids a copy; those
  /// of the source and of the home's backing, then the value is as before and may be read again.
  [[nodiscard]] Result<std::span<const std::byte>> read(Reader reader = {}) const noexcept {
    const std::byte* const known = known_data();
    if (known != nullptr && tail_ != watched_tail) [[likely]]
      return std::span(known, len_);
    return read_slow(reader);
  }
  /// As ==. **Errors** those of read; none if the lengths differ or the ranges are the same.
  [[nodiscard]] Result<bool> equals(const Bytes& other) const noexcept;
  /// Copies `to.size()` bytes from `offset` on. A value that is not resident stays so: its source
  /// is read straight into `to`. **Errors** out_of_range beyond `len()`, then nothing is copied;
  /// those of the source, then `to` holds undefined bytes. **Cost** one copy or one read.
  [[nodiscard]] Result<void> copy_into(std::span<std::byte> to,
                                       std::size_t offset = 0) const noexcept;
  /// Calls `visit(std::span<const std::byte>)`, which returns a Result<void>, with all bytes in
  /// order. A resident value is visited in one piece and nothing is copied; the source of any other
  /// is read into `scratch`, piece by piece, and the value stays as it is. **Errors**
  /// invalid_argument for an empty scratch, those of the source and of `visit`.
  template <class Visit>
  [[nodiscard]] Result<void> read_chunks(std::span<std::byte> scratch,
                                         Visit&& visit) const noexcept;
  /// Equal values hash equally, as std::hash. **Errors** those of read.
  [[nodiscard]] Result<std::size_t> hash() const noexcept;

  // --- sharing
  /// Makes the value shared: clones and views of it copy nothing. **Errors** out_of_memory only
  /// for a part of a block whose other parts live. **Cost** a flag for a whole block.
  [[nodiscard]] Result<void> shared() noexcept {
    if (is_exclusive() && len_ != 0 && controller_->unique()) [[likely]] {
      tail_ = shared_tail;
      return {};
    }
    return share_part();
  }
  /// A shared value gives another handle (0 bytes copied), an exclusive one a deep copy whose
  /// capacity is its length.
  [[nodiscard]] Result<Bytes> clone() const noexcept;
  /// A window [start, end) that keeps the block alive; of a value that is not resident, a lazy
  /// value that reads this range alone. **Errors** out_of_range; then not_supported for an
  /// exclusive value; out_of_memory only if not resident. **Cost** one count; two nodes if not
  /// resident.
  [[nodiscard]] Result<Bytes> view(std::size_t start, std::size_t end) const noexcept;

  // --- cutting and joining
  /// Keeps [0, offset) here and returns the rest. Nothing is copied unless `min_align` demands it
  /// of a part, or an owned split meets a shared value that others use. A value that is not
  /// resident is not read under either policy: each half reads its own range. **Errors**
  /// out_of_range, invalid_alignment, those of the backing.
  [[nodiscard]] Result<Bytes> split(std::size_t offset, SplitPolicy policy = SplitPolicy::shared,
                                    std::size_t min_align = 1) noexcept {
    if (data_ != nullptr && min_align == 1 && offset != 0 && offset < len_ &&
        (policy == SplitPolicy::shared || is_exclusive() || steal_whole())) [[likely]] {
      return cut_inside(offset);
    }
    return split_slow(offset, policy, min_align);
  }
  /// Appends a neighbour without a copy and leaves `right` empty. **Errors** not_adjacent,
  /// not_unique; then both are as before.
  [[nodiscard]] Result<void> join(Bytes&& right) noexcept;
  /// Keeps the first `n` bytes; never fails. **Pre** n <= len().
  void truncate(std::size_t n) noexcept;

  // --- writing
  /// The bytes, to be written. Afterwards the value is exclusive. **Errors** would_copy if a fork
  /// is needed and forbidden, those of the backing and of the source. **Cost** copies `len()` bytes
  /// if others share; a value that is not resident is read straight into a block of its own.
  [[nodiscard]] Result<std::span<std::byte>> write(Writer writer = {}) noexcept {
    if (is_exclusive() || steal_whole()) [[likely]]
      return std::span<std::byte>(data_, len_);
    return write_shared(writer);
  }
  /// Appends; the span may be of this very value. Amortised constant. Empty: does nothing.
  [[nodiscard]] Result<void> extend(std::span<const std::byte> bytes) noexcept {
    if (is_exclusive() && bytes.size() <= static_cast<std::size_t>(tail_) - len_) [[likely]] {
      detail::copy_payload(data_ + len_, bytes.data(), bytes.size());
      len_ += bytes.size();
      return {};
    }
    return extend_slow(bytes);
  }
  /// Sets the length; new bytes are zero. Same length: does nothing.
  [[nodiscard]] Result<void> resize(std::size_t new_len) noexcept;
  /// Makes room for `additional` more bytes and the value exclusive. 0: does nothing.
  [[nodiscard]] Result<void> reserve(std::size_t additional) noexcept;
  /// Moves to a block of its own length if it keeps a larger one alive. **Cost** copies `len()`.
  [[nodiscard]] Result<void> compact() noexcept;

  // --- giving away
  /// The adopted vector, shortened to `len()`; leaves the value empty. On error the value is as
  /// before. **Errors** not_supported for another type or a wiped value, not_unique,
  /// out_of_range unless the value starts the block and holds whole elements. **Cost** no copy.
  template <PlainElement E>
  [[nodiscard]] Result<std::vector<E>> try_into_vec() noexcept;
  /// The bytes as an array of `E` with a deleter that keeps the block; leaves the value empty. On
  /// error the value is as before. **Errors** not_unique, out_of_range unless they are whole
  /// elements, invalid_alignment, not_supported for immutable memory. **Cost** no copy.
  template <PlainElement E>
  [[nodiscard]] Result<OwnedArray<E>> try_into_owned() noexcept;

 private:
  friend class UnifiedBuffer;
  friend Result<Retention> retention_of(std::span<const Bytes> values) noexcept;
  static constexpr std::uint64_t no_block = std::uint64_t{1} << 63;
  static constexpr std::uint64_t shared_tail = ~std::uint64_t{0};
  static constexpr std::uint64_t watched_tail =
      shared_tail - 1;  // of memory that others can change

  Bytes(AllocationController* controller, std::byte* data, std::size_t len,
        std::uint64_t tail) noexcept
      : data_(data), len_(len), controller_(controller), tail_(tail) {}

  /// `data_`, which a const first read sets while others look. Null: ask the controller.
  [[nodiscard]] const std::byte* known_data() const noexcept {
    return std::atomic_ref(data_).load(std::memory_order_acquire);
  }
  [[nodiscard]] const std::byte* data_of_mirror() const noexcept;
  [[nodiscard]] Home& home_without_block() const noexcept;
  [[gnu::cold, gnu::noinline]] [[nodiscard]] Result<std::span<const std::byte>> read_slow(
      Reader reader) const noexcept;
  [[nodiscard]] Result<void> still_same() const noexcept;
  [[nodiscard]] Result<void> bring(std::size_t offset, std::span<std::byte> to) const noexcept;
  /// Takes the mirror's address over if another handle read it; true if resident now.
  bool settle() noexcept {
    if (data_ == nullptr && controller_ != nullptr && controller_->is_resident()) {
      data_ = pointer_to(controller_->address());
    }
    return data_ != nullptr || controller_ == nullptr;
  }
  [[nodiscard]] static std::byte* pointer_to(std::uint64_t address) noexcept {
    return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address));
  }
  [[nodiscard]] std::uint64_t address() const noexcept {
    return reinterpret_cast<std::uintptr_t>(data_);
  }
  [[nodiscard]] bool same_bytes(const Bytes& other) const noexcept {
    if (len_ != other.len_) return false;
    const std::byte* const known = known_data();
    return (known != nullptr && known == other.known_data()) || same_content(other);
  }
  [[nodiscard]] bool same_content(const Bytes& other) const noexcept;
  [[nodiscard]] bool same_range(const Bytes& other) const noexcept;
  [[nodiscard]] bool can_steal() const noexcept {
    return is_shared() && data_ != nullptr && !controller_->immutable() && controller_->unique();
  }
  /// Does the value begin where its unit does?
  [[nodiscard]] bool at_front() const noexcept {
    return data_ == nullptr || address() == controller_->address();
  }
  [[nodiscard]] std::size_t reach() const noexcept;
  [[nodiscard]] Error failed(ErrorCode code, const char* feature,
                             std::uint64_t requested) const noexcept;

  [[nodiscard]] static Bytes make(Home& home, std::size_t capacity, std::size_t alignment,
                                  Init init, bool use_slack, Error& error) noexcept;
  [[nodiscard]] static Bytes empty_at(Home& home) noexcept;
  [[nodiscard]] static Result<Bytes> adopt(Ref<Source>& source, std::span<std::byte> memory,
                                           std::size_t alignment, ExternalAccess access,
                                           AllocationProperty property, Home& home) noexcept;
  [[nodiscard]] Bytes copy_of(std::size_t start, std::size_t size, std::size_t capacity,
                              std::size_t alignment, Error& error) const noexcept;
  /// The common steal: the last handle of a whole, mutable block takes it over.
  bool steal_whole() noexcept {
    if (tail_ != shared_tail || data_ == nullptr) return false;
    if (!controller_->plain() || !controller_->unique()) return false;
    tail_ = controller_->end() - address();
    return true;
  }
  /// Divides the value where it is. **Pre** resident, 0 < offset < len().
  [[nodiscard]] Bytes cut_inside(std::size_t offset) noexcept {
    controller_->retain();
    const std::uint64_t right_tail = is_exclusive() ? tail_ - offset : tail_;
    if (is_exclusive()) tail_ = offset;
    return Bytes(controller_, data_ + offset, std::exchange(len_, offset) - offset, right_tail);
  }
  [[nodiscard]] Result<void> share_part() noexcept;
  [[nodiscard]] Bytes cut(std::size_t offset) noexcept;
  [[nodiscard]] Result<Bytes> split_slow(std::size_t offset, SplitPolicy policy,
                                         std::size_t min_align) noexcept;
  [[nodiscard]] Result<Bytes> lazy_part(std::size_t start, std::size_t size,
                                        std::size_t alignment) const noexcept;
  [[nodiscard]] Result<void> reshape(std::size_t size, std::size_t alignment) noexcept;
  [[nodiscard]] Result<Bytes> split_unread(std::size_t offset, std::size_t min_align) noexcept;
  [[nodiscard]] Result<void> join_unread(Bytes& right) noexcept;
  [[nodiscard]] Result<std::span<std::byte>> write_shared(Writer writer) noexcept;
  [[nodiscard]] Result<void> extend_slow(std::span<const std::byte> bytes) noexcept;
  [[nodiscard]] Result<void> grow(std::size_t additional) noexcept;
  [[nodiscard]] bool grow_in_block(std::size_t required, std::size_t target) noexcept;
  void steal() noexcept;
  void drop_block() noexcept;
  void note_written() noexcept {
    if (data_ != nullptr) controller_->written_up_to(address() + len_);
  }
  /// The root, stolen and with the mark at `len()`. **Pre** sole owner of a mutable range.
  [[nodiscard]] AllocationController* surrender() noexcept;
  [[nodiscard]] Error check_vector(const char* source_id, std::size_t element) const noexcept;
  [[nodiscard]] Error check_owned(std::size_t element, std::size_t alignment) const noexcept;

  mutable std::byte* data_ = nullptr;  // null: no block, or the first byte of an unread unit
  std::size_t len_ = 0;
  AllocationController* controller_ = nullptr;
  std::uint64_t tail_ = no_block;  // see the drawing; no_block | home, where 0 is the host's
};

static_assert(sizeof(Bytes) == 32);
static_assert(std::is_nothrow_move_constructible_v<Bytes> && !std::is_copy_constructible_v<Bytes>);

template <PlainElement E>
Result<Bytes> Bytes::from_vector(std::vector<E>&& elements, Home& home) noexcept {
  if (elements.empty()) {
    std::vector<E>().swap(elements);
    return empty_at(home);
  }
  auto vector = AdoptedVector<E>::make(std::move(elements));
  if (!vector) return Error::make(ErrorCode::out_of_memory, "from_vector", "vector");
  std::vector<E>& kept = vector->elements();
  Ref<Source> source = std::move(vector);
  const std::span<std::byte> memory = std::as_writable_bytes(std::span(kept));
  // What operator new promises, unless the address says less: the same for every run.
  const std::size_t promised = alignof(E) > 16 ? alignof(E) : 16;
  const std::size_t own = external_alignment(memory.data());
  auto adopted = adopt(source, memory, own < promised ? own : promised, ExternalAccess::writable,
                       AllocationProperty::native, home);
  if (!adopted) elements = std::move(kept);
  return adopted;
}

template <class Visit>
Result<void> Bytes::read_chunks(std::span<std::byte> scratch, Visit&& visit) const noexcept {
  if (scratch.empty()) return failed(ErrorCode::invalid_argument, "read_chunks", 0);
  if (len_ == 0) return {};
  if (is_resident()) {
    ASSAY_TRY(const std::span<const std::byte> all, read());
    ASSAY_TRY_VOID(visit(all));
    return still_same();
  }
  for (std::size_t done = 0; done < len_;) {
    const auto piece = scratch.first(scratch.size() < len_ - done ? scratch.size() : len_ - done);
    ASSAY_TRY_VOID(copy_into(piece, done));
    ASSAY_TRY_VOID(visit(std::span<const std::byte>(piece)));
    done += piece.size();
  }
  return {};
}

template <PlainElement E>
Result<std::vector<E>> Bytes::try_into_vec() noexcept {
  if (controller_ == nullptr) return std::vector<E>();
  settle();
  const Error refused = check_vector(AdoptedVector<E>::id, sizeof(E));
  if (refused.code != ErrorCode::none) return refused;
  auto& source = static_cast<AdoptedVector<E>&>(controller_->source());
  std::vector<E> elements = std::move(source.elements());
  elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(len_ / sizeof(E)), elements.end());
  *this = empty_at(home());
  return elements;
}

template <PlainElement E>
Result<OwnedArray<E>> Bytes::try_into_owned() noexcept {
  if (controller_ == nullptr) return OwnedArray<E>();
  settle();
  const Error refused = check_owned(sizeof(E), alignof(E));
  if (refused.code != ErrorCode::none) return refused;
  E* const elements = reinterpret_cast<E*>(data_);
  const std::size_t count = len_ / sizeof(E);
  return OwnedArray<E>(elements, OwnedDeleter(surrender(), count));
}

}  // namespace assay

/// Equal values hash equally. **Pre** resident.
template <>
struct std::hash<assay::Bytes> {
  std::size_t operator()(const assay::Bytes& bytes) const noexcept {
    return std::hash<std::string_view>()(
        {reinterpret_cast<const char*>(bytes.data()), bytes.len()});
  }
};
