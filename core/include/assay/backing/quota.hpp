// quota: charges a tenant for every block of its upstream.
#pragma once

#include "assay/backing/backing.hpp"
#include "assay/backing/tenant.hpp"
#include "assay/base/live_count.hpp"

namespace assay {

/// Charges what a block takes from below, padding included, before its upstream allocates, and
/// credits it after the block is free: what is held below never exceeds the tenant's limit, and
/// what fits is never refused.
///
/// A block whose free is `pending` stays charged until `report_completed`; one whose free failed
/// goes to the tenant's quarantine, still charged, and so do bytes that a failed call lost. A
/// resize charges the difference; while an upstream moves a block, both copies exist but one is
/// charged.
///
/// Above a pool the charge is exact per block; below it (`slab_pool(quota(…))`) per chunk.
/// **Threads** as the upstream.
class Quota final : public Adaptor {
 public:
  /// **Pre** both are given.
  [[nodiscard]] static Ref<Quota> make(Ref<Tenant> tenant, Ref<Backing> upstream);
  ~Quota() override;

  [[nodiscard]] Tenant& tenant() const noexcept { return *tenant_; }

  /// A leaf's word that `bytes` of blocks whose free was pending are free now.
  /// **Pre** at most `tenant().account().pending`.
  void report_completed(std::uint64_t bytes) noexcept { tenant_->complete_pending(bytes); }

 private:
  Quota(Ref<Tenant> tenant, Ref<Backing> upstream) noexcept;
  Block do_allocate(const Request& request, Error& error) noexcept override;
  Freed do_deallocate(Block block, const Release& release) noexcept override;
  Block do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                  Error& error) noexcept override;

  [[nodiscard]] Error refusal(const char* feature, const Request& request) const noexcept;
  void undo_charge(std::size_t bytes, std::uint64_t lost) noexcept;
  void settle(std::size_t bytes, Freed freed) noexcept;

  Ref<Tenant> tenant_;
  LiveCount live_;
};

}  // namespace assay
