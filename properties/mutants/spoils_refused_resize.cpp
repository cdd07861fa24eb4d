#include "mutant.hpp"

namespace assay::harness::mutants {

/// Marks a block as freed before it knows that its resize will succeed.
class SpoilsRefusedResize final : public Mutant {
 public:
  static constexpr const char* id = "mutant_spoils_refused_resize";
  using Mutant::Mutant;

 private:
  Block do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                  Error& error) noexcept override {
    const Block resized = resize_in(upstream(), block, from, to, may_move, error);
    if (!resized) bytes_of(block)[0] = std::byte{0xdd};
    return resized;
  }
};

}  // namespace assay::harness::mutants

ASSAY_MUTANT(mutant_spoils_refused_resize, SpoilsRefusedResize, "out_of_memory_is_clean",
             "a refused resize has already overwritten the block")
