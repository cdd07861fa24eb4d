#include "assay/buffer/allocation_controller.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include "lazy_unit.hpp"

namespace assay {
namespace {

std::atomic<std::uint64_t> failed_wipes{0};
std::atomic<std::uint64_t> failed_frees{0};

Error no_node(const char* backing) noexcept {
  return Error::make(ErrorCode::out_of_memory, "controller", backing, sizeof(AllocationController));
}

}  // namespace

ReleaseIncidents release_incidents() noexcept {
  return {failed_wipes.load(std::memory_order_relaxed),
          failed_frees.load(std::memory_order_relaxed)};
}

AllocationController::AllocationController(std::uint8_t flags, std::size_t alignment,
                                           AllocationProperty property, Block block, Home* home,
                                           Source* source) noexcept
    : flags_(flags),
      alignment_log2_(static_cast<std::uint8_t>(std::countr_zero(alignment))),
      property_(property),
      reserve_(0),
      address_(block.address),
      capacity_(block.capacity),
      home_(home),
      source_(source) {}

AllocationProperty AllocationController::property_of(const Source& source) noexcept {
  const bool host = source.can(Capabilities::host_access);
  const bool device = source.can(Capabilities::device_access);
  if (host && device) return AllocationProperty::pinned;
  if (device) return AllocationProperty::device;
  return host ? AllocationProperty::native : AllocationProperty::other;
}

void* AllocationController::node() noexcept {
  return node_pool::allocate(sizeof(AllocationController));
}

void AllocationController::free_node() noexcept {
  this->~AllocationController();
  node_pool::deallocate(this, sizeof(AllocationController));
}

AllocationController* AllocationController::allocate(Home& home, const Placement& placement,
                                                     Error& error) noexcept {
  Backing& backing = home.backing();
  void* const place = node();
  if (place == nullptr) {
    error = no_node(backing.info().id);
    return nullptr;
  }
  Request request{.size = placement.size,
                  .reserve = placement.reserve,
                  .alignment = placement.alignment,
                  .init = placement.init,
                  .stream = home.stream()};
  if (placement.use_slack && backing.check(request).code == ErrorCode::none) {
    request.size = std::max(request.size, backing.footprint(request));
  }
  const Block block = backing.allocate(request, error);
  if (!block) {
    node_pool::deallocate(place, sizeof(AllocationController));
    return nullptr;
  }
  std::uint8_t flags = home.wipes() ? wipe_flag : 0;
  if (placement.init == Init::zero) {
    flags |= asked_zero_flag;
    // Zero is promised for the size asked for; without slack that is the whole block.
    if (block.capacity == request.size) flags |= born_zero_flag;
  }
  home.retain();
  auto* const root = new (place) AllocationController(flags, placement.alignment,
                                                      property_of(backing), block, &home, &backing);
  root->requested_ = request.size;
  root->reserve_ = placement.reserve;
  return root;
}

AllocationController* AllocationController::adopt(Ref<Source>& source, Block block,
                                                  std::size_t alignment, ExternalAccess access,
                                                  AllocationProperty property, Home& home,
                                                  Error& error) noexcept {
  void* const place = node();
  if (place == nullptr) {
    error = no_node(source->info().id);
    return nullptr;
  }
  std::uint8_t flags = foreign_flag;
  if (access == ExternalAccess::immutable) {
    flags |= immutable_flag;
  } else if (home.wipes()) {
    flags |= wipe_flag;
  }
  home.retain();
  auto* const root =
      new (place) AllocationController(flags, alignment, property, block, &home, source.detach());
  root->requested_ = block.capacity;
  return root;
}

AllocationController* AllocationController::make_child(std::uint64_t address, std::size_t capacity,
                                                       Error& error) noexcept {
  void* const place = node();
  if (place == nullptr) {
    error = no_node(source_->info().id);
    return nullptr;
  }
  const auto flags = static_cast<std::uint8_t>(child_flag | (flags_ & wipe_flag));
  auto* const child = new (place)
      AllocationController(flags, alignment(), property_, {address, capacity}, nullptr, nullptr);
  child->parent_ = this;
  return child;
}

AllocationController* AllocationController::dissolve() noexcept {
  ASSAY_CONTRACT(is_child() && unique(), "only the last owner of a child dissolves it");
  AllocationController* const parent = parent_;
  free_node();
  return parent;
}

void AllocationController::destroy() noexcept {
  if (is_child()) {
    AllocationController* const parent = parent_;
    free_node();
    parent->release();
    return;
  }
  if (is_resident()) {
    Release release{request(), false};  // built in place: copying it would stall on fresh stores
    release_block(block(), release, mark());
  }
  abandon();
}

void AllocationController::abandon() noexcept {
  Home* const home = home_;
  if (foreign()) source_->release_reference();
  if (is_unit()) delete unit_;
  free_node();
  home->release_reference();  // last: it keeps the backing of an ordinary block alive
}

/// Wipes what was written and gives the block back.
void AllocationController::release_block(Block block, Release& release,
                                         std::size_t written) noexcept {
  release.known_zero = (flags_ & born_zero_flag) != 0 && wipes();
  if (wipes() && written != 0) {
    if (!source_->fill(block, 0, written, std::byte{0})) {
      failed_wipes.fetch_add(1, std::memory_order_relaxed);
      release.known_zero = false;
    }
  }
  if (did_not_free(source_->release(block, release))) {
    failed_frees.fetch_add(1, std::memory_order_relaxed);
  }
}

Request AllocationController::request() const noexcept {
  return {.size = requested_,
          .reserve = reserve(),
          .alignment = alignment(),
          .init = (flags_ & asked_zero_flag) != 0 ? Init::zero : Init::undefined,
          .stream = home_->stream()};
}

void AllocationController::raise_mark(std::uint64_t address) noexcept {
  const auto offset = static_cast<std::size_t>(address - this->address());
  std::size_t seen = mark_.load(std::memory_order_relaxed);
  while (seen < offset && !mark_.compare_exchange_weak(seen, offset, std::memory_order_relaxed)) {
  }
}

std::size_t AllocationController::alignment_at(std::uint64_t address) const noexcept {
  const std::uint64_t offset = address - root().address();
  const std::size_t own = alignment();
  if (offset == 0) return own;
  return std::min(own, static_cast<std::size_t>(offset & (~offset + 1)));
}

bool AllocationController::grow(std::size_t size, Init init, MayMove may_move,
                                Error& error) noexcept {
  const auto needed =
      may_move == MayMove::yes ? Capabilities::resize_moves : Capabilities::resize_in_place;
  if (foreign() || !source_->can(needed)) {
    error = Error::make(ErrorCode::not_supported, "grow in place", source_->info().id, size);
    error.limit = capacity_;
    return false;
  }
  const Request from = request();
  Request to = from;
  to.size = size;
  to.init = init;
  const auto resized = home_->backing().resize(block(), from, to, may_move);
  if (!resized) {
    error = resized.error();
    return false;
  }
  ASSAY_CONTRACT(may_move == MayMove::yes || resized.value().address == address(),
                 "a backing moved what it may not move");
  address_.store(resized.value().address, std::memory_order_relaxed);
  capacity_ = resized.value().capacity;
  requested_ = size;
  const bool still_zero = init == Init::zero && capacity_ == size;
  const unsigned cleared =
      (init == Init::zero ? 0U : asked_zero_flag) | (still_zero ? 0U : unsigned{born_zero_flag});
  const unsigned added = init == Init::zero ? unsigned{asked_zero_flag} : 0U;
  flags_ = static_cast<std::uint8_t>((flags_ & ~cleared) | added);
  return true;
}

Source& AllocationController::source() const noexcept {
  const AllocationController& owner = root();
  return owner.is_unit() && !owner.is_resident() ? *owner.origin().source_ : *owner.source_;
}

AllocationProperty AllocationController::property() const noexcept {
  const AllocationController& owner = root();
  return owner.is_unit() && !owner.is_resident() ? owner.origin().property_ : owner.property_;
}

std::size_t AllocationController::retained_bytes() const noexcept {
  const AllocationController& owner = root();
  const std::size_t own = owner.is_resident() ? owner.capacity_ : 0;
  if (!owner.is_unit() || owner.origin().property_ == AllocationProperty::file) return own;
  return own + owner.origin().capacity_;
}

}  // namespace assay
