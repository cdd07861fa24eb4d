// first_touch: a block allocated, one byte written to each of its pages, freed. Memory that the
// host cannot touch is filled by its device instead.
#include "../runner/family.hpp"
#include "assay/base/system.hpp"

namespace assay::bench {
namespace {

class FirstTouch {
 public:
  static constexpr Family facts{.name = "first_touch",
                                .summary = "a block allocated, a byte written to each page, freed",
                                .sizes = {.first = std::size_t{4} << 10,
                                          .last = std::size_t{64} << 20,
                                          .last_full = std::size_t{256} << 20},
                                .allocations = 1,
                                .touches = true};

  explicit FirstTouch(const Input& input)
      : request_{.size = input.size_bytes}, page_bytes_(page_size()) {}

  bool operator()(Backing& backing, Error& error) noexcept {
    const auto block = backing.allocate(request_);
    if (!block) [[unlikely]] {
      error = block.error();
      return false;
    }
    if (!backing.can(Capabilities::host_access)) {
      const auto filled = backing.fill(block.value(), 0, request_.size, std::byte{1});
      backing.deallocate(block.value(), request_);
      if (!filled) error = filled.error();
      return filled.has_value();
    }
    // Volatile: no compiler may know that the block is freed unread.
    auto* const bytes =
        reinterpret_cast<volatile std::byte*>(static_cast<std::uintptr_t>(block.value().address));
    for (std::size_t at = 0; at < request_.size; at += page_bytes_) bytes[at] = std::byte{1};
    backing.deallocate(block.value(), request_);
    return true;
  }

 private:
  Request request_;
  std::size_t page_bytes_;
};

}  // namespace

namespace family_list {

const Family& first_touch() {
  static constexpr Family family = family_of<FirstTouch>();
  return family;
}

}  // namespace family_list
}  // namespace assay::bench
