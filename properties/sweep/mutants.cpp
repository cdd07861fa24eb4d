// Backings over the driver that are broken in one way each: the sweep must catch them. The one
// without a flaw must pass, so that the others are caught for theirs.
#include <array>
#include <atomic>

#include "scenarios.hpp"

namespace assay::sweep {
namespace {

using cuda::abi::Status;

enum class Flaw : std::uint8_t { none, leaks_unzeroed, frees_twice, hides_code, keeps_going };

/// Device memory, one allocation a block, as someone in a hurry writes it.
template <Flaw flaw>
class Careless final : public Backing {
 public:
  explicit Careless(Ref<cuda::PrimaryContext> context)
      : Backing({.id = "careless",
                 .capabilities = Capabilities::device_access | Capabilities::thread_safe,
                 .granularity = 1,
                 .natural_alignment = 256,
                 .device = context->ordinal()}),
        context_(std::move(context)) {}

 private:
  [[nodiscard]] const cuda::abi::DriverTable& table() const noexcept { return context_->table(); }
  Result<void> check(Status status, const char* function) noexcept {
    return context_->check(status, function, info().id);
  }

  /// Tried again, so that what the sweep finds is the flaw and nothing else.
  Result<void> wait() noexcept {
    auto waited = check(table().cuCtxSynchronize(), "cuCtxSynchronize");
    if (!waited) table().cuCtxSynchronize();
    return waited;
  }

  Block do_allocate(const Request& request, Error& error) noexcept override {
    const std::size_t size = request.size + request.alignment;
    const auto made = make(request, size);
    if (!made) {
      error = made.error();
      if (flaw == Flaw::hides_code) error.native = 0;
      return {};
    }
    return {made.value(), request.size};
  }
  Result<std::uint64_t> make(const Request& request, std::size_t size) noexcept {
    ASSAY_TRY(const cuda::Current current, cuda::Current::of(*context_));
    cuda::abi::DevicePointer base = 0;
    ASSAY_TRY_VOID(check(table().cuMemAlloc_v2(&base, size), "cuMemAlloc"));
    if (request.init != Init::zero) return base;
    auto zeroed = check(table().cuMemsetD8_v2(base, 0, size), "cuMemsetD8");
    if (zeroed) zeroed = check(table().cuCtxSynchronize(), "cuCtxSynchronize");
    if (zeroed || flaw == Flaw::keeps_going) return base;
    table().cuCtxSynchronize();  // the zeroing may be under way
    if (flaw != Flaw::leaks_unzeroed) table().cuMemFree_v2(base);
    if (flaw == Flaw::frees_twice) table().cuMemFree_v2(base);
    return zeroed.error();
  }
  bool free(Block block) noexcept {
    const auto current = cuda::Current::of(*context_);
    return current && table().cuMemFree_v2(block.address) == Status::success;
  }
  Freed do_deallocate(Block block, const Release&) noexcept override {
    return free(block) || free(block) ? Freed::now : Freed::failed;
  }
  [[nodiscard]] std::size_t do_footprint(const Request& request) const noexcept override {
    return request.size;
  }
  [[nodiscard]] Usage do_usage() const noexcept override { return {}; }
  Result<void> do_copy_in(Block block, std::size_t offset,
                          std::span<const std::byte> from) noexcept override {
    ASSAY_TRY(const cuda::Current current, cuda::Current::of(*context_));
    ASSAY_TRY_VOID(check(table().cuMemcpyHtoD_v2(block.address + offset, from.data(), from.size()),
                         "cuMemcpyHtoD"));
    return wait();
  }
  Result<void> do_copy_out(Block block, std::size_t offset,
                           std::span<std::byte> to) noexcept override {
    ASSAY_TRY(const cuda::Current current, cuda::Current::of(*context_));
    return check(table().cuMemcpyDtoH_v2(to.data(), block.address + offset, to.size()),
                 "cuMemcpyDtoH");
  }
  Result<void> do_fill(Block block, std::size_t offset, std::size_t size,
                       std::byte value) noexcept override {
    ASSAY_TRY(const cuda::Current current, cuda::Current::of(*context_));
    ASSAY_TRY_VOID(check(
        table().cuMemsetD8_v2(block.address + offset, std::to_integer<unsigned char>(value), size),
        "cuMemsetD8"));
    return wait();
  }

  Ref<cuda::PrimaryContext> context_;
};

template <Flaw flaw>
Result<Ref<Backing>> make_careless(Ref<cuda::PrimaryContext> context) {
  return Ref<Backing>(Ref<Careless<flaw>>::adopt(new Careless<flaw>(std::move(context))));
}

constexpr std::array all_mutants = {
    Leaf{"sound", make_careless<Flaw::none>, "", "zeroed"},
    Leaf{"leaks_unzeroed", make_careless<Flaw::leaks_unzeroed>,
         "keeps the memory of a block that could not be zeroed", "zeroed"},
    Leaf{"frees_twice", make_careless<Flaw::frees_twice>,
         "frees a block that could not be zeroed twice", "zeroed"},
    Leaf{"hides_code", make_careless<Flaw::hides_code>, "drops the driver's code", "zeroed"},
    Leaf{"keeps_going", make_careless<Flaw::keeps_going>, "hands out what it could not zero",
         "zeroed"},
};

}  // namespace

std::span<const Leaf> mutants() noexcept {
  return all_mutants;
}

}  // namespace assay::sweep
