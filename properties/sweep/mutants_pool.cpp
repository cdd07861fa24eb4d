// Pools over the driver that are broken in one way each.
#include <array>

#include "careless.hpp"

namespace assay::sweep {
namespace {

using cuda::abi::MemPool;

enum class Flaw : std::uint8_t { none, frees_elsewhere, forgets_to_wait, ignores_max_size };

constexpr std::size_t limit = std::size_t{64} << 20;

template <Flaw flaw>
class CarelessPool final : public Careless {
 public:
  static Result<Ref<Backing>> make(Ref<cuda::PrimaryContext> context) {
    if (!context->facts().has(cuda::abi::DeviceAttribute::memory_pools_supported)) {
      return Error::make(ErrorCode::not_supported, "memory pools", "careless_pool");
    }
    ASSAY_TRY(Ref<cuda::Stream> own, cuda::Stream::make(context));
    ASSAY_TRY(Ref<cuda::Stream> other, cuda::Stream::make(context));
    cuda::abi::MemPoolProps props{};
    props.alloc_type = cuda::abi::AllocationType::pinned;
    props.location = {cuda::abi::LocationType::device, context->ordinal()};
    if (flaw != Flaw::ignores_max_size) props.max_size = limit;
    MemPool pool = nullptr;
    ASSAY_TRY_VOID(
        context->check(context->table().cuMemPoolCreate(&pool, &props), "cuMemPoolCreate"));
    return Ref<Backing>(Ref<CarelessPool>::adopt(
        new CarelessPool(std::move(context), std::move(own), std::move(other), pool)));
  }
  ~CarelessPool() override {
    insist([&] { return table().cuMemPoolDestroy(pool_); });
  }

 private:
  CarelessPool(Ref<cuda::PrimaryContext> context, Ref<cuda::Stream> own, Ref<cuda::Stream> other,
               MemPool pool)
      : Careless("careless_pool", 1, Capabilities::stream_ordered, std::move(context),
                 std::move(own)),
        other_(std::move(other)),
        pool_(pool) {}

  Block do_allocate(const Request& request, Error& error) noexcept override {
    const auto made = make_block(request);
    if (made) return {made.value(), request.size};
    error = made.error();
    return {};
  }
  Result<std::uint64_t> make_block(const Request& request) noexcept {
    ASSAY_TRY(const cuda::Current current, cuda::Current::of(*context_));
    const cuda::abi::Stream stream = stream_of(request.stream);
    const std::size_t alignment = request.alignment > 256 ? request.alignment : 0;
    Address base = 0;
    ASSAY_TRY_VOID(
        check(table().cuMemAllocFromPoolAsync(&base, request.size + alignment, pool_, stream),
              "cuMemAllocFromPoolAsync"));
    Result<void> ready;
    if (request.init == Init::zero) {
      ready = check(table().cuMemsetD8Async(base, 0, request.size + alignment, stream),
                    "cuMemsetD8Async");
    }
    if (ready && request.stream.handle == nullptr && flaw != Flaw::forgets_to_wait) ready = wait();
    if (!ready) {
      insist([&] { return table().cuMemFreeAsync(base, stream); });
      return ready.error();
    }
    const Address address = alignment == 0 ? base : align_up(base, alignment);
    bases_[address] = {base, stream};
    return address;
  }
  Freed do_deallocate(Block block, const Release&) noexcept override {
    const auto node = bases_.extract(block.address);
    if (node.empty()) return Freed::failed;
    const auto& [base, home] = node.mapped();
    const cuda::abi::Stream stream = flaw == Flaw::frees_elsewhere ? other_->handle() : home;
    bool freed = false;
    in_context([&] { freed = insist([&] { return table().cuMemFreeAsync(base, stream); }); });
    return freed ? Freed::now : Freed::failed;
  }
  Result<void> do_fill(Block block, std::size_t offset, std::size_t size,
                       std::byte value) noexcept override {
    ASSAY_TRY(const cuda::Current current, cuda::Current::of(*context_));
    return check(
        table().cuMemsetD8Async(block.address + offset, std::to_integer<unsigned char>(value), size,
                                bases_[block.address].second),
        "cuMemsetD8Async");
  }
  Result<void> before_copy() noexcept override {
    return flaw == Flaw::forgets_to_wait ? Result<void>() : wait();
  }
  [[nodiscard]] cuda::abi::Stream copy_stream() const noexcept override { return other_->handle(); }
  [[nodiscard]] std::size_t do_footprint(const Request& request) const noexcept override {
    return request.size;
  }

  Ref<cuda::Stream> other_;
  MemPool pool_;
  std::map<Address, std::pair<Address, cuda::abi::Stream>> bases_;
};

constexpr std::array all_mutants = {
    Leaf{"pool_sound", CarelessPool<Flaw::none>::make, "", "turns", limit},
    Leaf{"pool_sound_within_its_limit", CarelessPool<Flaw::none>::make, "", "limited", limit},
    Leaf{"pool_frees_elsewhere", CarelessPool<Flaw::frees_elsewhere>::make,
         "frees on another stream than the block's, without waiting", "turns", limit},
    Leaf{"pool_forgets_to_wait", CarelessPool<Flaw::forgets_to_wait>::make,
         "hands out a block whose allocation other streams have not seen", "turns", limit},
    Leaf{"pool_ignores_max_size", CarelessPool<Flaw::ignores_max_size>::make,
         "gives out more than its largest size", "limited", limit},
};

}  // namespace

std::span<const Leaf> pool_mutants() noexcept {
  return all_mutants;
}

}  // namespace assay::sweep
