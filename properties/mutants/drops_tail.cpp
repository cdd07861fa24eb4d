#include "mutant.hpp"

namespace assay::harness::mutants {

/// A moving resize copies whole cache lines only, rounded down.
class DropsTail final : public Mutant {
 public:
  static constexpr const char* id = "mutant_drops_tail";
  using Mutant::Mutant;

 private:
  Block do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                  Error& error) noexcept override {
    if (may_move == MayMove::no) return resize_in(upstream(), block, from, to, may_move, error);
    const Block moved = allocate_from(upstream(), to, error);
    if (!moved) return {};
    std::memcpy(bytes_of(moved), bytes_of(block), std::min(from.size, to.size) / 64 * 64);
    deallocate_to(upstream(), block, {from, false});
    return moved;
  }
};

}  // namespace assay::harness::mutants

ASSAY_MUTANT(mutant_drops_tail, DropsTail, "contents_survive",
             "a resize that moves leaves the last bytes behind")
