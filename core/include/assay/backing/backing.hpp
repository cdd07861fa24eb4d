// Backing: a Source that allocates. Backings and adaptors are interchangeable.
#pragma once

#include <cstddef>
#include <cstdint>

#include "assay/backing/source.hpp"
#include "assay/base/checked.hpp"

namespace assay {

enum class MayMove : bool { no, yes };

/// The six hints of cuMemAdvise; a backing without the capability answers not_supported.
enum class Advice : std::uint8_t {
  set_read_mostly,
  unset_read_mostly,
  set_preferred_location,
  unset_preferred_location,
  set_accessed_by,
  unset_accessed_by,
};

/// Where advice or a prefetch points to.
struct Location {
  enum class Kind : std::uint8_t { host, device, host_numa } kind = Kind::host;
  std::int32_t ordinal = 0;
};

/// What a backing holds now.
struct Usage {
  std::uint64_t live_blocks = 0;
  std::uint64_t live_bytes = 0;      ///< capacity of the live blocks
  std::uint64_t reserved_bytes = 0;  ///< what it holds from below, caches included
};

/// A source that hands out blocks.
///
/// The public layer checks preconditions and speaks Result; the private virtuals return in
/// registers and are what adaptors call (a fat error through each layer costs 25–45 ns).
///
/// **Invariants** a block is at least as large and as aligned as asked, and disjoint from every
/// other live block. Destroying a backing with live blocks breaks a contract.
class Backing : public Source {
 public:
  /// Allocates a block. **Errors** zero_size, invalid_alignment, too_large (before any call
  /// below), out_of_memory, quota_exceeded. On error nothing has changed.
  Result<Block> allocate(const Request& request) noexcept {
    Error error;
    const Block block = allocate(request, error);
    if (!block) [[unlikely]]
      return error;
    return block;
  }
  /// The same in registers, for a caller that has an Error at hand: without a block it is set.
  Block allocate(const Request& request, Error& error) noexcept {
    if (!passes(request)) [[unlikely]] {
      error = check(request);
      return {};
    }
    return do_allocate(request, error);
  }

  /// Gives a block back; the same as Source::release.
  Freed deallocate(Block block, const Release& released) noexcept {
    return release(block, released);
  }
  Freed deallocate(Block block, const Request& request) noexcept {
    return release(block, Release{request, false});
  }

  /// Exact capacity that `allocate(request)` would return. **Pre** a request that passes check.
  [[nodiscard]] std::size_t footprint(const Request& request) const noexcept {
    return do_footprint(request);
  }

  /// Bytes that `allocate(request)` would take from below: the footprint, and what the address is
  /// padded with. **Pre** as footprint.
  [[nodiscard]] std::size_t charge(const Request& request) const noexcept {
    return do_charge(request);
  }
  /// Bytes that a live block has taken from below: at least its capacity.
  [[nodiscard]] std::size_t held_by(Block block) const noexcept { return do_held_by(block); }

  /// Changes the size of a live block from `from.size` to `to.size`; alignment and reserve stay.
  /// Bytes up to the smaller size are kept; new ones read zero if `to.init` says so.
  /// **Errors** not_supported, and those of allocate; on error the block is as before. A move whose
  /// old block cannot be freed is undone and is such an error; `lost` is what could not be undone.
  /// **Post** with MayMove::no the address is unchanged.
  Result<Block> resize(Block block, const Request& from, const Request& to,
                       MayMove may_move) noexcept;

  /// Tells who places the pages. **Errors** not_supported, out_of_range, native failures.
  Result<void> advise(Block block, std::size_t offset, std::size_t size, Advice advice,
                      Location location) noexcept;
  /// Moves pages ahead of use. **Errors** not_supported, out_of_range, native failures.
  Result<void> prefetch(Block block, std::size_t offset, std::size_t size, Location location,
                        StreamRef stream) noexcept;
  /// Gives cached memory back until at most `keep_bytes` are cached. Returns the bytes given back.
  Result<std::size_t> trim(std::size_t keep_bytes) noexcept;

  [[nodiscard]] Usage usage() const noexcept { return do_usage(); }

  /// The error that `allocate` gives to a request before calling the backing, or code none.
  [[nodiscard]] Error check(const Request& request) const noexcept;

 protected:
  using Source::Source;

