#include "mutant.hpp"

namespace assay::harness::mutants {

/// Two sides by size, of which the large one asks for whole pages; a block that goes back is routed
/// by the capacity it got, not by what was asked.
class FreesByCapacity final : public Mutant {
 public:
  static constexpr const char* id = "mutant_frees_by_capacity";
  using Mutant::Mutant;

 private:
  static constexpr std::size_t limit = 4097;  // the capacity of a block of so many is 4,112
  static constexpr std::size_t page = 4096;

  static Request passed_on(const Request& request, std::size_t decides) noexcept {
    Request large = request;
    if (decides > limit) large.size = align_up(request.size, page);
    return large;
  }
  Block do_allocate(const Request& request, Error& error) noexcept override {
    return allocate_from(upstream(), passed_on(request, request.size), error);
  }
  Freed do_deallocate(Block block, const Release& release) noexcept override {
    return deallocate_to(upstream(), block,
                         {passed_on(release.request, block.capacity), release.known_zero});
  }
  [[nodiscard]] std::size_t do_footprint(const Request& request) const noexcept override {
    return upstream().footprint(passed_on(request, request.size));
  }
  Block do_resize(Block, const Request&, const Request& to, MayMove,
                  Error& error) noexcept override {
    error = Error::make(ErrorCode::not_supported, "resize", id, to.size);
    return {};
  }
};

}  // namespace assay::harness::mutants

ASSAY_MUTANT(mutant_frees_by_capacity, FreesByCapacity, "sized_free",
             "routes a free by the block's capacity, not by its request")
