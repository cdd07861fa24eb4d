#include <cstdlib>

#include "mutant.hpp"

namespace assay::harness::mutants {

/// Takes out of memory for a reason to end the program.
class AbortsWhenRefused final : public Mutant {
 public:
  static constexpr const char* id = "mutant_aborts_when_refused";
  using Mutant::Mutant;

 private:
  Block do_allocate(const Request& request, Error& error) noexcept override {
    const Block block = allocate_from(upstream(), request, error);
    if (!block) std::abort();
    return block;
  }
};

}  // namespace assay::harness::mutants

ASSAY_MUTANT(mutant_aborts_when_refused, AbortsWhenRefused, "out_of_memory_is_clean",
             "aborts when its upstream refuses")
