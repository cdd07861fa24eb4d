#include "account_under_test.hpp"
#include "assay/backing/quota.hpp"

namespace assay::tenant {

AccountUnderTest make_quota(std::uint64_t limit, Ref<Backing> upstream) {
  const auto tenant = Tenant::make(limit);
  return {.chain = Quota::make(tenant, std::move(upstream)),
          .charged = [tenant] { return tenant->account().charged; },
          .quarantined = [tenant] { return tenant->account().quarantined; },
          .set_limit = [tenant](std::uint64_t changed) { tenant->set_limit(changed); }};
}

}  // namespace assay::tenant
