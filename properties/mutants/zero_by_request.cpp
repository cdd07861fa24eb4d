#include "mutant.hpp"

namespace assay::harness::mutants {

/// Keeps one freed block that was asked for as zero, and hands it out as zero again, whatever was
/// written to it since.
class ZeroByRequest final : public Mutant {
 public:
  static constexpr const char* id = "mutant_zero_by_request";
  using Mutant::Mutant;
  ~ZeroByRequest() override {
    if (kept_) deallocate_to(upstream(), kept_, {request_, false});
  }

 private:
  Block do_allocate(const Request& request, Error& error) noexcept override {
    const bool fits = kept_ && request.init == Init::zero &&
                      request.alignment == request_.alignment &&
                      footprint(request) == kept_.capacity;
    if (!fits) return allocate_from(upstream(), request, error);
    given_.put(kept_.address, kept_, request_);
    return std::exchange(kept_, {});
  }
  Freed do_deallocate(Block block, const Release& release) noexcept override {
    Request made = release.request;
    if (given_.has(block.address)) made = given_.take(block.address).request;
    if (release.request.init == Init::zero) {
      std::swap(block, kept_);
      std::swap(made, request_);
    }
    return block ? deallocate_to(upstream(), block, {made, false}) : Freed::now;
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

ASSAY_MUTANT(mutant_zero_by_request, ZeroByRequest, "contents_survive",
             "takes a block for zero that was zero when it was handed out")
