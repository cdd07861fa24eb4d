#include "mutant.hpp"

namespace assay::harness::mutants {

/// Gives back the size it rounded to, not the one it asked its upstream for.
class FreesRoundedSize final : public Mutant {
 public:
  static constexpr const char* id = "mutant_frees_rounded_size";
  using Mutant::Mutant;

 private:
  Freed do_deallocate(Block block, const Release& release) noexcept override {
    Release rounded = release;
    rounded.request.size = align_up(release.request.size, 64);
    return deallocate_to(upstream(), block, rounded);
  }
};

}  // namespace assay::harness::mutants

ASSAY_MUTANT(mutant_frees_rounded_size, FreesRoundedSize, "sized_free",
             "gives back a rounded size to its upstream")
