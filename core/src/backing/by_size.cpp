#include "assay/backing/by_size.hpp"

#include <algorithm>
#include <numeric>

namespace assay {
namespace {

SourceInfo joined(const Backing& small, const Backing& large) noexcept {
  constexpr std::uint32_t routed = Capabilities::host_access | Capabilities::thread_safe |
                                   Capabilities::resize_in_place | Capabilities::resize_moves |
                                   Capabilities::zeroed_fresh | Capabilities::detects_bad_free;
  const std::uint32_t one = small.info().capabilities.bits();
  const std::uint32_t other = large.info().capabilities.bits();
  std::uint32_t offered = (one & other & routed) | Capabilities::upstream;
  // Small blocks do not move where large ones move by pages; see do_resize.
  offered |= other & Capabilities::moves_pages;
  offered |= (one | other) & Capabilities::trim;
  return {.id = "by_size",
          .capabilities = offered,
          .granularity = std::gcd(small.info().granularity, large.info().granularity),
          .natural_alignment =
              std::min(small.info().natural_alignment, large.info().natural_alignment)};
}

}  // namespace

Ref<BySize> BySize::make(std::size_t limit, Ref<Backing> small, Ref<Backing> large) {
  ASSAY_CONTRACT(small && large, "by_size needs two upstreams");
  ASSAY_CONTRACT(can_join(*small) && can_join(*large),
                 "by_size takes memory of the host that no device reaches");
  return Ref<BySize>::adopt(new BySize(limit, std::move(small), std::move(large)));
}

bool BySize::can_join(const Backing& upstream) noexcept {
  return upstream.can(Capabilities::host_access) && !upstream.can(Capabilities::device_access);
}

BySize::BySize(std::size_t limit, Ref<Backing> small, Ref<Backing> large) noexcept
    : Backing(joined(*small, *large)),
      limit_(limit),
      small_(std::move(small)),
      large_(std::move(large)) {}

Block BySize::do_allocate(const Request& request, Error& error) noexcept {
  return allocate_from(side(request), request, error);
}

Freed BySize::do_deallocate(Block block, const Release& release) noexcept {
  return deallocate_to(side(release.request), block, release);
}

std::size_t BySize::do_footprint(const Request& request) const noexcept {
  return side(request).footprint(request);
}

Usage BySize::do_usage() const noexcept {
  Usage usage = small_->usage();
  if (large_.get() == small_.get()) return usage;
  const Usage more = large_->usage();
  usage.live_blocks += more.live_blocks;
  usage.live_bytes += more.live_bytes;
  usage.reserved_bytes += more.reserved_bytes;
  return usage;
}

Block BySize::do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                        Error& error) noexcept {
  if (is_large(from) != is_large(to)) {
    error = Error::make(ErrorCode::not_supported, "resize across the limit", info().id, to.size);
    error.limit = limit_;
    return {};
  }
  Backing& upstream = side(from);
  const bool would_copy =
      can(Capabilities::moves_pages) && !upstream.can(Capabilities::moves_pages);
  return resize_in(upstream, block, from, to, would_copy ? MayMove::no : may_move, error);
}

Result<std::size_t> BySize::do_trim(std::size_t keep_bytes) noexcept {
  const bool small = small_->can(Capabilities::trim);
  const bool large = large_->can(Capabilities::trim) && (large_.get() != small_.get() || !small);
  if (!small && !large) return Error::make(ErrorCode::not_supported, "trim", info().id);
  // Each side may keep its half, so that both together keep no more than was said.
  const std::size_t each = small && large ? keep_bytes / 2 : keep_bytes;
  std::size_t given_back = 0;
  if (small) {
    ASSAY_TRY(given_back, small_->trim(each));
  }
  if (large) {
    ASSAY_TRY(const std::size_t more, large_->trim(each));
    given_back += more;
  }
  return given_back;
}

}  // namespace assay
