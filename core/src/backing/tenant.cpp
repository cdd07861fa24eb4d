#include "assay/backing/tenant.hpp"

#include <algorithm>

#include "assay/base/contract.hpp"

namespace assay {

Ref<Tenant> Tenant::make(std::uint64_t limit) {
  return Ref<Tenant>::adopt(new Tenant(std::min(limit, unlimited)));
}

Tenant::Tenant(std::uint64_t limit) noexcept
    : room_(static_cast<std::int64_t>(limit)), limit_(limit) {}

Tenant::Account Tenant::account() const noexcept {
  return {.limit = limit_.load(std::memory_order_relaxed),
          .charged = charged_.load(std::memory_order_relaxed),
          .pending = pending_.load(std::memory_order_relaxed),
          .quarantined = quarantined_.load(std::memory_order_relaxed),
          .peak = peak_.load(std::memory_order_relaxed)};
}

void Tenant::set_limit(std::uint64_t limit) noexcept {
  const std::uint64_t now = std::min(limit, unlimited);
  const std::uint64_t before = limit_.exchange(now, std::memory_order_relaxed);
  // Both fit a signed number, so the difference does too; several callers add up in any order.
  room_.fetch_add(static_cast<std::int64_t>(now) - static_cast<std::int64_t>(before),
                  std::memory_order_relaxed);
}

bool Tenant::charge(std::uint64_t bytes) noexcept {
  if (bytes > unlimited) return false;
  const auto wanted = static_cast<std::int64_t>(bytes);
  std::int64_t room = room_.load(std::memory_order_relaxed);
  do {
    if (wanted > room) return false;
  } while (!room_.compare_exchange_weak(room, room - wanted, std::memory_order_relaxed));
  record(bytes);
  return true;
}

void Tenant::charge_beyond_limit(std::uint64_t bytes) noexcept {
  room_.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  record(bytes);
}

/// Raises `charged_` by what room was taken for, and the peak with it.
void Tenant::record(std::uint64_t bytes) noexcept {
  const std::uint64_t charged = charged_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::uint64_t peak = peak_.load(std::memory_order_relaxed);
  while (charged > peak && !peak_.compare_exchange_weak(peak, charged, std::memory_order_relaxed)) {
  }
}

void Tenant::credit(std::uint64_t bytes) noexcept {
  const std::uint64_t before = charged_.fetch_sub(bytes, std::memory_order_relaxed);
  ASSAY_CONTRACT(before >= bytes, "more credited than was charged");
  room_.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
}

void Tenant::hold_pending(std::uint64_t bytes) noexcept {
  pending_.fetch_add(bytes, std::memory_order_relaxed);
}

void Tenant::complete_pending(std::uint64_t bytes) noexcept {
  const std::uint64_t before = pending_.fetch_sub(bytes, std::memory_order_relaxed);
  ASSAY_CONTRACT(before >= bytes, "more completed than was pending");
  credit(bytes);
}

void Tenant::quarantine(std::uint64_t bytes) noexcept {
  quarantined_.fetch_add(bytes, std::memory_order_relaxed);
}

void Tenant::reclaim(std::uint64_t bytes) noexcept {
  const std::uint64_t before = quarantined_.fetch_sub(bytes, std::memory_order_relaxed);
  ASSAY_CONTRACT(before >= bytes, "more reclaimed than is in quarantine");
  credit(bytes);
}

std::uint64_t Tenant::room() const noexcept {
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(room_.load(std::memory_order_relaxed), 0));
}

}  // namespace assay
