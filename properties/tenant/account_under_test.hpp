// AccountUnderTest: the quota, or one that is broken in one way, behind the same few calls.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "assay/backing/backing.hpp"

namespace assay::tenant {

/// A chain that charges, and what can be asked of its account.
struct AccountUnderTest {
  Ref<Backing> chain;
  std::function<std::uint64_t()> charged;
  std::function<std::uint64_t()> quarantined;
  std::function<void(std::uint64_t)> set_limit;
};

/// Makes an account with a limit over an upstream.
using AccountFactory = AccountUnderTest (*)(std::uint64_t limit, Ref<Backing> upstream);

/// An account that a property must refuse, and which property that is.
struct AccountMutant {
  std::string_view name;
  std::string_view flaw;
  std::string_view killed_by;
  AccountFactory make;
};

[[nodiscard]] AccountUnderTest make_quota(std::uint64_t limit, Ref<Backing> upstream);
[[nodiscard]] std::span<const AccountMutant> account_mutants() noexcept;

}  // namespace assay::tenant
