#include "mutant.hpp"

namespace assay::harness::mutants {

/// Every sixteenth free is lost.
class LeaksSome final : public Mutant {
 public:
  static constexpr const char* id = "mutant_leaks_some";
  using Mutant::Mutant;

 private:
  Freed do_deallocate(Block block, const Release& release) noexcept override {
    if (++frees_ % 16 == 0) return Freed::now;
    return deallocate_to(upstream(), block, release);
  }
  [[nodiscard]] Usage do_usage() const noexcept override { return {}; }  // it sees no leak itself

  std::uint64_t frees_ = 0;
};

}  // namespace assay::harness::mutants

ASSAY_MUTANT(mutant_leaks_some, LeaksSome, "everything_returned", "loses every sixteenth free")