  // What an adaptor calls on its upstream: the same, without the checks made above it.
  static Block allocate_from(Backing& upstream, const Request& request, Error& error) noexcept {
    return upstream.do_allocate(request, error);
  }
  static Freed deallocate_to(Backing& upstream, Block block, const Release& released) noexcept {
    return upstream.do_deallocate(block, released);
  }
  static Block resize_in(Backing& upstream, Block block, const Request& from, const Request& to,
                         MayMove may_move, Error& error) noexcept {
    return upstream.do_resize(block, from, to, may_move, error);
  }
  static Result<void> settle_in(Backing& upstream, Block block) noexcept {
    return upstream.do_settle(block);
  }
  static Result<void> copy_on_device_of(Backing& upstream, std::uint64_t to, std::uint64_t from,
                                        std::size_t size) noexcept {
    return upstream.do_copy_on_device(to, from, size);
  }

 private:
  // Room for the alignment and for rounding up to a large page keeps every later sum in range.
  static constexpr std::size_t rounding_max = std::size_t{1} << 30;
  /// Would `check` say none?
  [[nodiscard]] static constexpr bool passes(const Request& request) noexcept {
    const std::size_t wanted = request.size > request.reserve ? request.size : request.reserve;
    return request.size != 0 && is_alignment(request.alignment) &&
           wanted <= size_max - rounding_max - request.alignment;
  }

  /// Address 0 means failure, told in `error`. **Pre** check(request) passed.
  virtual Block do_allocate(const Request& request, Error& error) noexcept = 0;
  [[nodiscard]] virtual std::size_t do_footprint(const Request& request) const noexcept = 0;
  [[nodiscard]] virtual std::size_t do_charge(const Request& request) const noexcept {
    return do_footprint(request);
  }
  [[nodiscard]] virtual std::size_t do_held_by(Block block) const noexcept {
    return block.capacity;
  }
  [[nodiscard]] virtual Usage do_usage() const noexcept = 0;
  virtual Block do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                          Error& error) noexcept;
  virtual Result<void> do_advise(Block block, std::size_t offset, std::size_t size, Advice advice,
                                 Location location) noexcept;
  virtual Result<void> do_prefetch(Block block, std::size_t offset, std::size_t size,
                                   Location location, StreamRef stream) noexcept;
  virtual Result<std::size_t> do_trim(std::size_t keep_bytes) noexcept;
};

/// A backing that hands out blocks of another; forwards what it does not change.
class Adaptor : public Backing {
 protected:
  Adaptor(const SourceInfo& info, Ref<Backing> upstream) noexcept
      : Backing(info), upstream_(std::move(upstream)) {}
  [[nodiscard]] Backing& upstream() const noexcept { return *upstream_; }
  /// The upstream's facts under another id, as most adaptors need them.
  [[nodiscard]] static SourceInfo renamed(const char* id, const Backing& upstream) noexcept;

 private:
  Block do_allocate(const Request& request, Error& error) noexcept override;
  Freed do_deallocate(Block block, const Release& release) noexcept override;
  [[nodiscard]] std::size_t do_footprint(const Request& request) const noexcept override;
  [[nodiscard]] std::size_t do_charge(const Request& request) const noexcept override;
  [[nodiscard]] std::size_t do_held_by(Block block) const noexcept override;
  [[nodiscard]] Usage do_usage() const noexcept override;
  Block do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                  Error& error) noexcept override;
  Result<void> do_copy_in(Block block, std::size_t offset,
                          std::span<const std::byte> from) noexcept override;
  Result<void> do_copy_out(Block block, std::size_t offset,
                           std::span<std::byte> to) noexcept override;
  Result<void> do_fill(Block block, std::size_t offset, std::size_t size,
                       std::byte value) noexcept override;
  Result<void> do_settle(Block block) noexcept override;
  Result<void> do_copy_on_device(std::uint64_t to, std::uint64_t from,
                                 std::size_t size) noexcept override;
  Result<void> do_advise(Block block, std::size_t offset, std::size_t size, Advice advice,
                         Location location) noexcept override;
  Result<void> do_prefetch(Block block, std::size_t offset, std::size_t size, Location location,
                           StreamRef stream) noexcept override;
  Result<std::size_t> do_trim(std::size_t keep_bytes) noexcept override;

  Ref<Backing> upstream_;
};

}  // namespace assay
