// UnifiedBuffer: one sized region on any backing, that grows in place and is wiped when it goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "assay/base/result.hpp"
#include "assay/buffer/allocation_controller.hpp"
#include "assay/buffer/bytes.hpp"

namespace assay {

/// Ordinal of a device. Host memory stands for 0 alone, memory of a device for its own.
struct DeviceId {
  std::uint32_t ordinal = 0;
  friend bool operator==(const DeviceId&, const DeviceId&) = default;
};

/// Where a buffer lives and how it is treated.
struct BufferOptions {
  Ref<Backing> backing{};  ///< null: the default host
  std::size_t alignment = 16;
  std::optional<DeviceId> device{};  ///< must be the backing's; without it, it is
  Wipe wipe = Wipe::on_release;
  StreamRef stream{};
};

/// Sole owner of a contiguous region with a logical size and room to grow in place.
///
///     |######## size ########|000000 capacity 000000|
///     |#### written ####|         the mark bounds what a wipe must touch
///
/// **Invariants** size() <= capacity(). Bytes that growth exposes read zero, whatever was there
/// before. Written bytes are overwritten before the block goes back, unless Wipe::no was asked.
/// A failing operation changes nothing. **Threads** like a `std::vector`.
class UnifiedBuffer {
 public:
  /// An empty buffer; the first resize puts it on the default host.
  UnifiedBuffer() noexcept = default;
  UnifiedBuffer(UnifiedBuffer&& other) noexcept
      : controller_(std::exchange(other.controller_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        stale_(std::exchange(other.stale_, 0)),
        handle_(std::exchange(other.handle_, 0)),
        device_(std::exchange(other.device_, DeviceId{})) {}
  UnifiedBuffer& operator=(UnifiedBuffer&& other) noexcept {
    UnifiedBuffer taken(std::move(other));
    swap(taken);
    return *this;
  }
  UnifiedBuffer(const UnifiedBuffer&) = delete;
  UnifiedBuffer& operator=(const UnifiedBuffer&) = delete;
  ~UnifiedBuffer() {
    if (controller_ != nullptr) controller_->release();
  }
  void swap(UnifiedBuffer& other) noexcept;

  // --- making. **Errors** zero_size before any backing is asked, invalid_argument for a device
  // --- that the backing does not stand for, invalid_alignment, too_large, out_of_memory, quota.
  /// `size` bytes, all zero.
  [[nodiscard]] static Result<UnifiedBuffer> create(std::size_t size,
                                                    const BufferOptions& options = {}) noexcept;
  /// `size` bytes of which only the first `visible` (at most `size`) read zero; the rest is
  /// undefined and is not touched.
  [[nodiscard]] static Result<UnifiedBuffer> create_with_visible_window(
      std::size_t size, std::size_t visible, const BufferOptions& options = {}) noexcept;
  /// `size` zeros with room to grow in place to `capacity` (at least `size`).
  [[nodiscard]] static Result<UnifiedBuffer> create_with_capacity(
      std::size_t size, std::size_t capacity, const BufferOptions& options = {}) noexcept;

  // --- facts
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool is_empty() const noexcept { return size_ == 0; }
  /// What growth in place can count on.
  [[nodiscard]] std::size_t capacity() const noexcept;
  [[nodiscard]] DeviceId device() const noexcept { return device_; }
  [[nodiscard]] bool host_addressable() const noexcept;
  [[nodiscard]] bool supports_in_place_growth() const noexcept;
  [[nodiscard]] bool wipes() const noexcept {
    return controller_ == nullptr || controller_->wipes();
  }
  [[nodiscard]] AllocationProperty property() const noexcept;
  [[nodiscard]] std::size_t align() const noexcept;
  /// Names the buffer in logs: random, never derived from an address, kept through moves of the
  /// handle and growth. 0 for a buffer without a block.
  [[nodiscard]] std::uint64_t handle() const noexcept { return handle_; }
  /// Bytes below this offset may have been written since the block was made.
  [[nodiscard]] std::size_t written_up_to() const noexcept;

  // --- access. **Errors** not_supported without host access, out_of_range
  [[nodiscard]] Result<std::span<const std::byte>> as_span() const noexcept;
  /// Counts the whole buffer as written.
  [[nodiscard]] Result<std::span<std::byte>> as_mutable_span() noexcept;
  /// Counts bytes up to `offset + size` as written.
  [[nodiscard]] Result<std::span<std::byte>> as_mutable_span(std::size_t offset,
                                                             std::size_t size) noexcept;
  /// Copies in through the backing, with or without host access.
  [[nodiscard]] Result<void> write_at(std::size_t offset,
                                      std::span<const std::byte> bytes) noexcept;
  /// Copies out through the backing, with or without host access.
  [[nodiscard]] Result<void> read_at(std::size_t offset, std::span<std::byte> bytes) const noexcept;

  // --- size
  /// Sets the size without moving; new bytes read zero. A smaller size shrinks. **Errors**
  /// not_supported with the limit if the backing cannot grow the block where it is.
  [[nodiscard]] Result<void> try_grow_in_place(std::size_t new_size) noexcept;
  /// Lowers the size; touches no byte (a later growth zeroes, a wipe still reaches them).
  /// **Pre** new_size <= size().
  void shrink(std::size_t new_size) noexcept;
  /// As try_grow_in_place, but moves if it must. **Cost** then copies the bytes written so far.
  [[nodiscard]] Result<void> resize(std::size_t new_size) noexcept;

  // --- placement: honest, a hint that reaches nobody is not_supported
  [[nodiscard]] Result<void> advise(Advice advice, Location location) noexcept {
    return advise(advice, location, 0, size_);
  }
  [[nodiscard]] Result<void> advise(Advice advice, Location location, std::size_t offset,
                                    std::size_t size) noexcept;
  [[nodiscard]] Result<void> prefetch_to_device(StreamRef stream = {}) noexcept;
  [[nodiscard]] Result<void> prefetch_to_host(StreamRef stream = {}) noexcept;

  // --- the other handle
  /// The same block as an exclusive `Bytes`; leaves the buffer empty. A block out of the host's
  /// reach gives a lazy value, whose first read and whose writes go to blocks of `mirrors`, wiped
  /// if this buffer is. **Errors** out_of_memory, not_supported if the host cannot reach `mirrors`;
  /// then the buffer is as before. **Cost** no copy.
  [[nodiscard]] Result<Bytes> freeze(Home& mirrors = Home::host()) noexcept;
  /// Takes a block back from `bytes`, which is left empty; on error it is as before. A lazy value
  /// gives its device block back, read or not. **Errors** zero_size without a block, not_unique,
  /// out_of_range for a part of a block, not_supported for memory that no backing made. **Cost** no
  /// copy.
  [[nodiscard]] static Result<UnifiedBuffer> detach(Bytes& bytes) noexcept;

 private:
  UnifiedBuffer(AllocationController* controller, std::size_t size, std::size_t stale,
                DeviceId device) noexcept;
  [[nodiscard]] static Result<UnifiedBuffer> make(std::size_t size, std::size_t reserve, Init init,
                                                  const BufferOptions& options) noexcept;
  [[nodiscard]] static Result<Ref<Home>> home_for(const BufferOptions& options) noexcept;
  [[nodiscard]] Result<void> move_to_new_block(std::size_t new_size) noexcept;
  [[nodiscard]] Result<void> prefetch(Location location, StreamRef stream) noexcept;
  [[nodiscard]] Result<Bytes> freeze_lazily(Home& mirrors) noexcept;
  [[nodiscard]] Error check_range(const char* feature, std::size_t offset,
                                  std::size_t size) const noexcept;
  [[nodiscard]] std::byte* data() const noexcept;

  AllocationController* controller_ = nullptr;  // a root, never shared
  std::size_t size_ = 0;
  std::size_t stale_ = 0;  // bytes below this offset were undefined when the block came
  std::uint64_t handle_ = 0;
  DeviceId device_{};
};

}  // namespace assay
