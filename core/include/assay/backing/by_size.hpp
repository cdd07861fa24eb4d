// by_size: small requests go to one backing, large ones to another.
#pragma once

#include "assay/backing/backing.hpp"

namespace assay {

/// Two upstreams, and a limit between them.
///
///     size and reserve up to `limit`     small
///     either of them above it            large
///
/// A block's side is told by its request alone: there is no table, no lock and no count, so a call
/// costs one comparison more than its upstream's.
///
/// Resizing stays on a side: what would cross the limit is `not_supported`, and the caller copies.
/// So that `moves_pages` of the large side stays true of the whole, small blocks then only grow in
/// place, unless they move by pages too.
///
/// **Invariants** host memory, which no device reaches: bytes need no upstream to be copied, filled
/// or waited for. **Threads** as both upstreams.
class BySize final : public Backing {
 public:
  /// **Pre** both upstreams are given, and `can_join` them.
  [[nodiscard]] static Ref<BySize> make(std::size_t limit, Ref<Backing> small, Ref<Backing> large);

  /// Is it memory of the host that no device reaches? Only that takes part.
  [[nodiscard]] static bool can_join(const Backing& upstream) noexcept;

  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }
  [[nodiscard]] Backing& small() const noexcept { return *small_; }
  [[nodiscard]] Backing& large() const noexcept { return *large_; }

 private:
  BySize(std::size_t limit, Ref<Backing> small, Ref<Backing> large) noexcept;
  Block do_allocate(const Request& request, Error& error) noexcept override;
  Freed do_deallocate(Block block, const Release& release) noexcept override;
  [[nodiscard]] std::size_t do_footprint(const Request& request) const noexcept override;
  [[nodiscard]] Usage do_usage() const noexcept override;
  Block do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                  Error& error) noexcept override;
  Result<std::size_t> do_trim(std::size_t keep_bytes) noexcept override;

  [[nodiscard]] bool is_large(const Request& request) const noexcept {
    return request.size > limit_ || request.reserve > limit_;
  }
  [[nodiscard]] Backing& side(const Request& request) const noexcept {
    return is_large(request) ? *large_ : *small_;
  }

  const std::size_t limit_;
  Ref<Backing> small_;
  Ref<Backing> large_;
};

}  // namespace assay
