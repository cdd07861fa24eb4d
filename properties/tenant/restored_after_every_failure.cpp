// A scenario is run with its k-th upstream call failing, for every k: the account is then what is
// held, nothing is held twice or lost, and all of the limit serves again. Closes ub:W-03, ub:W-05.
#include <vector>

#include <fmt/format.h>

#include "checking_upstream.hpp"
#include "properties.hpp"

namespace assay::tenant {
namespace {

/// A limit with room for all of the scenario, whatever the page of the memory below.
std::uint64_t whole_limit() {
  return 64 * std::uint64_t{CheckingUpstream::page};
}

/// Allocates, grows, shrinks and frees; frees whatever it has left. Says what differs, or nothing.
std::optional<std::string> scenario(Backing& chain, const AccountUnderTest& account,
                                    const CheckingUpstream& upstream) {
  std::vector<std::pair<Block, Request>> held;
  std::optional<std::string> fault;
  const auto judge = [&](const char* after) {
    if (fault || account.charged() == upstream.held()) return;
    fault = fmt::format("after {}: {} charged, {} held", after, account.charged(), upstream.held());
  };
  for (std::size_t i = 1; i <= 6; ++i) {
    const Request request{.size = i * 50};
    if (const auto block = chain.allocate(request)) held.emplace_back(block.value(), request);
    judge("allocate");
  }
  for (const std::size_t factor : {std::size_t{3}, std::size_t{1}}) {
    for (auto& [block, request] : held) {
      Request to = request;
      to.size = factor * 40 + request.size / 2;
      if (const auto resized = chain.resize(block, request, to, MayMove::yes)) {
        block = resized.value();
        request = to;
      }
      judge("resize");
    }
  }
  for (const auto& [block, request] : held) {
    chain.deallocate(block, request);
    judge("free");
  }
  return fault;
}

using Countdown = std::atomic<std::uint64_t> CheckingUpstream::*;

std::optional<std::string> with_failures(AccountFactory make, Countdown countdown,
                                         const char* kind) {
  const std::uint64_t limit = whole_limit();
  for (std::uint64_t k = 1;; ++k) {
    const auto upstream = CheckingUpstream::make();
    const auto account = make(limit, upstream);
    ((*upstream).*countdown) = k;
    if (auto fault = scenario(*account.chain, account, *upstream)) {
      return fmt::format("{} {} failing, {}", kind, k, *fault);
    }
    const bool met = ((*upstream).*countdown).load() == 0;
    if (account.charged() != account.quarantined()) {
      return fmt::format("{} {} failing: {} stay charged", kind, k, account.charged());
    }
    const Request rest{.size = limit - account.quarantined()};
    const auto block = account.chain->allocate(rest);
    if (met && !block) return fmt::format("{} {} failing: the limit no longer serves", kind, k);
    if (block) account.chain->deallocate(block.value(), rest);
    if (!met) return std::nullopt;  // the scenario has fewer than k such calls
  }
}

}  // namespace

std::optional<std::string> restored_after_every_failure(AccountFactory make) {
  if (auto fault = with_failures(make, &CheckingUpstream::fail_allocation_in, "allocation")) {
    return fault;
  }
  if (auto fault = with_failures(make, &CheckingUpstream::fail_resize_in, "resize")) return fault;
  return with_failures(make, &CheckingUpstream::fail_free_in, "free");
}

}  // namespace assay::tenant
