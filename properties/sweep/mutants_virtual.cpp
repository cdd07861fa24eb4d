// Virtual memory over the driver that is broken in one way each.
#include <array>
#include <vector>

#include "careless.hpp"

namespace assay::sweep {
namespace {

using cuda::abi::AllocationHandle;

enum class Flaw : std::uint8_t { none, forgets_access, leaks_unmapped, keeps_addresses };

constexpr cuda::abi::AllocationProp prop_of(int ordinal) noexcept {
  cuda::abi::AllocationProp prop{};
  prop.type = cuda::abi::AllocationType::pinned;
  prop.location = {cuda::abi::LocationType::device, ordinal};
  return prop;
}

template <Flaw flaw>
class CarelessVirtual final : public Careless {
 public:
  static Result<Ref<Backing>> make(Ref<cuda::PrimaryContext> context) {
    if (!context->facts().has(cuda::abi::DeviceAttribute::virtual_memory_management_supported)) {
      return Error::make(ErrorCode::not_supported, "virtual memory", "careless_virtual");
    }
    ASSAY_TRY(Ref<cuda::Stream> own, cuda::Stream::make(context));
    const auto prop = prop_of(context->ordinal());
    std::size_t granularity = 0;
    ASSAY_TRY_VOID(context->check(context->table().cuMemGetAllocationGranularity(
                                      &granularity, &prop, cuda::abi::GranularityFlags::minimum),
                                  "cuMemGetAllocationGranularity"));
    return Ref<Backing>(Ref<CarelessVirtual>::adopt(
        new CarelessVirtual(std::move(context), std::move(own), granularity)));
  }

 private:
  struct Range {
    std::size_t extent = 0;
    std::size_t mapped = 0;
  };

  CarelessVirtual(Ref<cuda::PrimaryContext> context, Ref<cuda::Stream> own, std::size_t granularity)
      : Careless("careless_virtual", granularity,
                 Capabilities::resize_in_place | Capabilities::resize_moves, std::move(context),
                 std::move(own)) {}

