#include "mutant.hpp"

namespace assay::harness::mutants {

/// Hands the eighth freed block out twice: its list of free blocks forgot to take it off once.
class SameBlockTwice final : public Mutant {
 public:
  static constexpr const char* id = "mutant_same_block_twice";
  using Mutant::Mutant;
  ~SameBlockTwice() override {
    if (handed_out_ < 2 && kept_) deallocate_to(upstream(), kept_, {request_, false});
  }

 private:
  Block do_allocate(const Request& request, Error& error) noexcept override {
    const bool fits = kept_ && handed_out_ < 2 && request.size <= request_.size &&
                      request.init == Init::undefined &&
                      is_aligned(kept_.address, request.alignment);
    if (!fits) return allocate_from(upstream(), request, error);
    ++handed_out_;
    return kept_;
  }
  Freed do_deallocate(Block block, const Release& release) noexcept override {
    if (kept_ && block.address == kept_.address) {  // the last of its two owners frees it
      if (++returned_ == 2) deallocate_to(upstream(), kept_, {request_, false});
      return Freed::now;
    }
    if (++frees_ != 8) return deallocate_to(upstream(), block, release);
    kept_ = block;
    request_ = release.request;
    return Freed::now;
  }

  std::uint64_t frees_ = 0;
  Block kept_{};
  Request request_;
  int handed_out_ = 0;
  int returned_ = 0;
};

}  // namespace assay::harness::mutants

ASSAY_MUTANT(mutant_same_block_twice, SameBlockTwice, "no_overlap",
             "hands the eighth freed block to two owners")
