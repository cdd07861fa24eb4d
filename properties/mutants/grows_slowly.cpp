#include <vector>

#include "mutant.hpp"

namespace assay::harness::mutants {

/// Keeps a record of 512 bytes for every 32 frees, and gives them all back only at its end.
class GrowsSlowly final : public Mutant {
 public:
  static constexpr const char* id = "mutant_grows_slowly";
  using Mutant::Mutant;
  ~GrowsSlowly() override {
    for (const Block& block : records_) deallocate_to(upstream(), block, {record, false});
  }

 private:
  static constexpr Request record{.size = 512};

  Freed do_deallocate(Block block, const Release& release) noexcept override {
    Error error;
    if (++frees_ % 32 == 0) {
      if (const Block kept = allocate_from(upstream(), record, error)) records_.push_back(kept);
    }
    return deallocate_to(upstream(), block, release);
  }
  [[nodiscard]] Usage do_usage() const noexcept override { return {}; }

  std::uint64_t frees_ = 0;
  std::vector<Block> records_;
};

}  // namespace assay::harness::mutants

ASSAY_MUTANT(mutant_grows_slowly, GrowsSlowly, "everything_returned",
             "holds a little more with every round, and hides it at its end")