  [[nodiscard]] std::size_t do_footprint(const Request& request) const noexcept override {
    const std::size_t granularity = info().granularity;
    return (request.size + granularity - 1) / granularity * granularity;
  }
  Block do_allocate(const Request& request, Error& error) noexcept override {
    const auto made = make_block(request);
    if (made) return made.value();
    error = made.error();
    return {};
  }
  Result<Block> make_block(const Request& request) noexcept {
    ASSAY_TRY(const cuda::Current current, cuda::Current::of(*context_));
    Request whole = request;
    whole.size = std::max(request.size, request.reserve);
    const std::size_t extent = do_footprint(whole);
    const std::size_t size = do_footprint(request);
    Address base = 0;
    ASSAY_TRY_VOID(check(table().cuMemAddressReserve(&base, extent, request.alignment, 0, 0),
                         "cuMemAddressReserve"));
    auto mapped = map(base, 0, size, true);
    if (mapped && request.init == Init::zero) mapped = zero(base, size);
    if (!mapped) {
      unmap(base, sizes_[base]);
      sizes_.erase(base);
      if (flaw != Flaw::keeps_addresses) {
        insist([&] { return table().cuMemAddressFree(base, extent); });
      }
      return mapped.error();
    }
    ranges_[base] = {extent, size};
    return Block{base, size};
  }
  /// Maps one more allocation from `from` to `to`.
  Result<void> map(Address base, std::size_t from, std::size_t to, bool fresh) noexcept {
    const auto prop = prop_of(context_->ordinal());
    AllocationHandle handle = 0;
    ASSAY_TRY_VOID(check(table().cuMemCreate(&handle, to - from, &prop, 0), "cuMemCreate"));
    auto mapped = check(table().cuMemMap(base + from, to - from, 0, handle, 0), "cuMemMap");
    if (mapped || flaw != Flaw::leaks_unmapped) {
      insist([&] { return table().cuMemRelease(handle); });
    }
    if (!mapped) return mapped;
    sizes_[base] = to;
    if (!fresh && flaw == Flaw::forgets_access) return {};
    const cuda::abi::AccessDesc access{{cuda::abi::LocationType::device, context_->ordinal()},
                                       cuda::abi::AccessFlags::read_write};
    return check(table().cuMemSetAccess(base + from, to - from, &access, 1), "cuMemSetAccess");
  }
  void unmap(Address base, std::size_t size) noexcept {
    if (size != 0) insist([&] { return table().cuMemUnmap(base, size); });
  }
  Result<void> zero(Address at, std::size_t size) noexcept {
    ASSAY_TRY_VOID(check(table().cuMemsetD8Async(at, 0, size, own_->handle()), "cuMemsetD8Async"));
    return wait();
  }
  Freed do_deallocate(Block block, const Release&) noexcept override {
    const auto node = ranges_.extract(block.address);
    if (node.empty()) return Freed::failed;
    const bool freed = in_context([&] {
      insist([&] { return table().cuCtxSynchronize(); });
      unmap(block.address, node.mapped().mapped);
      sizes_.erase(block.address);
      insist([&] { return table().cuMemAddressFree(block.address, node.mapped().extent); });
    });
    return freed ? Freed::now : Freed::failed;
  }
  Block do_resize(Block block, const Request& from, const Request& to, MayMove,
                  Error& error) noexcept override {
    const auto resized = resized_block(block, from, to);
    if (resized) return resized.value();
    error = resized.error();
    return {};
  }
  Result<Block> resized_block(Block block, const Request& from, const Request& to) noexcept {
    ASSAY_TRY(const cuda::Current current, cuda::Current::of(*context_));
    Range& range = ranges_[block.address];
    const std::size_t wanted = do_footprint(to);
    Block resized = block;
    if (wanted > range.extent) {
      Request larger = to;
      larger.init = Init::undefined;
      ASSAY_TRY(resized, make_block(larger));
    } else if (wanted > range.mapped) {
      auto mapped = map(block.address, range.mapped, wanted, false);
      if (mapped && flaw == Flaw::forgets_access) {
        range.mapped = wanted;
        return Block{block.address, wanted};
      }
      if (!mapped) {
        if (sizes_[block.address] > range.mapped) {
          unmap(block.address + range.mapped, wanted - range.mapped);
          sizes_[block.address] = range.mapped;
        }
        return mapped.error();
      }
      resized.capacity = wanted;
      range.mapped = wanted;
    }
    Result<void> done;
    if (resized.address != block.address) {
      done = wait();
      if (done) {
        done = check(
            table().cuMemcpyDtoDAsync_v2(resized.address, block.address, from.size, own_->handle()),
            "cuMemcpyDtoDAsync");
      }
      if (done) done = wait();
    }
    if (done && to.init == Init::zero && to.size > from.size) {
      done = zero(resized.address + from.size, to.size - from.size);
    }
    if (resized.address == block.address) {
      // The block keeps its new capacity, whatever became of the zeroing: the caller hears of it.
      if (!done) ranges_[block.address].mapped = resized.capacity;
      return done ? Result<Block>(resized) : Result<Block>(done.error());
    }
    do_deallocate(done ? block : resized, Release{});
    return done ? Result<Block>(resized) : Result<Block>(done.error());
  }
  Result<void> do_fill(Block block, std::size_t offset, std::size_t size,
                       std::byte value) noexcept override {
    ASSAY_TRY(const cuda::Current current, cuda::Current::of(*context_));
    ASSAY_TRY_VOID(
        check(table().cuMemsetD8Async(block.address + offset, std::to_integer<unsigned char>(value),
                                      size, own_->handle()),
              "cuMemsetD8Async"));
    return wait();
  }

  std::map<Address, Range> ranges_;
  std::map<Address, std::size_t> sizes_;  ///< what is mapped, of ranges half made too
};

constexpr std::array all_mutants = {
    Leaf{"virtual_sound", CarelessVirtual<Flaw::none>::make, "", "pages"},
    Leaf{"virtual_forgets_access", CarelessVirtual<Flaw::forgets_access>::make,
         "lets the device at nothing that came with growth", "pages"},
    Leaf{"virtual_leaks_unmapped", CarelessVirtual<Flaw::leaks_unmapped>::make,
         "keeps the handle of memory that could not be mapped", "pages"},
    Leaf{"virtual_keeps_addresses", CarelessVirtual<Flaw::keeps_addresses>::make,
         "keeps the addresses of a block that was not made", "pages"},
};

}  // namespace

std::span<const Leaf> virtual_mutants() noexcept {
  return all_mutants;
}

}  // namespace assay::sweep
