#include "mutant.hpp"

namespace assay::harness::mutants {

/// A quota that charges before it looks at the limit, and does not take the charge back.
class KeepsRefusedCharge final : public Mutant {
 public:
  static constexpr const char* id = "mutant_keeps_refused_charge";
  using Mutant::Mutant;

 private:
  static constexpr std::uint64_t limit = std::uint64_t{48} << 20;

  Block do_allocate(const Request& request, Error& error) noexcept override {
    charged_ += request.size;
    if (charged_ > limit) {
      error = Error::make(ErrorCode::quota_exceeded, "allocate", id, request.size);
      return {};
    }
    const Block block = allocate_from(upstream(), request, error);
    if (!block) charged_ -= request.size;
    return block;
  }
  Freed do_deallocate(Block block, const Release& release) noexcept override {
    charged_ -= release.request.size;
    return deallocate_to(upstream(), block, release);
  }
  Block do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                  Error& error) noexcept override {
    const Block resized = resize_in(upstream(), block, from, to, may_move, error);
    if (resized) charged_ += to.size - from.size;
    return resized;
  }

  std::uint64_t charged_ = 0;
};

}  // namespace assay::harness::mutants

ASSAY_MUTANT(mutant_keeps_refused_charge, KeepsRefusedCharge, "out_of_memory_is_clean",
             "keeps the charge of a request that it refused")
