#include "mutant.hpp"

namespace assay::harness::mutants {

/// Aligns the offset in its slab instead of the address; the slab itself is aligned to 16.
class AlignsOffset final : public Mutant {
 public:
  static constexpr const char* id = "mutant_aligns_offset";
  using Mutant::Mutant;

 private:
  Block do_allocate(const Request& request, Error& error) noexcept override {
    if (request.alignment <= 16) return allocate_from(upstream(), request, error);
    Request slab = request;
    slab.size += request.alignment;
    slab.alignment = 16;
    const Block block = allocate_from(upstream(), slab, error);
    if (!block) return {};
    const Block part{block.address + request.alignment, block.capacity - request.alignment};
    given_.put(part.address, block, slab);
    return part;
  }
  Freed do_deallocate(Block block, const Release& release) noexcept override {
    if (!given_.has(block.address)) return deallocate_to(upstream(), block, release);
    const auto whole = given_.take(block.address);
    return deallocate_to(upstream(), whole.block, {whole.request, false});
  }
  Block do_resize(Block, const Request&, const Request& to, MayMove,
                  Error& error) noexcept override {
    error = Error::make(ErrorCode::not_supported, "resize", id, to.size);
    return {};
  }

  Given given_;
};

}  // namespace assay::harness::mutants

ASSAY_MUTANT(mutant_aligns_offset, AlignsOffset, "address_alignment",
             "aligns the offset in a slab instead of the address")
