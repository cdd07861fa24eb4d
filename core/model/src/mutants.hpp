// Mutants: in a second build of the model, for tests alone, one rule can be broken by name, to see
// which test of the conformance suite notices. The shipped model has none of this.
#pragma once

#ifdef ASSAY_MODEL_BREAKABLE
namespace assay::cuda::model {
/// Is this the rule that ASSAY_MODEL_BREAK names? Notes in the file that ASSAY_MODEL_ASKED names,
/// if any, that the question was asked: only then can breaking it make a difference.
[[nodiscard]] bool broken(const char* rule) noexcept;
/// Does ASSAY_MODEL_BREAK name no rule? Said on standard error, once; cuInit then answers 999.
[[nodiscard]] bool breaks_nothing() noexcept;
}  // namespace assay::cuda::model
#define ASSAY_MODEL_BREAKS_NOTHING() (::assay::cuda::model::breaks_nothing())
#define ASSAY_MODEL_BROKEN(rule) (::assay::cuda::model::broken(rule))
#else
#define ASSAY_MODEL_BREAKS_NOTHING() false
#define ASSAY_MODEL_BROKEN(rule) false
#endif
