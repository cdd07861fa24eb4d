// What every account of memory must keep. Each property answers with what it saw go wrong, or with
// nothing, so that it can be asked of the real quota and of the mutants alike.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "account_under_test.hpp"

namespace assay::tenant {

struct TenantProperty {
  std::string_view name;
  std::string_view goal;
  /// The counterexample in words, or nothing.
  std::optional<std::string> (*find_fault)(AccountFactory make);
};

std::optional<std::string> account_follows_the_model(AccountFactory make);
std::optional<std::string> limit_holds_under_threads(AccountFactory make);
std::optional<std::string> restored_after_every_failure(AccountFactory make);

[[nodiscard]] std::span<const TenantProperty> tenant_properties() noexcept;

}  // namespace assay::tenant
