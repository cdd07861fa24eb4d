#include "mutant.hpp"

namespace assay::harness::mutants {

/// Rounds the sizes between two pages down instead of up.
class HoldsLess final : public Mutant {
 public:
  static constexpr const char* id = "mutant_holds_less";
  using Mutant::Mutant;

 private:
  static constexpr std::size_t step = 4096;

  static Request rounded(const Request& request) noexcept {
    Request less = request;
    if (request.size > step) less.size = request.size / step * step;
    return less;
  }
  Block do_allocate(const Request& request, Error& error) noexcept override {
    return allocate_from(upstream(), rounded(request), error);
  }
  Freed do_deallocate(Block block, const Release& release) noexcept override {
    return deallocate_to(upstream(), block, {rounded(release.request), release.known_zero});
  }
  Block do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                  Error& error) noexcept override {
    return resize_in(upstream(), block, rounded(from), rounded(to), may_move, error);
  }
};

}  // namespace assay::harness::mutants

ASSAY_MUTANT(mutant_holds_less, HoldsLess, "no_overlap",
             "rounds sizes above a page down instead of up")
