// UnifiedBuffer: making, access, placement and conversion. Sizes: unified_buffer_size.cpp.
#include "assay/buffer/unified_buffer.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>

namespace assay {
namespace {

/// One random seed a process, then a bijective mix of a sequence: unique, and nothing about the
/// memory can be computed from it.
std::uint64_t seed_of_process() noexcept {
  std::uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed) {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    seed = static_cast<std::uint64_t>(now.tv_nsec) * 0x9e3779b97f4a7c15u +
           static_cast<std::uint64_t>(now.tv_sec) + static_cast<std::uint64_t>(getpid());
  }
  return seed;
}

DeviceId device_of(const Source& source) noexcept {
  return {static_cast<std::uint32_t>(std::max(0, source.info().device))};
}

std::uint64_t next_handle() noexcept {
  static const std::uint64_t seed = seed_of_process();
  static std::atomic<std::uint64_t> sequence{0};
  std::uint64_t mixed =
      seed + (sequence.fetch_add(1, std::memory_order_relaxed) + 1) * 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  mixed ^= mixed >> 31;
  return mixed != 0 ? mixed : 1;
}

}  // namespace

UnifiedBuffer::UnifiedBuffer(AllocationController* controller, std::size_t size, std::size_t stale,
                             DeviceId device) noexcept
    : controller_(controller),
      size_(size),
      stale_(stale),
      handle_(next_handle()),
      device_(device) {}

void UnifiedBuffer::swap(UnifiedBuffer& other) noexcept {
  std::swap(controller_, other.controller_);
  std::swap(size_, other.size_);
  std::swap(stale_, other.stale_);
  std::swap(handle_, other.handle_);
  std::swap(device_, other.device_);
}

// --- making

Result<Ref<Home>> UnifiedBuffer::home_for(const BufferOptions& options) noexcept {
  Ref<Backing> backing = options.backing;
  if (!backing) backing = Ref<Backing>::retain(&Home::host().backing());
  // Any other id would be a claim that nothing honours.
  if (options.device && *options.device != device_of(*backing)) {
    return Error::make(ErrorCode::invalid_argument, "device id", backing->info().id,
                       options.device->ordinal);
  }
  return Home::make(
      std::move(backing),
      {.alignment = options.alignment, .wipe = options.wipe, .stream = options.stream});
}

Result<UnifiedBuffer> UnifiedBuffer::make(std::size_t size, std::size_t reserve, Init init,
                                          const BufferOptions& options) noexcept {
  if (size == 0) return Error::make(ErrorCode::zero_size, "UnifiedBuffer");
  ASSAY_TRY(const Ref<Home> home, home_for(options));
  Error error;
  auto* const root = AllocationController::allocate(
      *home, {.size = size, .alignment = options.alignment, .reserve = reserve, .init = init},
      error);
  if (root == nullptr) return error;
  return UnifiedBuffer(root, size, init == Init::zero ? 0 : size, device_of(root->source()));
}

Result<UnifiedBuffer> UnifiedBuffer::create(std::size_t size,
                                            const BufferOptions& options) noexcept {
  return make(size, 0, Init::zero, options);
}

Result<UnifiedBuffer> UnifiedBuffer::create_with_visible_window(
    std::size_t size, std::size_t visible, const BufferOptions& options) noexcept {
  const std::size_t window = std::min(size, visible);
  if (window == size) return create(size, options);
  ASSAY_TRY(UnifiedBuffer made, make(size, 0, Init::undefined, options));
  AllocationController& root = *made.controller_;
  ASSAY_TRY_VOID(root.source().fill(root.block(), 0, window, std::byte{0}));
  return made;
}

Result<UnifiedBuffer> UnifiedBuffer::create_with_capacity(std::size_t size, std::size_t capacity,
                                                          const BufferOptions& options) noexcept {
  return make(size, capacity > size ? capacity : 0, Init::zero, options);
}

// --- facts

std::size_t UnifiedBuffer::capacity() const noexcept {
  if (controller_ == nullptr) return 0;
  return std::max(controller_->capacity(), controller_->reserve());
}

bool UnifiedBuffer::host_addressable() const noexcept {
  return controller_ == nullptr || controller_->source().can(Capabilities::host_access);
}

bool UnifiedBuffer::supports_in_place_growth() const noexcept {
  return controller_ != nullptr && controller_->source().can(Capabilities::resize_in_place);
}

AllocationProperty UnifiedBuffer::property() const noexcept {
  return controller_ == nullptr ? AllocationProperty::native : controller_->property();
}

std::size_t UnifiedBuffer::align() const noexcept {
  return controller_ == nullptr ? Home::host().alignment() : controller_->alignment();
}

std::size_t UnifiedBuffer::written_up_to() const noexcept {
  return controller_ == nullptr ? 0 : controller_->mark();
}

// --- access

std::byte* UnifiedBuffer::data() const noexcept {
  if (controller_ == nullptr) return nullptr;
  return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(controller_->address()));
}

Error UnifiedBuffer::check_range(const char* feature, std::size_t offset,
                                 std::size_t size) const noexcept {
  if (offset <= size_ && size <= size_ - offset) return {};
  const char* const id = controller_ == nullptr ? "" : controller_->source().info().id;
  Error error = Error::make(ErrorCode::out_of_range, feature, id, offset > size_ ? offset : size);
  error.limit = size_;
  return error;
}

