#include "assay/buffer/retention.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <new>

namespace assay {
namespace {

struct Held {
  const AllocationController* block;
  std::size_t size;
};

}  // namespace

Result<Retention> retention_of(std::span<const Bytes> values) noexcept {
  if (values.empty()) return Retention{};
  // Two for each: the block that the host sees, and one on a device behind it.
  const std::unique_ptr<Held[]> held(new (std::nothrow) Held[2 * values.size()]);
  if (!held) {
    return Error::make(ErrorCode::out_of_memory, "retention_of", "",
                       2 * values.size() * sizeof(Held));
  }
  Held* end = held.get();
  Retention sum;
  const auto add = [](std::size_t& total, std::size_t size) {
    const auto more = checked_add(total, size);
    if (more) total = *more;
    return more && *more <= size_max;
  };
  for (const Bytes& value : values) {
    if (!add(sum.logical_bytes, value.len())) {
      return Error::make(ErrorCode::too_large, "retention_of", "", value.len());
    }
    if (value.controller_ == nullptr) continue;
    const AllocationController& root = value.controller_->root();
    if (root.is_resident()) *end++ = {&root, root.capacity()};
    if (root.is_unit() && root.origin().property() != AllocationProperty::file) {
      *end++ = {&root.origin(), root.origin().capacity()};
    }
  }
  std::sort(held.get(), end, [](const Held& a, const Held& b) {
    return std::less<const AllocationController*>()(a.block, b.block);
  });
  const Held* const unique =
      std::unique(held.get(), end, [](const Held& a, const Held& b) { return a.block == b.block; });
  for (const Held* one = held.get(); one != unique; ++one) {
    if (!add(sum.retained_bytes, one->size)) {
      return Error::make(ErrorCode::too_large, "retention_of", "", one->size);
    }
  }
  return sum;
}

}  // namespace assay
