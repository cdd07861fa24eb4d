#include "../mutants/mutant.hpp"

namespace assay::harness::mutants {

/// Waits for ever at its tenth free.
class DemoHang final : public Mutant {
 public:
  static constexpr const char* id = "demo_hang";
  using Mutant::Mutant;

 private:
  Freed do_deallocate(Block block, const Release& release) noexcept override {
    volatile bool held = ++frees_ == 10;
    while (held) {
    }
    return deallocate_to(upstream(), block, release);
  }

  std::uint64_t frees_ = 0;
};

}  // namespace assay::harness::mutants

namespace assay::harness::subject_list {

const Subject& demo_hang() {
  static constexpr Subject subject{.id = "demo_hang",
                                   .origin = Origin::demo,
                                   .summary = "never returns from its tenth free",
                                   .make = mutants::make_mutant<mutants::DemoHang>};
  return subject;
}

}  // namespace assay::harness::subject_list