Result<std::span<const std::byte>> UnifiedBuffer::as_span() const noexcept {
  if (!host_addressable()) {
    return Error::make(ErrorCode::not_supported, "as_span", controller_->source().info().id, size_);
  }
  return std::span<const std::byte>(data(), size_);
}

Result<std::span<std::byte>> UnifiedBuffer::as_mutable_span() noexcept {
  return as_mutable_span(0, size_);
}

Result<std::span<std::byte>> UnifiedBuffer::as_mutable_span(std::size_t offset,
                                                            std::size_t size) noexcept {
  const Error bad = check_range("as_mutable_span", offset, size);
  if (bad.code != ErrorCode::none) return bad;
  if (!host_addressable()) {
    return Error::make(ErrorCode::not_supported, "as_mutable_span", controller_->source().info().id,
                       size);
  }
  if (size == 0) return std::span<std::byte>();
  controller_->raise_mark(controller_->address() + offset + size);
  return std::span<std::byte>(data() + offset, size);
}

Result<void> UnifiedBuffer::write_at(std::size_t offset,
                                     std::span<const std::byte> bytes) noexcept {
  const Error bad = check_range("write_at", offset, bytes.size());
  if (bad.code != ErrorCode::none) return bad;
  if (bytes.empty()) return {};
  controller_->raise_mark(controller_->address() + offset + bytes.size());
  ASSAY_TRY_VOID(controller_->source().copy_in(controller_->block(), offset, bytes));
  detail::payload_copied += bytes.size();
  return {};
}

Result<void> UnifiedBuffer::read_at(std::size_t offset, std::span<std::byte> bytes) const noexcept {
  const Error bad = check_range("read_at", offset, bytes.size());
  if (bad.code != ErrorCode::none) return bad;
  if (bytes.empty()) return {};
  ASSAY_TRY_VOID(controller_->source().copy_out(controller_->block(), offset, bytes));
  detail::payload_copied += bytes.size();
  return {};
}

// --- placement

Result<void> UnifiedBuffer::advise(Advice advice, Location location, std::size_t offset,
                                   std::size_t size) noexcept {
  const Error bad = check_range("advise", offset, size);
  if (bad.code != ErrorCode::none) return bad;
  if (size == 0) return {};  // no byte, so no call below
  return controller_->home().backing().advise(controller_->block(), offset, size, advice, location);
}

Result<void> UnifiedBuffer::prefetch(Location location, StreamRef stream) noexcept {
  if (size_ == 0) return {};
  return controller_->home().backing().prefetch(controller_->block(), 0, size_, location, stream);
}

Result<void> UnifiedBuffer::prefetch_to_device(StreamRef stream) noexcept {
  return prefetch({Location::Kind::device, static_cast<std::int32_t>(device_.ordinal)}, stream);
}

Result<void> UnifiedBuffer::prefetch_to_host(StreamRef stream) noexcept {
  return prefetch({Location::Kind::host, 0}, stream);
}

// --- the other handle

Result<Bytes> UnifiedBuffer::freeze(Home& mirrors) noexcept {
  if (controller_ == nullptr) return Bytes();
  if (!host_addressable()) return freeze_lazily(mirrors);
  std::byte* const first = data();
  const std::size_t size = size_;
  AllocationController* const root = std::exchange(controller_, nullptr);
  *this = UnifiedBuffer();
  return Bytes(root, first, size, root->end() - root->address());
}

Result<Bytes> UnifiedBuffer::freeze_lazily(Home& mirrors) noexcept {
  Ref<Home> home = Ref<Home>::retain(&mirrors);
  if (wipes() && !home->wipes()) {
    ASSAY_TRY(home, Home::make(Ref<Backing>::retain(&mirrors.backing()),
                               {.alignment = mirrors.alignment(),
                                .wipe = Wipe::on_release,
                                .stream = mirrors.stream()}));
  }
  if (size_ == 0) {
    *this = UnifiedBuffer();
    return Bytes::empty_at(*home);
  }
  Error error;
  auto* const unit =
      AllocationController::unit_of(*controller_, 0, size_, home->alignment(), *home, error);
  if (unit == nullptr) return error;
  const std::size_t size = size_;
  *this = UnifiedBuffer();  // the unit holds the origin now
  return Bytes(unit, nullptr, size, Bytes::shared_tail);
}

Result<UnifiedBuffer> UnifiedBuffer::detach(Bytes& bytes) noexcept {
  AllocationController* const group = bytes.controller_;
  if (group == nullptr) return Error::make(ErrorCode::zero_size, "detach");
  const bool lazy = group->is_unit();
  AllocationController& root = lazy ? group->origin() : group->root();
  if (root.foreign()) return bytes.failed(ErrorCode::not_supported, "detach", bytes.len());
  if (!group->unique() || !root.unique()) {
    return bytes.failed(ErrorCode::not_unique, "detach", bytes.len());
  }
  bytes.settle();
  const bool at_front =
      lazy ? group->offset_in_origin() == 0 && bytes.at_front() : bytes.address() == root.address();
  if (!at_front) return bytes.failed(ErrorCode::out_of_range, "detach", bytes.len());
  const std::size_t size = bytes.len();
  AllocationController* taken = &root;
  if (lazy) {
    root.retain();
    Home& home = group->home();
    home.retain();
    bytes = Bytes::empty_at(home);  // and with it the mirror
    home.release_reference();
  } else {
    taken = bytes.surrender();
  }
  // What `Bytes` wrote is marked; beyond its length the block holds whatever was left there.
  return UnifiedBuffer(taken, size, taken->requested(), device_of(taken->source()));
}

}  // namespace assay
