#include "mutant.hpp"

namespace assay::harness::mutants {

/// Keeps one freed block and hands it out again, also to who asked for zeros.
class StaleZero final : public Mutant {
 public:
  static constexpr const char* id = "mutant_stale_zero";
  using Mutant::Mutant;
  ~StaleZero() override {
    if (kept_) deallocate_to(upstream(), kept_, {request_, false});
  }

 private:
  Block do_allocate(const Request& request, Error& error) noexcept override {
    const bool fits =
        kept_ && request.alignment == request_.alignment && footprint(request) == kept_.capacity;
    if (!fits) return allocate_from(upstream(), request, error);
    given_.put(kept_.address, kept_, request_);
    return std::exchange(kept_, {});
  }
  Freed do_deallocate(Block block, const Release& release) noexcept override {
    Request request = release.request;
    if (given_.has(block.address)) request = given_.take(block.address).request;
    if (kept_) return deallocate_to(upstream(), block, {request, false});
    kept_ = block;
    request_ = request;
    return Freed::now;
  }
  Block do_resize(Block, const Request&, const Request& to, MayMove,
                  Error& error) noexcept override {
    error = Error::make(ErrorCode::not_supported, "resize", id, to.size);
    return {};
  }

  Block kept_{};
  Request request_;
  Given given_;
};

}  // namespace assay::harness::mutants

ASSAY_MUTANT(mutant_stale_zero, StaleZero, "contents_survive",
             "hands out a used block where zeros were asked")
