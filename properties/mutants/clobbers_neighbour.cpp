#include <array>

#include "mutant.hpp"

namespace assay::harness::mutants {

/// Carves small blocks from a slab and, when one is freed, links it 8 bytes behind its end.
class ClobbersNeighbour final : public Mutant {
 public:
  static constexpr const char* id = "mutant_clobbers_neighbour";
  using Mutant::Mutant;
  ~ClobbersNeighbour() override {
    if (slab_) deallocate_to(upstream(), slab_, {slab_request, false});
  }

 private:
  static constexpr Request slab_request{.size = 256 * 1024};

  [[nodiscard]] bool in_slab(Block block) const noexcept {
    return block.address >= slab_.address && block.address < slab_.address + slab_.capacity;
  }
  Block do_allocate(const Request& request, Error& error) noexcept override {
    if (!slab_) slab_ = allocate_from(upstream(), slab_request, error);
    if (!slab_) return {};
    const std::size_t size = align_up(request.size, 16);
    const bool small = request.size <= 1024 && request.alignment <= 16 &&
                       request.init == Init::undefined && used_ + size <= slab_.capacity;
    if (!small) return allocate_from(upstream(), request, error);
    used_ += size;
    return {slab_.address + used_ - size, size};
  }
  Freed do_deallocate(Block block, const Release& release) noexcept override {
    if (!in_slab(block)) return deallocate_to(upstream(), block, release);
    const std::size_t end = block.address - slab_.address + block.capacity;
    if (end + 8 <= slab_.capacity) std::memset(bytes_of(slab_) + end, 0, 8);
    return Freed::now;
  }
  Block do_resize(Block, const Request&, const Request& to, MayMove,
                  Error& error) noexcept override {
    error = Error::make(ErrorCode::not_supported, "resize", id, to.size);
    return {};
  }

  Block slab_{};
  std::size_t used_ = 0;
};

}  // namespace assay::harness::mutants

ASSAY_MUTANT(mutant_clobbers_neighbour, ClobbersNeighbour, "contents_survive",
             "writes 8 bytes behind a block when it is freed")
