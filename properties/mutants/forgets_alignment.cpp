#include "mutant.hpp"

namespace assay::harness::mutants {

/// A resize moves the block to where malloc would put it: 16 bytes are aligned, no more.
class ForgetsAlignment final : public Mutant {
 public:
  static constexpr const char* id = "mutant_forgets_alignment";
  using Mutant::Mutant;

 private:
  Block do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                  Error& error) noexcept override {
    if (may_move == MayMove::no) return resize_in(upstream(), block, from, to, may_move, error);
    Request natural = to;
    natural.alignment = 16;
    const Block moved = allocate_from(upstream(), natural, error);
    if (!moved) return {};
    std::memcpy(bytes_of(moved), bytes_of(block), std::min(from.size, to.size));
    do_deallocate(block, {from, false});
    given_.put(moved.address, moved, natural);
    return moved;
  }
  Freed do_deallocate(Block block, const Release& release) noexcept override {
    if (!given_.has(block.address)) return deallocate_to(upstream(), block, release);
    const auto whole = given_.take(block.address);
    return deallocate_to(upstream(), whole.block, {whole.request, false});
  }

  Given given_;
};

}  // namespace assay::harness::mutants

ASSAY_MUTANT(mutant_forgets_alignment, ForgetsAlignment, "address_alignment",
             "a resize forgets the alignment of the block")
