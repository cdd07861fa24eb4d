// AllocationController: units, whose bytes are read when they are first needed.
#include "lazy_unit.hpp"

#include <bit>
#include <new>

#include "assay/buffer/access.hpp"

namespace assay {

AllocationController* AllocationController::unit_of(AllocationController& origin,
                                                    std::size_t offset, std::size_t size,
                                                    std::size_t alignment, Home& home,
                                                    Error& error) noexcept {
  Backing& backing = home.backing();
  if (!backing.can(Capabilities::host_access)) {
    error = Error::make(ErrorCode::not_supported, "home of a lazy value", backing.info().id, size);
    return nullptr;
  }
  auto* const unit = new (std::nothrow) LazyUnit(origin, offset);
  void* const place = unit == nullptr ? nullptr : node();
  if (place == nullptr) {
    delete unit;
    error = Error::make(ErrorCode::out_of_memory, "controller", origin.source_->info().id,
                        sizeof(AllocationController));
    return nullptr;
  }
  const auto flags = static_cast<std::uint8_t>(unit_flag | (home.wipes() ? wipe_flag : 0));
  home.retain();
  auto* const made = new (place)
      AllocationController(flags, alignment, property_of(backing), Block{}, &home, &backing);
  made->unit_ = unit;
  made->requested_ = size;
  return made;
}

Result<void> AllocationController::materialise() noexcept {
  if (is_resident()) return {};
  const std::uint32_t before = unit_->attempts_.load(std::memory_order_acquire);
  const std::scoped_lock turn(unit_->turn_);
  if (is_resident()) return {};
  // An attempt that ended while this thread waited for its turn was made for it too.
  if (unit_->attempts_.load(std::memory_order_relaxed) != before) return unit_->last_;

  const auto failed = [&](const Error& why) -> Result<void> {
    unit_->last_ = why;
    unit_->attempts_.fetch_add(1, std::memory_order_release);
    return why;
  };
  Release wanted{request(), false};
  Error error;
  const Block block = home_->backing().allocate(wanted.request, error);
  if (!block) return failed(error);
  auto* const first = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(block.address));
  const auto read = read_origin(0, {first, requested_});
  if (!read) {
    release_block(block, wanted,
                  requested_);  // what has come of the bytes is wiped like any others
    return failed(read.error());
  }
  capacity_ = block.capacity;
  mark_.store(requested_, std::memory_order_relaxed);
  address_.store(block.address, std::memory_order_release);
  return {};
}

Result<void> AllocationController::read_origin(std::size_t offset,
                                               std::span<std::byte> to) noexcept {
  ++detail::source_read.calls;
  AllocationController& from = *unit_->origin_;
  ASSAY_TRY_VOID(from.source_->copy_out(from.block(), unit_->offset_ + offset, to));
  detail::source_read.bytes += to.size();
  return {};
}

AllocationController& AllocationController::origin() const noexcept {
  return *unit_->origin_;
}

std::size_t AllocationController::offset_in_origin() const noexcept {
  return unit_->offset_;
}

void AllocationController::reshape(std::size_t size, std::size_t alignment) noexcept {
  ASSAY_CONTRACT(unique() && !is_resident(), "only a sole, unread unit changes its range");
  requested_ = size;
  alignment_log2_ = static_cast<std::uint8_t>(std::countr_zero(alignment));
}

void AllocationController::own_mirror() noexcept {
  ASSAY_CONTRACT(unique() && is_resident(), "only the sole owner of a mirror takes it over");
  delete unit_;
  reserve_ = 0;
  flags_ = static_cast<std::uint8_t>(flags_ & ~unit_flag);
}

}  // namespace assay
