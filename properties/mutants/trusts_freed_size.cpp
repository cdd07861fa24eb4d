#include <array>
#include <bit>

#include "mutant.hpp"

namespace assay::harness::mutants {

/// Sorts freed blocks into classes of powers of two by the size that the free names, although a
/// block was cut to its size: the next owner of its class writes past its end.
class TrustsFreedSize final : public Mutant {
 public:
  static constexpr const char* id = "mutant_trusts_freed_size";
  using Mutant::Mutant;
  ~TrustsFreedSize() override {
    if (arena_) deallocate_to(upstream(), arena_, {arena_request, false});
  }

 private:
  static constexpr Request arena_request{.size = std::size_t{8} << 20};
  static constexpr std::size_t largest = 4096;

  static std::size_t class_of(std::size_t size) noexcept {
    return static_cast<std::size_t>(std::bit_width(size - 1));
  }
  Block do_allocate(const Request& request, Error& error) noexcept override {
    if (!arena_) arena_ = allocate_from(upstream(), arena_request, error);
    if (!arena_) return {};
    const bool small = request.size <= largest && request.alignment <= 16;
    const std::size_t size = align_up(request.size, 16);
    if (!small || used_ + size + largest > arena_.capacity) {
      return allocate_from(upstream(), request, error);
    }
    std::uint64_t& free = free_[class_of(request.size)];
    const std::uint64_t address = free != 0 ? std::exchange(free, 0) : arena_.address + used_;
    if (address == arena_.address + used_) used_ += size;
    const Block block{address, size};
    if (request.init == Init::zero) std::memset(bytes_of(block), 0, size);
    return block;
  }
  Freed do_deallocate(Block block, const Release& release) noexcept override {
    if (block.address - arena_.address >= arena_.capacity) {
      return deallocate_to(upstream(), block, release);
    }
    free_[class_of(release.request.size)] = block.address;
    return Freed::now;
  }
  Block do_resize(Block, const Request&, const Request& to, MayMove,
                  Error& error) noexcept override {
    error = Error::make(ErrorCode::not_supported, "resize", id, to.size);
    return {};
  }

  Block arena_{};
  std::size_t used_ = 0;
  std::array<std::uint64_t, 65> free_{};
};

}  // namespace assay::harness::mutants

ASSAY_MUTANT(mutant_trusts_freed_size, TrustsFreedSize, "sized_free",
             "takes a freed block for one of its whole size class")
