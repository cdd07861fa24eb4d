// Runs each property on the real operations, and on every mutant that it must kill.
#include <gtest/gtest.h>

#include <rapidcheck.h>

#include "copy_on_write_isolates.hpp"
#include "generate.hpp"
#include "mutants.hpp"
#include "split_joins_back.hpp"
#include "view_aliases.hpp"
#include "wipe_on_release.hpp"
#include "zero_on_grow.hpp"

namespace assay::properties {
namespace {

void pass(const std::string& fault) {
  if (!fault.empty()) RC_FAIL(fault);
}

using Sizes = std::vector<std::uint16_t>;

// Each struct makes a RapidCheck property of a property template.
struct SplitJoinsBack {
  template <class Ops>
  static auto of() {
    return [](bool shared, bool owned, const Sizes& cuts, const Sizes& merges) {
      const auto size = *small_size();
      const auto room = *small_size();
      pass(split_joins_back<Ops>({size, room, shared, owned, cuts, merges}));
    };
  }
};

struct ViewAliases {
  template <class Ops>
  static auto of() {
    return [](bool foreign, const std::vector<std::pair<std::uint16_t, std::uint16_t>>& windows) {
      const auto size = *small_size();
      pass(view_aliases<Ops>({size, windows, foreign}));
    };
  }
};

struct CopyOnWriteIsolates {
  template <class Ops>
  static auto of() {
    return [](const BytesCommands& commands) { pass(copy_on_write_isolates<Ops>(commands)); };
  }
};

struct FailuresChangeNothing {
  template <class Ops>
  static auto of() {
    return [](const BytesCommands& commands) { pass(failures_change_nothing<Ops>(commands)); };
  }
};

struct ZeroOnGrow {
  template <class Ops>
  static auto of() {
    return [](bool windowed, bool reuse, const BufferCommands& commands) {
      const auto size = *small_size();
      const auto capacity = *small_size();
      pass(zero_on_grow<Ops>({size, capacity, windowed, reuse, commands}));
    };
  }
};

struct WipeOnReleaseOfBytes {
  template <class Ops>
  static auto of() {
    return [](const BytesCommands& commands) { pass(wipe_on_release_of_bytes<Ops>(commands)); };
  }
};

struct WipeOnReleaseOfBuffers {
  template <class Ops>
  static auto of() {
    return [](bool windowed, const BufferCommands& commands) {
      const auto size = *small_size();
      const auto capacity = *small_size();
      pass(wipe_on_release_of_buffers<Ops>({size, capacity, windowed, false, commands}));
    };
  }
};

constexpr int rounds = 10;  // of RapidCheck's hundred cases each

template <class Property, class Ops>
void expect_holds() {
  for (int i = 0; i < rounds; ++i) ASSERT_TRUE(rc::check(Property::template of<Ops>()));
}

/// A mutant is killed if the property fails on it; the search is the same in every run.
template <class Property, class Ops>
void expect_killed() {
  rc::detail::TestParams params;
  params.seed = 20'240'917;
  params.maxSuccess = 3000;
  params.disableShrinking = true;
  const auto result =
      rc::detail::checkTestable(Property::template of<Ops>(), rc::detail::TestMetadata(), params);
  EXPECT_TRUE(result.template is<rc::detail::FailureResult>()) << "the mutant survived";
}

TEST(BufferProperty, SplitJoinsBack) {
  expect_holds<SplitJoinsBack, RealBytesOps>();
}
TEST(BufferProperty, ViewAliases) {
  expect_holds<ViewAliases, RealBytesOps>();
}
TEST(BufferProperty, CopyOnWriteIsolates) {
  expect_holds<CopyOnWriteIsolates, RealBytesOps>();
}
TEST(BufferProperty, FailuresChangeNothing) {
  expect_holds<FailuresChangeNothing, RealBytesOps>();
}
TEST(BufferProperty, ZeroOnGrow) {
  expect_holds<ZeroOnGrow, RealBufferOps>();
}
TEST(BufferProperty, WipeOnRelease) {
  expect_holds<WipeOnReleaseOfBytes, RealBytesOps>();
  expect_holds<WipeOnReleaseOfBuffers, RealBufferOps>();
}

#define ASSAY_MUTANT(property, mutant)               \
  TEST(BufferMutant, mutant##IsKilledBy##property) { \
    expect_killed<property, mutants::mutant>();      \
  }
ASSAY_MUTANT(SplitJoinsBack, SplitCopies)
ASSAY_MUTANT(SplitJoinsBack, SplitLosesRoom)
ASSAY_MUTANT(SplitJoinsBack, SplitLosesAByte)
ASSAY_MUTANT(SplitJoinsBack, JoinAppends)
ASSAY_MUTANT(ViewAliases, ViewCopies)
ASSAY_MUTANT(ViewAliases, ViewSlides)
ASSAY_MUTANT(ViewAliases, WritesInPlace)
ASSAY_MUTANT(CopyOnWriteIsolates, WritesInPlace)
ASSAY_MUTANT(CopyOnWriteIsolates, AlwaysForks)
ASSAY_MUTANT(CopyOnWriteIsolates, ForkLosesLastByte)
ASSAY_MUTANT(CopyOnWriteIsolates, CloneShares)
ASSAY_MUTANT(CopyOnWriteIsolates, EmptyExtendForks)
ASSAY_MUTANT(CopyOnWriteIsolates, ResizeForgetsZeros)
ASSAY_MUTANT(CopyOnWriteIsolates, ViewSlides)
ASSAY_MUTANT(FailuresChangeNothing, FailureTears)
ASSAY_MUTANT(FailuresChangeNothing, FailureLeaks)
ASSAY_MUTANT(ZeroOnGrow, GrowShowsStale)
ASSAY_MUTANT(ZeroOnGrow, GrowZeroesTooMuch)
ASSAY_MUTANT(ZeroOnGrow, ShrinkWrites)
ASSAY_MUTANT(ZeroOnGrow, AccessForgetsMark)
ASSAY_MUTANT(WipeOnReleaseOfBytes, DropSkipsWipe)
ASSAY_MUTANT(WipeOnReleaseOfBytes, WipesLengthOnly)
ASSAY_MUTANT(WipeOnReleaseOfBytes, MovedGrowthSkipsWipe)
ASSAY_MUTANT(WipeOnReleaseOfBuffers, BufferDropSkipsWipe)
ASSAY_MUTANT(WipeOnReleaseOfBuffers, BufferWipesSizeOnly)
ASSAY_MUTANT(WipeOnReleaseOfBuffers, MovedResizeSkipsWipe)
ASSAY_MUTANT(WipeOnReleaseOfBuffers, AccessForgetsMark)
#undef ASSAY_MUTANT

}  // namespace
}  // namespace assay::properties
