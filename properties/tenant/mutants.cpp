// Quotas that are broken in one way each; a property must tell every one of them from the real one.
#include <array>
#include <atomic>
#include <thread>

#include "account_under_test.hpp"

namespace assay::tenant {
namespace {

enum class Flaw {
  checks_then_adds,       // two steps, so that two threads may pass one check
  charges_requested,      // what was asked for instead of what is held
  refuses_at_equality,    // the last byte of the limit serves nobody
  credits_failed_frees,   // memory that is still held is forgotten
  credits_before_free,    // somebody is admitted while the block is still there
  keeps_failed_charges,   // a refusal below is not given back
  forgets_growth,         // a resize is free of charge
  credits_by_request,     // a free credits the size asked for, not what was charged
  keeps_refused_resizes,  // a resize that failed below stays charged
  limit_is_fixed,         // set_limit is heard by nobody
};

/// A quota as simple as can be, with a flaw.
class BrokenQuota final : public Adaptor {
 public:
  BrokenQuota(Flaw flaw, std::uint64_t limit, Ref<Backing> upstream)
      : Adaptor(renamed("quota", *upstream), upstream), flaw_(flaw), limit_(limit) {}

  [[nodiscard]] std::uint64_t charged() const { return charged_.load(); }
  [[nodiscard]] std::uint64_t quarantined() const { return quarantined_.load(); }
  void set_limit(std::uint64_t limit) {
    if (flaw_ != Flaw::limit_is_fixed) limit_.store(limit);
  }

 private:
  bool charge(std::uint64_t bytes) noexcept {
    std::uint64_t now = charged_.load();
    do {
      const std::uint64_t limit = limit_.load();
      const bool fits =
          flaw_ == Flaw::refuses_at_equality ? now + bytes < limit : now + bytes <= limit;
      if (!fits) return false;
      if (flaw_ == Flaw::checks_then_adds) {
        std::this_thread::yield();  // as a preempted thread would: the flaw shows at once
        charged_.fetch_add(bytes);
        return true;
      }
    } while (!charged_.compare_exchange_weak(now, now + bytes));
    return true;
  }
  [[nodiscard]] std::uint64_t cost(const Request& request) const noexcept {
    return flaw_ == Flaw::charges_requested ? request.size : upstream().footprint(request);
  }
  Error refusal(const char* feature, std::size_t requested) const noexcept {
    Error error = Error::make(ErrorCode::quota_exceeded, feature, info().id, requested);
    error.in_use = charged();
    error.limit = limit_.load();
    return error;
  }

  Block do_allocate(const Request& request, Error& error) noexcept override {
    if (!charge(cost(request))) {
      error = refusal("allocate", request.size);
      return {};
    }
    const Block block = allocate_from(upstream(), request, error);
    if (!block && flaw_ != Flaw::keeps_failed_charges) charged_.fetch_sub(cost(request));
    return block;
  }

  Freed do_deallocate(Block block, const Release& release) noexcept override {
    const std::uint64_t credit =
        flaw_ == Flaw::credits_by_request ? release.request.size : cost(release.request);
    if (flaw_ == Flaw::credits_before_free) {
      charged_.fetch_sub(credit);
      std::this_thread::yield();
      return deallocate_to(upstream(), block, release);
    }
    const Freed freed = deallocate_to(upstream(), block, release);
    if (freed == Freed::failed && flaw_ != Flaw::credits_failed_frees) {
      quarantined_.fetch_add(credit);
    } else {
      charged_.fetch_sub(credit);
    }
    return freed;
  }

  Block do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                  Error& error) noexcept override {
    const std::uint64_t before = cost(from);
    const std::uint64_t after = cost(to);
    const std::uint64_t more = after > before ? after - before : 0;
    const bool charges = flaw_ != Flaw::forgets_growth && more != 0;
    if (charges && !charge(more)) {
      error = refusal("resize", to.size);
      return {};
    }
    const Block resized = resize_in(upstream(), block, from, to, may_move, error);
    if (!resized) {
      if (charges && flaw_ != Flaw::keeps_refused_resizes) charged_.fetch_sub(more);
      return {};
    }
    if (flaw_ == Flaw::forgets_growth) charged_.fetch_add(more);  // too late to refuse
    if (after < before) charged_.fetch_sub(before - after);
    return resized;
  }

  const Flaw flaw_;
  std::atomic<std::uint64_t> limit_;
  std::atomic<std::uint64_t> charged_{0};
  std::atomic<std::uint64_t> quarantined_{0};
};

template <Flaw flaw>
AccountUnderTest make_broken(std::uint64_t limit, Ref<Backing> upstream) {
  const auto broken = Ref<BrokenQuota>::adopt(new BrokenQuota(flaw, limit, std::move(upstream)));
  return {.chain = broken,
          .charged = [broken] { return broken->charged(); },
          .quarantined = [broken] { return broken->quarantined(); },
          .set_limit = [broken](std::uint64_t changed) { broken->set_limit(changed); }};
}

constexpr std::array mutants = {
    AccountMutant{"checks_then_adds", "checks and adds in two steps", "limit_holds_under_threads",
                  make_broken<Flaw::checks_then_adds>},
    AccountMutant{"credits_before_free", "credits a block before it is free",
                  "limit_holds_under_threads", make_broken<Flaw::credits_before_free>},
    AccountMutant{"charges_requested", "charges what was asked for", "account_follows_the_model",
                  make_broken<Flaw::charges_requested>},
    AccountMutant{"refuses_at_equality", "refuses exactly the limit", "account_follows_the_model",
                  make_broken<Flaw::refuses_at_equality>},
    AccountMutant{"credits_failed_frees", "credits memory that could not be freed",
                  "account_follows_the_model", make_broken<Flaw::credits_failed_frees>},
    AccountMutant{"forgets_growth", "does not refuse growth", "account_follows_the_model",
                  make_broken<Flaw::forgets_growth>},
    AccountMutant{"credits_by_request", "credits the size asked for", "account_follows_the_model",
                  make_broken<Flaw::credits_by_request>},
    AccountMutant{"limit_is_fixed", "does not hear a new limit", "account_follows_the_model",
                  make_broken<Flaw::limit_is_fixed>},
    AccountMutant{"keeps_failed_charges", "keeps the charge of a failed allocation",
                  "restored_after_every_failure", make_broken<Flaw::keeps_failed_charges>},
    AccountMutant{"keeps_refused_resizes", "keeps the charge of a failed resize",
                  "restored_after_every_failure", make_broken<Flaw::keeps_refused_resizes>},
};

}  // namespace

std::span<const AccountMutant> account_mutants() noexcept {
  return mutants;
}

}  // namespace assay::tenant
