#include "pool_order.hpp"

#include <algorithm>

namespace assay::cuda::model {

namespace {

std::string block_text(const Allocation& allocation) {
  return std::string(name_of(allocation.kind)) + " memory of a pool, " +
         describe_range(allocation.address, allocation.size) + ", made by " +
         describe(allocation.allocated);
}

}  // namespace

void note_pool_use(const Allocation& allocation, const Site& site, const StreamOrder& order) {
  PoolBlock& block = *allocation.pooled;
  if (block.freed) {
    const bool after = order.follows(block.freed_at);
    // Whatever a gate may order: work launched after the free was called has no right to it [hdr].
    diagnose(after ? Rule::pool_use_after_free : Rule::pool_use_races_free,
             describe(site) + " uses " + block_text(allocation) +
                 (after ? ", after its free by " : ", unordered with its free by ") +
                 describe(block.freed_by));
    return;
  }
  if (!order.may_follow(block.allocated)) {
    diagnose(Rule::pool_use_unordered,
             describe(site) + " uses " + block_text(allocation) +
                 ", in another stream that is not ordered after the allocation");
  }
  const StreamPoint& here = order.here();
  const auto known = std::find_if(block.uses.begin(), block.uses.end(),
                                  [&](const PoolUse& use) { return use.at.queue == here.queue; });
  if (known != block.uses.end()) {
    *known = {here, site};
    return;
  }
  std::erase_if(block.uses, [](const PoolUse& use) { return use.at.queue->life->settled; });
  block.uses.push_back({here, site});
}

void check_pool_free(const Allocation& allocation, const Site& site, const StreamOrder& order) {
  const PoolBlock& block = *allocation.pooled;
  const bool by_host = order.here().queue == nullptr;
  if (!order.may_follow(block.allocated)) {
    diagnose(Rule::pool_free_unordered,
             describe(site) + " frees " + block_text(allocation) +
                 (by_host ? ", which the host has not seen allocated"
                          : ", in another stream that is not ordered after the allocation"));
  }
  for (const PoolUse& use : block.uses) {
    if (order.may_follow(use.at)) continue;
    diagnose(Rule::pool_free_races_use, describe(site) + " frees " + block_text(allocation) +
                                            ", unordered with its use by " + describe(use.site));
  }
}

}  // namespace assay::cuda::model
