#include "assay/backing/fault.hpp"

#include <algorithm>
#include <new>

#include "live_blocks.hpp"

namespace assay {

/// A block whose free was made to fail.
struct Fault::Withheld {
  Block block;
  Release release;
  Withheld* next;
};

Ref<Fault> Fault::make(Ref<Backing> upstream) {
  ASSAY_CONTRACT(upstream, "fault needs an upstream");
  return Ref<Fault>::adopt(new Fault(std::move(upstream)));
}

Fault::Fault(Ref<Backing> upstream) noexcept : Adaptor(renamed("fault", *upstream), upstream) {}

Fault::~Fault() {
  const auto live = live_.total();
  detail::check_none_live(info().id, live.blocks, live.bytes);
  while (withheld_ != nullptr) {
    Withheld* const one = withheld_;
    withheld_ = one->next;
    deallocate_to(upstream(), one->block, one->release);
    delete one;
  }
}

void Fault::plan(On on, FaultPlan plan) noexcept {
  ASSAY_CONTRACT(plan.code != ErrorCode::none, "a planned failure needs a code");
  const std::lock_guard lock(mutex_);
  kinds_[static_cast<std::size_t>(on)] = Kind{.plan = std::move(plan)};
}

std::uint64_t Fault::calls(On on) const noexcept {
  const std::lock_guard lock(mutex_);
  return kinds_[static_cast<std::size_t>(on)].calls;
}

std::uint64_t Fault::injected(On on) const noexcept {
  const std::lock_guard lock(mutex_);
  return kinds_[static_cast<std::size_t>(on)].injected;
}

ErrorCode Fault::meet(On on, std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  Kind& kind = kinds_[static_cast<std::size_t>(on)];
  const FaultPlan& plan = kind.plan;
  const std::uint64_t call = ++kind.calls;
  if (__builtin_add_overflow(kind.bytes, bytes, &kind.bytes)) kind.bytes = UINT64_MAX;
  const bool fails = call == plan.nth || (plan.every != 0 && call % plan.every == 0) ||
                     (plan.after_bytes != UINT64_MAX && kind.bytes > plan.after_bytes) ||
                     std::ranges::find(plan.calls, call) != plan.calls.end();
  if (!fails) return ErrorCode::none;
  ++kind.injected;
  return plan.code;
}

Block Fault::do_allocate(const Request& request, Error& error) noexcept {
  if (const ErrorCode code = meet(On::allocate, request.size); code != ErrorCode::none) {
    error = Error::make(code, "allocate", info().id, request.size);
    return {};
  }
  const Block block = allocate_from(upstream(), request, error);
  if (block) live_.add(block.capacity);
  return block;
}

Freed Fault::do_deallocate(Block block, const Release& release) noexcept {
  live_.remove(block.capacity);
  if (meet(On::deallocate, block.capacity) != ErrorCode::none) {
    if (auto* const kept = new (std::nothrow) Withheld{block, release, nullptr}) {
      const std::lock_guard lock(mutex_);
      kept->next = withheld_;
      withheld_ = kept;
    }
    return Freed::failed;
  }
  const Freed freed = deallocate_to(upstream(), block, release);
  if (freed == Freed::refused) live_.add(block.capacity);  // no block of ours after all
  return freed;
}

Block Fault::do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                       Error& error) noexcept {
  if (const ErrorCode code = meet(On::resize, to.size); code != ErrorCode::none) {
    error = Error::make(code, "resize", info().id, to.size);
    return {};
  }
  const Block resized = resize_in(upstream(), block, from, to, may_move, error);
  if (resized) live_.resize(block.capacity, resized.capacity);
  return resized;
}

}  // namespace assay
