#include "../mutants/mutant.hpp"

namespace assay::harness::mutants {

/// Writes through a null pointer at its twentieth allocation.
class DemoCrash final : public Mutant {
 public:
  static constexpr const char* id = "demo_crash";
  using Mutant::Mutant;

 private:
  Block do_allocate(const Request& request, Error& error) noexcept override {
    if (++allocations_ == 20) {
      volatile int* volatile nowhere = nullptr;
      *nowhere = 1;
    }
    return allocate_from(upstream(), request, error);
  }

  std::uint64_t allocations_ = 0;
};

}  // namespace assay::harness::mutants

namespace assay::harness::subject_list {

const Subject& demo_crash() {
  static constexpr Subject subject{.id = "demo_crash",
                                   .origin = Origin::demo,
                                   .summary = "crashes at its twentieth allocation",
                                   .make = mutants::make_mutant<mutants::DemoCrash>};
  return subject;
}

}  // namespace assay::harness::subject_list
