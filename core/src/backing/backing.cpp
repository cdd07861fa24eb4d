#include "assay/backing/backing.hpp"

namespace assay {
namespace {

Error refused(ErrorCode code, const char* feature, const Source& source,
              std::uint64_t requested) noexcept {
  return Error::make(code, feature, source.info().id, requested);
}

}  // namespace

Error Backing::check(const Request& request) const noexcept {
  if (passes(request)) return {};
  if (request.size == 0) return refused(ErrorCode::zero_size, "allocate", *this, 0);
  if (!is_alignment(request.alignment)) {
    return refused(ErrorCode::invalid_alignment, "allocate", *this, request.alignment);
  }
  const std::size_t wanted = request.size > request.reserve ? request.size : request.reserve;
  Error error = refused(ErrorCode::too_large, "allocate", *this, wanted);
  error.limit = size_max - request.alignment - rounding_max;
  return error;
}

Result<Block> Backing::resize(Block block, const Request& from, const Request& to,
                              MayMove may_move) noexcept {
  ASSAY_CONTRACT(block.address != 0, "resize of no block");
  if (const Error bad = check(to); bad.code != ErrorCode::none) return bad;
  if (to.alignment != from.alignment) {
    return refused(ErrorCode::invalid_alignment, "resize", *this, to.alignment);
  }
  Error error;
  const Block resized = do_resize(block, from, to, may_move, error);
  if (!resized) return error;
  return resized;
}

Result<void> Backing::advise(Block block, std::size_t offset, std::size_t size, Advice advice,
                             Location location) noexcept {
  if (offset > block.capacity || size > block.capacity - offset) {
    return refused(ErrorCode::out_of_range, "advise", *this, size);
  }
  return do_advise(block, offset, size, advice, location);
}

Result<void> Backing::prefetch(Block block, std::size_t offset, std::size_t size, Location location,
                               StreamRef stream) noexcept {
  if (offset > block.capacity || size > block.capacity - offset) {
    return refused(ErrorCode::out_of_range, "prefetch", *this, size);
  }
  return do_prefetch(block, offset, size, location, stream);
}

Result<std::size_t> Backing::trim(std::size_t keep_bytes) noexcept {
  return do_trim(keep_bytes);
}

Block Backing::do_resize(Block, const Request&, const Request& to, MayMove, Error& error) noexcept {
  error = refused(ErrorCode::not_supported, "resize", *this, to.size);
  return {};
}

Result<void> Backing::do_advise(Block, std::size_t, std::size_t size, Advice, Location) noexcept {
  return refused(ErrorCode::not_supported, "advise", *this, size);
}

Result<void> Backing::do_prefetch(Block, std::size_t, std::size_t size, Location,
                                  StreamRef) noexcept {
  return refused(ErrorCode::not_supported, "prefetch", *this, size);
}

Result<std::size_t> Backing::do_trim(std::size_t) noexcept {
  return refused(ErrorCode::not_supported, "trim", *this, 0);
}

SourceInfo Adaptor::renamed(const char* id, const Backing& upstream) noexcept {
  SourceInfo info = upstream.info();
  info.id = id;
  info.capabilities = info.capabilities.bits() | Capabilities::upstream;
  return info;
}

Block Adaptor::do_allocate(const Request& request, Error& error) noexcept {
  return allocate_from(*upstream_, request, error);
}

Freed Adaptor::do_deallocate(Block block, const Release& release) noexcept {
  return deallocate_to(*upstream_, block, release);
}

std::size_t Adaptor::do_footprint(const Request& request) const noexcept {
  return upstream_->footprint(request);
}

std::size_t Adaptor::do_charge(const Request& request) const noexcept {
  return upstream_->charge(request);
}

std::size_t Adaptor::do_held_by(Block block) const noexcept {
  return upstream_->held_by(block);
}

Usage Adaptor::do_usage() const noexcept {
  return upstream_->usage();
}

Block Adaptor::do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                         Error& error) noexcept {
  return resize_in(*upstream_, block, from, to, may_move, error);
}

Result<void> Adaptor::do_copy_in(Block block, std::size_t offset,
                                 std::span<const std::byte> from) noexcept {
  return upstream_->copy_in(block, offset, from);
}

Result<void> Adaptor::do_copy_out(Block block, std::size_t offset,
                                  std::span<std::byte> to) noexcept {
  return upstream_->copy_out(block, offset, to);
}

Result<void> Adaptor::do_fill(Block block, std::size_t offset, std::size_t size,
                              std::byte value) noexcept {
  return upstream_->fill(block, offset, size, value);
}

Result<void> Adaptor::do_settle(Block block) noexcept {
  return settle_in(*upstream_, block);
}

Result<void> Adaptor::do_copy_on_device(std::uint64_t to, std::uint64_t from,
                                        std::size_t size) noexcept {
  return copy_on_device_of(*upstream_, to, from, size);
}

Result<void> Adaptor::do_advise(Block block, std::size_t offset, std::size_t size, Advice advice,
                                Location location) noexcept {
  return upstream_->advise(block, offset, size, advice, location);
}

Result<void> Adaptor::do_prefetch(Block block, std::size_t offset, std::size_t size,
                                  Location location, StreamRef stream) noexcept {
  return upstream_->prefetch(block, offset, size, location, stream);
}

Result<std::size_t> Adaptor::do_trim(std::size_t keep_bytes) noexcept {
  return upstream_->trim(keep_bytes);
}

}  // namespace assay
