#include "assay/backing/make_backing.hpp"

#include <gtest/gtest.h>

#include "assay/backing/quota.hpp"
#include "assay/backing/statistics.hpp"
#include "backing_probe.hpp"
#include "spec_checks.hpp"

namespace assay {
namespace {

TEST(MakeBacking, BuildsChains) {
  for (const char* spec : {"heap", "virtual", "virtual(huge)", " quota ( 1MiB , heap ) ",
                           "slab_pool(quota(512MiB, virtual))", "statistics(exact, heap)",
                           "statistics(heap)", "slab_pool(keep=1MiB, virtual(huge))",
                           "tracing(events=16, fault(nth=100, every=7, after=1GiB, "
                           "code=quota_exceeded, on=resize, heap))",
                           "host", "zero_cache(keep=1MiB, from=4KiB, virtual)",
                           "by_size(4MiB, slab_pool(heap), quota(1GiB, virtual(huge)))",
                           "zero_cache(by_size(64KiB, heap, heap))", "quota(heap, 65536)",
                           "quota(9223372036854775807B,heap)"}) {
    const auto backing = make_backing(spec);
    ASSERT_TRUE(backing.has_value()) << backing.error().describe();
    const Request request{.size = 100, .init = Init::zero};
    const auto block = backing.value()->allocate(request);
    ASSERT_TRUE(block.has_value()) << spec;
    EXPECT_EQ(backing.value()->deallocate(block.value(), request), Freed::now);
  }
}

TEST(MakeBacking, TheWordsMeanWhatTheySay) {
  const auto pool = make_backing("slab_pool(quota(256KiB, virtual))").value();
  EXPECT_STREQ(pool->info().id, "slab_pool");
  EXPECT_EQ(pool->allocate({.size = 257 * 1024}).error().limit, 256u * 1024);
  const auto exact = make_backing("statistics(exact, heap)").value();
  EXPECT_TRUE(dynamic_cast<Statistics&>(*exact).snapshot().peaks_exact);
  const auto striped = make_backing("statistics(heap)").value();
  EXPECT_FALSE(dynamic_cast<Statistics&>(*striped).snapshot().peaks_exact);
  const auto fault = make_backing("fault(nth=1, code=io, heap)").value();
  EXPECT_EQ(fault->allocate({.size = 1}).error().code, ErrorCode::io);
}

TEST(MakeBacking, ErrorsPointIntoTheSpec) {
  std::string deep = "heap";
  for (int i = 0; i < 40; ++i) deep = "tracing(" + deep + ")";
  expect_refused({
      {"", 1, "a name or a size is expected here, but the spec ends"},
      {"heep", 1, "unknown backing 'heep'; there are heap, virtual, host, managed"},
      {"slab_pool(quota(512MiB, virtua))", 25, "unknown backing 'virtua'"},
      {"by_size(4MiB, heap)", 1, "by_size needs two upstreams"},
      {"by_size(heap, virtual)", 1, "by_size needs a limit"},
      {"by_size(4MiB, heap, virtua)", 21, "unknown backing 'virtua'"},
      {"by_size(1B, heap, heap, heap)", 25, "by_size does not take 'heap'"},
      {"zero_cache(from=255, heap)", 17, "from takes 256B to 16MiB"},
      {"zero_cache(from=17MiB, heap)", 17, "from takes 256B to 16MiB"},
      {"zero_cache(keep=1MiB)", 1, "zero_cache needs an upstream"},
      {"host(heap)", 6, "host does not take 'heap'"},
      {"quota(5TiB, heap)", 8, "unknown unit 'TiB': write B, KiB, MiB or GiB"},
      {"quota(5Mib, heap)", 8, "unknown unit 'Mib'"},
      {"quota(8589934592GiB, heap)", 7, "is more than 9223372036854775807 bytes"},
      {"quota(9223372036854775808, heap)", 7, "is more than"},
      {"quota(99999999999999999999, heap)", 7, "is too large a number"},
      {"quota(17179869184GiB, heap)", 7, "is more than"},
      {"quota(1.5GiB, heap)", 8, "',' or ')' is expected here, not '.'"},
      {"quota(-1, heap)", 7, "a name or a size is expected here, not '-'"},
      {"quota(heap)", 1, "quota needs a limit"},
      {"quota(1MiB)", 1, "quota needs an upstream: quota(SIZE, CHAIN)"},
      {"quota(1MiB, 2MiB, heap)", 13, "quota does not take '2MiB'"},
      {"slab_pool", 1, "slab_pool needs an upstream"},
      {"slab_pool(heap, virtual)", 17, "slab_pool does not take 'virtual'"},
      {"slab_pool(kep=1MiB, heap)", 11, "slab_pool does not take 'kep'"},
      {"slab_pool(keep=1MiB, keep=2MiB, heap)", 22, "does not take 'keep'"},
      {"slab_pool(keep=lots, heap)", 16, "'lots' is not a size"},
      {"heap(virtual)", 6, "heap does not take 'virtual'"},
      {"heap()", 6, "a name or a size is expected here, not ')'"},
      {"statistics(exact)", 1, "statistics needs an upstream"},
      {"fault(nth=x, heap)", 11, "'x' is not a number"},
      {"fault(code=sad, heap)", 12, "'sad' is not an error code"},
      {"fault(code=none, heap)", 12, "'none' is not an error code"},
      {"fault(on=free, heap)", 10, "on takes allocate, resize or deallocate"},
      {"fault(nth=, heap)", 11, "a value is expected after '=', not ','"},
      {"tracing(events=0, heap)", 16, "events takes 1 to"},
      {"quota(1MiB, heap", 17, "',' or ')' is expected here, but the spec ends"},
      {"heap heap", 6, "nothing more is expected here, not 'h'"},
      {"heap\n", 5, "nothing more is expected here, not '?'"},
      {"64MiB", 1, "unknown backing '64MiB'"},
      {"nth=3", 1, "unknown backing 'nth'"},
      {deep, 257, "chains may be 32 deep at most"},
  });
  EXPECT_EQ(make_backing("quota(5TiB, heap)").error().describe(),
            "quota(5TiB, heap)\n"
            "       ^\n"
            "column 8: unknown unit 'TiB': write B, KiB, MiB or GiB");
}

// Any text is answered, never obeyed halfway.
TEST(MakeBacking, SurvivesEveryCutAndEveryByte) {
  const std::string spec = "slab_pool(keep=1MiB, quota(512MiB, fault(nth=2, virtual(huge))))";
  for (std::size_t cut = 0; cut < spec.size(); ++cut) {
    EXPECT_FALSE(make_backing(spec.substr(0, cut)).has_value());
    for (const char byte : {'\0', '(', ')', ',', '=', '9', 'z', '\xff'}) {
      std::string changed = spec;
      changed[cut] = byte;
      const auto backing = make_backing(changed);
      const std::size_t column = backing ? 1 : backing.error().column;
      EXPECT_LE(column, spec.size() + 1);
    }
  }
}

TEST(MakeBacking, HelpNamesEveryBacking) {
  const std::string help = backing_names_help();
  for (const char* name : {"heap", "virtual", "host", "slab_pool", "zero_cache", "by_size", "quota",
                           "statistics", "tracing", "fault"}) {
    EXPECT_NE(help.find(name), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace assay
