#include "assay/backing/quota.hpp"

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

Error Quota::refusal(const char* feature, std::size_t requested) const noexcept {
  Error error = Error::make(ErrorCode::quota_exceeded, feature, info().id, requested);
  const Tenant::Account account = tenant_->account();
  error.in_use = account.charged;
  error.limit = account.limit;
  // Capacities are multiples of the granularity: the rest of the room serves nobody.
  const std::uint64_t room = tenant_->room();
  error.largest_free = room - room % info().granularity;
  return error;
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
  const std::size_t expected = upstream().footprint(request);
  if (!tenant_->charge(expected)) {
    error = refusal("allocate", request.size);
    return {};
  }
  const Block block = allocate_from(upstream(), request, error);
  if (!block) {
    tenant_->credit(expected);
    return {};
  }
  if (block.capacity > expected) [[unlikely]] {
    // The upstream was wrong about its footprint; the limit holds all the same.
    if (!tenant_->charge(block.capacity - expected)) {
      error = refusal("allocate", request.size);
      // Of a block that does not come back, what was charged is what can be quarantined.
      settle(expected, deallocate_to(upstream(), block, Release{request, false}));
      return {};
    }
  } else if (block.capacity < expected) [[unlikely]] {
    tenant_->credit(expected - block.capacity);
  }
  live_.add(block.capacity);
  return block;
}

Freed Quota::do_deallocate(Block block, const Release& release) noexcept {
  const Freed freed = deallocate_to(upstream(), block, release);
  if (freed == Freed::refused) return freed;  // no block of ours: no account changes
  live_.remove(block.capacity);
  settle(block.capacity, freed);
  return freed;
}

Block Quota::do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                       Error& error) noexcept {
  const std::size_t expected = upstream().footprint(to);
  const std::size_t more = expected > block.capacity ? expected - block.capacity : 0;
  if (more != 0 && !tenant_->charge(more)) {
    error = refusal("resize", to.size);
    return {};
  }
  const Block resized = resize_in(upstream(), block, from, to, may_move, error);
  if (!resized) {
    if (more != 0) tenant_->credit(more);
    return {};
  }
  const std::size_t charged = block.capacity + more;
  if (resized.capacity < charged) {
    tenant_->credit(charged - resized.capacity);
  } else if (resized.capacity > charged) {
    // An upstream that grants more than its footprint cannot be undone here without a new move:
    // the block keeps what it got and the account shows it.
    tenant_->charge_beyond_limit(resized.capacity - charged);
  }
  live_.resize(block.capacity, resized.capacity);
  return resized;
}

}  // namespace assay
