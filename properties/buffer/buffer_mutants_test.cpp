// Runs each property on the mutants that it must kill.
#include "bytes_mutants.hpp"
#include "checked_properties.hpp"
#include "mutants.hpp"

namespace assay::properties {
namespace {

/// A mutant is killed if the property fails on it; the search is the same in every run.
template <class Property, class Ops>
void expect_killed() {
  rc::detail::TestParams params;
  params.seed = 20'240'917;
  params.maxSuccess = 3000;
  params.maxSize = 60;
  params.disableShrinking = true;
  const auto result =
      rc::detail::checkTestable(Property::template of<Ops>(), rc::detail::TestMetadata(), params);
  EXPECT_TRUE(result.template is<rc::detail::FailureResult>()) << "the mutant survived";
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
ASSAY_MUTANT(CopyOnWriteIsolates, ViewReadsParent)
ASSAY_MUTANT(CopyOnWriteIsolates, CloneReadsAgain)
ASSAY_MUTANT(CopyOnWriteIsolates, NoCopyReads)
ASSAY_MUTANT(CopyOnWriteIsolates, WriteReadsForAll)
ASSAY_MUTANT(CopyOnWriteIsolates, PrintingReads)
ASSAY_MUTANT(CopyOnWriteIsolates, EqualsReadsFirst)
ASSAY_MUTANT(CopyOnWriteIsolates, ChunksMaterialise)
ASSAY_MUTANT(CopyOnWriteIsolates, CopyIntoTakesWhatFits)
ASSAY_MUTANT(CopyOnWriteIsolates, UnreadSplitLosesOffset)
ASSAY_MUTANT(CopyOnWriteIsolates, TruncateKeepsUnit)
ASSAY_MUTANT(CopyOnWriteIsolates, JoinReads)
ASSAY_MUTANT(CopyOnWriteIsolates, MirrorSaysFile)
ASSAY_MUTANT(CopyOnWriteIsolates, RetainedForgetsOrigin)
ASSAY_MUTANT(CopyOnWriteIsolates, MappingIsTrusted)
ASSAY_MUTANT(CopyOnWriteIsolates, DetachCopies)
ASSAY_MUTANT(FailedReadsAreRetried, FailedReadPoisons)
ASSAY_MUTANT(FailedReadsAreRetried, FailedReadKeepsHalf)
ASSAY_MUTANT(WipeOnReleaseOfBytes, FailedMirrorSkipsWipe)
ASSAY_MUTANT(PagesMove, GrowthCopiesPages)
#undef ASSAY_MUTANT

}  // namespace
}  // namespace assay::properties
