// Every chain survives the k-th call on its leaf failing, for every k: contents are kept, nothing
// leaks, the quota is restored.
#include <ostream>

#include <gtest/gtest.h>

#include "assay/backing/fault.hpp"
#include "assay/backing/host.hpp"
#include "assay/backing/quota.hpp"
#include "assay/backing/slab_pool.hpp"
#include "assay/backing/statistics.hpp"
#include "assay/backing/tracing.hpp"
#include "assay/backing/virtual_memory.hpp"
#include "assay/backing/zero_cache.hpp"
#include "backing_probe.hpp"

namespace assay {
namespace {

using test::all_bytes;

struct Held {
  Block block;
  Request request;
  unsigned char tag;
};

/// Allocates, grows, shrinks and frees blocks of many sizes, and checks every byte of them.
void scenario(Backing& chain) {
  std::vector<Held> held;
  const auto check = [&] {
    for (const auto& [block, request, tag] : held) {
      ASSERT_TRUE(all_bytes(chain, block, 0, request.size, tag));
    }
  };
  unsigned char tag = 1;
  constexpr std::size_t sizes[] = {100, 5000, 40'000, 300'000, 2'000'000, 100, 31'000, 31'000};
  for (const std::size_t size : sizes) {
    const Request request{.size = size, .alignment = 64, .init = Init::zero};
    const auto block = chain.allocate(request);
    if (!block) continue;
    ASSERT_TRUE(all_bytes(chain, block.value(), 0, size, 0));
    ASSERT_TRUE(chain.fill(block.value(), 0, size, std::byte{tag}).has_value());
    held.push_back({block.value(), request, tag++});
  }
  check();
  for (const int eighths : {12, 3, 40}) {
    for (auto& [block, request, mark] : held) {
      Request to = request;
      to.size = request.size * static_cast<std::size_t>(eighths) / 8 + 1;
      const auto resized = chain.resize(block, request, to, MayMove::yes);
      if (!resized) continue;
      block = resized.value();
      const std::size_t kept = std::min(request.size, to.size);
      ASSERT_TRUE(all_bytes(chain, block, kept, to.size, 0));
      ASSERT_TRUE(chain.fill(block, kept, to.size - kept, std::byte{mark}).has_value());
      request = to;
    }
    check();
  }
  for (const auto& [block, request, mark] : held) chain.deallocate(block, request);
}

struct Chain {
  const char* name;
  Ref<Backing> (*make)(Ref<Backing> quota);
};

/// So that the name of a test holds no address.
void PrintTo(const Chain& chain, std::ostream* out) {
  *out << chain.name;
}

class ChainFailures : public testing::TestWithParam<Chain> {};

// fault:B-19, ub:W-03
TEST_P(ChainFailures, EveryUpstreamCallMayFail) {
  for (const auto on : {Fault::On::allocate, Fault::On::resize}) {
    for (const bool from_then_on : {false, true}) {
      for (std::uint64_t k = 1;; ++k) {
        const auto tenant = Tenant::make(16 << 20);
        const auto leaf = VirtualMemory::make();
        const auto fault = Fault::make(leaf);
        FaultPlan plan{.nth = k};
        for (std::uint64_t call = k; from_then_on && call < k + 60; ++call) {
          plan.calls.push_back(call);
        }
        fault->plan(on, plan);
        const auto chain = GetParam().make(Quota::make(tenant, fault));
        scenario(*chain);
        ASSERT_FALSE(HasFatalFailure()) << "call " << k;
        EXPECT_EQ(chain->usage().live_bytes, 0u);
        if (chain->can(Capabilities::trim)) {
          EXPECT_TRUE(chain->trim(0).has_value());
        }
        EXPECT_EQ(tenant->account().charged, 0u) << "call " << k;
        EXPECT_EQ(leaf->usage().reserved_bytes, 0u) << "call " << k;
        if (fault->injected(on) == 0) break;
      }
    }
  }
}

// ub:W-04: every free may fail, and what is lost is in quarantine, to the byte.
TEST_P(ChainFailures, EveryFreeMayFail) {
  for (std::uint64_t k = 1;; ++k) {
    const auto tenant = Tenant::make(16 << 20);
    const auto leaf = VirtualMemory::make();
    const auto fault = Fault::make(leaf);
    fault->plan(Fault::On::deallocate, {.nth = k});
    const auto chain = GetParam().make(Quota::make(tenant, fault));
    scenario(*chain);
    ASSERT_FALSE(HasFatalFailure()) << "free " << k;
    if (chain->can(Capabilities::trim)) {
      EXPECT_TRUE(chain->trim(0).has_value());
    }
    EXPECT_EQ(tenant->account().charged, tenant->account().quarantined) << "free " << k;
    EXPECT_EQ(leaf->usage().live_bytes, tenant->account().quarantined) << "free " << k;
    if (fault->injected(Fault::On::deallocate) == 0) break;
    EXPECT_GT(tenant->account().quarantined, 0u) << "free " << k;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Chains, ChainFailures,
    testing::Values(Chain{"quota", [](Ref<Backing> quota) { return quota; }},
                    Chain{"slab_pool",
                          [](Ref<Backing> quota) { return Ref<Backing>(SlabPool::make(quota)); }},
                    Chain{"host", [](Ref<Backing> quota) { return make_host_over(quota); }},
                    Chain{"zero_cache",
                          [](Ref<Backing> quota) { return Ref<Backing>(ZeroCache::make(quota)); }},
                    Chain{"statistics_tracing_slab_pool",
                          [](Ref<Backing> quota) {
                            return Ref<Backing>(
                                Statistics::make(Tracing::make(SlabPool::make(quota))));
                          }}),
    [](const auto& chosen) { return chosen.param.name; });

}  // namespace
}  // namespace assay
