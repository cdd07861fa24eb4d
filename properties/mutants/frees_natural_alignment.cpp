#include "mutant.hpp"

namespace assay::harness::mutants {

/// Forgets the alignment on the way back: only blocks above 64 bytes' alignment tell.
class FreesNaturalAlignment final : public Mutant {
 public:
  static constexpr const char* id = "mutant_frees_natural_alignment";
  using Mutant::Mutant;

 private:
  Freed do_deallocate(Block block, const Release& release) noexcept override {
    Release natural = release;
    if (natural.request.alignment > 64) natural.request.alignment = 16;
    return deallocate_to(upstream(), block, natural);
  }
};

}  // namespace assay::harness::mutants

ASSAY_MUTANT(mutant_frees_natural_alignment, FreesNaturalAlignment, "sized_free",
             "gives back large alignments as 16 to its upstream")
