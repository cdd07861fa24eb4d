#include "assay/backing/quota.hpp"

#include <algorithm>

#include "live_blocks.hpp"

namespace assay {

Ref<Quota> Quota::make(Ref<Tenant> tenant, Ref<Backing> upstream) {
  ASSAY_CONTRACT(tenant && upstream, "a quota needs a tenant and an upstream");
  return Ref<Quota>::adopt(new Quota(std::move(tenant), std::move(upstream)));
}

Quota::Quota(Ref<Tenant> tenant, Ref<Backing> upstream) noexcept
    : Adaptor(renamed("quota", *upstream), upstream), tenant_(std::move(tenant)) {}

Quota::~Quota() {
  const auto live = live_.total();
  detail::check_none_live(info().id, live.blocks, live.bytes);
}

Error Quota::refusal(const char* feature, const Request& request) const noexcept {
  Error error = Error::make(ErrorCode::quota_exceeded, feature, info().id, request.size);
  const Tenant::Account account = tenant_->account();
  error.in_use = account.charged;
  error.limit = account.limit;
  // Padding takes of the room first, and capacities are multiples of the granularity: what is left
  // beyond serves nobody.
  const std::uint64_t padding = upstream().charge(request) - upstream().footprint(request);
  const std::uint64_t room = tenant_->room() - std::min(tenant_->room(), padding);
  error.largest_free = room - room % info().granularity;
  return error;
}

/// After a call below that failed: what it lost stays charged, in quarantine.
void Quota::undo_charge(std::size_t bytes, std::uint64_t lost) noexcept {
  if (lost > bytes) tenant_->charge_beyond_limit(lost - bytes);
  if (lost < bytes) tenant_->credit(bytes - lost);
  if (lost != 0) tenant_->quarantine(lost);
}

/// Books a block that went back.
void Quota::settle(std::size_t bytes, Freed freed) noexcept {
  switch (freed) {
    case Freed::now: tenant_->credit(bytes); break;
    case Freed::pending: tenant_->hold_pending(bytes); break;
    case Freed::failed: tenant_->quarantine(bytes); break;
    case Freed::refused: break;
  }
}

Block Quota::do_allocate(const Request& request, Error& error) noexcept {
  const std::size_t expected = upstream().charge(request);
  if (!tenant_->charge(expected)) {
    error = refusal("allocate", request);
    return {};
  }
  const Block block = allocate_from(upstream(), request, error);
  if (!block) {
    undo_charge(expected, error.lost);
    return {};
  }
  const std::size_t held = upstream().held_by(block);
  if (held > expected) [[unlikely]] {
    // The upstream was wrong about what it takes; the limit holds all the same.
    if (!tenant_->charge(held - expected)) {
      error = refusal("allocate", request);
      // Of a block that does not come back, what was charged is what can be quarantined.
      settle(expected, deallocate_to(upstream(), block, Release{request, false}));
      return {};
    }
  } else if (held < expected) [[unlikely]] {
    tenant_->credit(expected - held);
  }
  live_.add(block.capacity);
  return block;
}

Freed Quota::do_deallocate(Block block, const Release& release) noexcept {
  const std::size_t held = upstream().held_by(block);  // asked while it is still the caller's
  const Freed freed = deallocate_to(upstream(), block, release);
  if (freed == Freed::refused) return freed;  // no block of ours: no account changes
  live_.remove(block.capacity);
  settle(held, freed);
  return freed;
}

Block Quota::do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                       Error& error) noexcept {
  const std::size_t before = upstream().held_by(block);
  const std::size_t expected =
      upstream().footprint(to) > block.capacity ? upstream().charge(to) : before;
  const std::size_t more = expected > before ? expected - before : 0;
  if (more != 0 && !tenant_->charge(more)) {
    error = refusal("resize", to);
    return {};
  }
  const Block resized = resize_in(upstream(), block, from, to, may_move, error);
  if (!resized) {
    undo_charge(more, error.lost);
    return {};
  }
  const std::size_t charged = before + more;
  const std::size_t held = upstream().held_by(resized);
  if (held < charged) {
    tenant_->credit(charged - held);
  } else if (held > charged) {
    // An upstream that takes more than it said cannot be undone here without a new move: the block
    // keeps what it got and the account shows it.
    tenant_->charge_beyond_limit(held - charged);
  }
  live_.resize(block.capacity, resized.capacity);
  return resized;
}

}  // namespace assay
