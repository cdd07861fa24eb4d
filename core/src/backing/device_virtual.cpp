#include "assay/backing/device_virtual.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace assay {
namespace {

namespace abi = cuda::abi;

constexpr const char* id = "device_virtual";

SourceInfo virtual_info(int ordinal, std::size_t granularity) noexcept {
  return {.id = id,
          .capabilities = Capabilities::device_access | Capabilities::thread_safe |
                          Capabilities::resize_in_place | Capabilities::resize_moves |
                          Capabilities::moves_pages | Capabilities::detects_bad_free,
          .granularity = granularity,
          .natural_alignment = granularity & (~granularity + 1),
          .device = ordinal};
}

abi::AllocationProp prop_of(int ordinal) noexcept {
  abi::AllocationProp prop{};
  prop.type = abi::AllocationType::pinned;
  prop.location = {abi::LocationType::device, ordinal};
  return prop;
}

Error no_record(std::size_t size) noexcept {
  return Error::make(ErrorCode::out_of_memory, "record", id, size);
}

/// Room for so many pieces, so that none of them has to be allocated between two driver calls.
template <class Pieces>
bool make_room(Pieces& pieces, std::size_t count) noexcept {
  try {
    pieces.reserve(count);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace

Result<Ref<DeviceVirtual>> DeviceVirtual::make(Ref<cuda::PrimaryContext> context) noexcept {
  return make(std::move(context), Options{});
}

Result<Ref<DeviceVirtual>> DeviceVirtual::make(Ref<cuda::PrimaryContext> context,
                                               const Options& options) noexcept {
  if (!context->driver().has(cuda::Feature::virtual_memory) ||
      !context->facts().has(abi::DeviceAttribute::virtual_memory_management_supported)) {
    return Error::make(ErrorCode::not_supported, "virtual memory management", id);
  }
  const abi::AllocationProp prop = prop_of(context->ordinal());
  std::size_t granularity = 0;
  ASSAY_TRY(Ref<cuda::Stream> own, cuda::Stream::make(context));
  ASSAY_TRY(const cuda::Current current, cuda::Current::of(*context));
  ASSAY_TRY_VOID(context->check(context->table().cuMemGetAllocationGranularity(
                                    &granularity, &prop, abi::GranularityFlags::minimum),
                                "cuMemGetAllocationGranularity", id));
  if (granularity == 0 || options.piece_max > size_max - granularity) {
    return Error::make(ErrorCode::invalid_argument, "piece_max", id, options.piece_max);
  }
  const std::size_t piece_max =
      std::max<std::size_t>(1, (options.piece_max + granularity - 1) / granularity) * granularity;
  auto* const made =
      new (std::nothrow) DeviceVirtual(std::move(context), std::move(own), granularity, piece_max);
  if (made == nullptr) {
    return Error::make(ErrorCode::out_of_memory, "make", id, sizeof(DeviceVirtual));
  }
  return Ref<DeviceVirtual>::adopt(made);
}

DeviceVirtual::DeviceVirtual(Ref<cuda::PrimaryContext> context, Ref<cuda::Stream> own,
                             std::size_t granularity, std::size_t piece_max) noexcept
    : DeviceOnlyBacking(virtual_info(context->ordinal(), granularity), {}, context, std::move(own)),
      granularity_(granularity),
      piece_max_(piece_max) {}

DeviceVirtual::~DeviceVirtual() {
  end();
  const auto current = cuda::Current::of(context());
  if (!current) return;
  for (auto& [base, range] : limbo_) {
    if (drop(base, range, 0, Tries::two)) (void)free_addresses(base, range);
  }
}

std::size_t DeviceVirtual::rounded(std::size_t size) const noexcept {
  return (size + granularity_ - 1) / granularity_ * granularity_;  // check() left room
}

std::size_t DeviceVirtual::do_footprint(const Request& request) const noexcept {
  return rounded(request.size);
}

std::size_t DeviceVirtual::Range::bytes_of(std::size_t from, std::size_t to) const noexcept {
  std::size_t bytes = 0;
  for (std::size_t i = from; i < to; ++i) bytes += pieces[i].size;
  return bytes;
}

DeviceVirtual::Ranges::node_type DeviceVirtual::make_node(std::size_t pieces) noexcept {
  try {
    Ranges maker;
    maker.emplace(0, Range{}).first->second.pieces.reserve(pieces);
    return maker.extract(maker.begin());
  } catch (const std::bad_alloc&) {
    return {};
  }
}

DeviceVirtual::Range* DeviceVirtual::find(Address base) noexcept {
  const std::lock_guard lock(ranges_mutex_);
  const auto found = ranges_.find(base);
  return found == ranges_.end() ? nullptr : &found->second;
}

void DeviceVirtual::enter(Ranges::node_type node) noexcept {
  const std::lock_guard lock(ranges_mutex_);
  ranges_.insert(std::move(node));
}

DeviceVirtual::Ranges::node_type DeviceVirtual::take_out(Address base) noexcept {
  const std::lock_guard lock(ranges_mutex_);
  return ranges_.extract(base);
}

// --- a reservation

/// Addresses for the block and its growth. The node's key is the reservation then.
Result<void> DeviceVirtual::reserve(Ranges::node_type& node, const Request& request) noexcept {
  const std::size_t extent = rounded(std::max(request.size, request.reserve));
  const std::size_t alignment = std::max(request.alignment, info().natural_alignment);
  Address base = 0;
  ASSAY_TRY_VOID(
      check(table().cuMemAddressReserve(&base, extent, alignment, 0, 0), "cuMemAddressReserve"));
  if (!is_aligned(base, alignment)) {  // promised by the driver, never seen
    (void)free_addresses(base, Range{.extent = extent});
    return Error::make(ErrorCode::driver_error, "alignment of a reservation", id, alignment);
  }
  node.key() = base;
  node.mapped().extent = extent;
  return {};
}

/// **Post** false if addresses or handles stay behind.
bool DeviceVirtual::free_addresses(Address base, const Range& range) noexcept {
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (context().lost()) return false;
    if (check(table().cuMemAddressFree(base, range.extent), "cuMemAddressFree")) {
      return range.pieces.empty();
    }
  }
  return false;
}

/// What has no block and could not be given back; the end tries once more.
void DeviceVirtual::keep_for_the_end(Ranges::node_type node) noexcept {
  const std::lock_guard lock(ranges_mutex_);
  limbo_.insert(std::move(node));
}

/// Counts the memory of the pieces that no block has as lost. Returns what is new.
std::size_t DeviceVirtual::account(Range& range) noexcept {
  std::size_t now = 0;
  for (std::size_t i = range.ready; i < range.pieces.size(); ++i) {
    if (!range.pieces[i].shared) now += range.pieces[i].size;
  }
  const std::size_t before = std::exchange(range.lost, now);
  if (now > before) lose(now - before);
  if (now < before) regain(before - now);
  return now - std::min(now, before);
}

/// Undoes a reservation that no block has, after `error`; without `quiet` work may be under way
/// there, and nothing is unmapped.
Error DeviceVirtual::discard(Ranges::node_type node, Error error, bool quiet) noexcept {
  Range& range = node.mapped();
  const bool dropped = quiet && drop(node.key(), range, 0, Tries::two).has_value();
  range.ready = 0;
  error.lost = account(range);
  if (!dropped || !free_addresses(node.key(), range)) keep_for_the_end(std::move(node));
  return error;
}

/// Gives a handle back. **Post** 0, or what the driver did not take.
abi::AllocationHandle DeviceVirtual::take_back(abi::AllocationHandle handle) noexcept {
  for (int attempt = 0; attempt < 2 && !context().lost(); ++attempt) {
    if (check(table().cuMemRelease(handle), "cuMemRelease")) return 0;
  }
  return handle;
}

/// Maps physical memory behind the range's pieces. The handle is this function's from here on:
/// where the driver neither maps it nor takes it back, it becomes a piece that is not mapped.
/// **Pre** there is room for a piece.
Result<void> DeviceVirtual::map_piece(Address at, Range& range, std::size_t size,
                                      abi::AllocationHandle handle) noexcept {
  auto mapped = check(table().cuMemMap(at, size, 0, handle, 0), "cuMemMap");
  handle = take_back(handle);
  if (mapped || handle != 0)
    range.pieces.push_back(
        {.size = size, .mapped = mapped.has_value(), .shared = false, .handle = handle});
  return mapped;
}

Result<void> DeviceVirtual::create_piece(Address at, Range& range, std::size_t size) noexcept {
  const abi::AllocationProp prop = prop_of(context().ordinal());
  abi::AllocationHandle handle = 0;
  ASSAY_TRY_VOID(check(table().cuMemCreate(&handle, size, &prop, 0), "cuMemCreate"));
  return map_piece(at, range, size, handle);
}

/// Maps new pieces until `size` bytes are. **Pre** all pieces are mapped, and there is room.
Result<void> DeviceVirtual::map_to(Address base, Range& range, std::size_t size) noexcept {
  for (std::size_t have = range.bytes_of(0, range.pieces.size()); have < size;) {
    const std::size_t next = std::min(piece_max_, size - have);
    ASSAY_TRY_VOID(create_piece(base + have, range, next));
    have += next;
  }
  return {};
}

/// Maps the old range's pieces in the new one too.
Result<void> DeviceVirtual::map_again(Address from, const Range& old, Address to,
                                      Range& range) noexcept {
  std::size_t offset = 0;
  for (std::size_t i = 0; i < old.ready; ++i) {
    const std::size_t size = old.pieces[i].size;
    abi::AllocationHandle handle = 0;
    // Any address of a mapping gives its handle, with a reference of ours [hdr].
    ASSAY_TRY_VOID(
        check(table().cuMemRetainAllocationHandle(
                  &handle, reinterpret_cast<void*>(static_cast<std::uintptr_t>(from + offset))),
              "cuMemRetainAllocationHandle"));
    ASSAY_TRY_VOID(map_piece(to + offset, range, size, handle));
    offset += size;
  }
  return {};
}

/// Lets the device at the pieces that are not ready: a new mapping starts without access [hdr].
Result<void> DeviceVirtual::set_access(Address base, Range& range) noexcept {
  const abi::AccessDesc access{{abi::LocationType::device, context().ordinal()},
                               abi::AccessFlags::read_write};
  const std::size_t before = range.bytes_of(0, range.ready);
  const std::size_t size = range.bytes_of(range.ready, range.pieces.size());
  ASSAY_TRY_VOID(check(table().cuMemSetAccess(base + before, size, &access, 1), "cuMemSetAccess"));
  range.ready = range.pieces.size();
  return {};
}

/// Unmaps the pieces beyond the first `keep`, in one call, and releases what handles they have. On
/// error nothing has changed. **Post** pieces beyond `keep` are handles that the driver did not
/// take.
/// **Pre** nothing is under way on them.
Result<void> DeviceVirtual::drop(Address base, Range& range, std::size_t keep,
                                 Tries tries) noexcept {
  std::size_t mapped = 0;
  for (std::size_t i = keep; i < range.pieces.size(); ++i) {
    if (range.pieces[i].mapped) mapped += range.pieces[i].size;
  }
  if (mapped != 0) {
    const Address at = base + range.bytes_of(0, keep);
    auto unmapped = check(table().cuMemUnmap(at, mapped), "cuMemUnmap");
    if (!unmapped && tries == Tries::two && !context().lost()) {
      unmapped = check(table().cuMemUnmap(at, mapped), "cuMemUnmap");
    }
    if (!unmapped) return unmapped;
  }
  range.ready = std::min(range.ready, keep);
  const auto beyond = range.pieces.begin() + static_cast<std::ptrdiff_t>(keep);
  const auto gone = std::remove_if(beyond, range.pieces.end(), [&](Piece& piece) {
    piece.mapped = false;
    if (piece.handle != 0) piece.handle = take_back(piece.handle);
    return piece.handle == 0;
  });
  range.pieces.erase(gone, range.pieces.end());
  return {};
}

// --- blocks

Result<DeviceVirtual::Address> DeviceVirtual::native_allocate(const Request& request,
                                                              std::size_t size) noexcept {
  ASSAY_TRY_VOID(may_exist(size));
  auto node = make_node(size / piece_max_ + 1);
  if (node.empty()) return no_record(size);
  ASSAY_TRY_VOID(reserve(node, request));
  const Address base = node.key();
  Range& range = node.mapped();
  auto mapped = map_to(base, range, size);
  if (mapped) mapped = set_access(base, range);
  if (!mapped) return discard(std::move(node), mapped.error(), true);
  enter(std::move(node));
  return base;
}

/// Is there so much memory at all? Spares the driver thousands of pieces until it says no.
Result<void> DeviceVirtual::may_exist(std::size_t size) noexcept {
  if (size <= context().facts().total_bytes) return {};
  return Error::make(ErrorCode::out_of_memory, "physical memory", id, size);
}

Result<void> DeviceVirtual::native_free(Address base, std::size_t, abi::Stream) noexcept {
  Range* const range = find(base);
  if (range == nullptr) return {};  // never seen
  ASSAY_TRY_VOID(drop(base, *range, 0, Tries::one));
  if (!range->pieces.empty()) {
    return Error::make(ErrorCode::driver_error, "cuMemRelease",
                       id);  // held, and counted, as before
  }
  regain(range->lost);
  auto node = take_out(base);
  // The memory is free; addresses are plenty, and offered once more at the end.
  if (!free_addresses(base, node.mapped())) keep_for_the_end(std::move(node));
  return {};
}

Block DeviceVirtual::do_resize(Block block, const Request& from, const Request& to,
                               MayMove may_move, Error& error) noexcept {
  Range* const range = is_live(block) ? find(block.address) : nullptr;
  if (range == nullptr) {
    error = Error::make(ErrorCode::invalid_argument, "resize", id, to.size);
    return {};
  }
  const std::size_t wanted = rounded(to.size);
  if (wanted > range->extent && may_move == MayMove::no) {
    error = Error::make(ErrorCode::not_supported, "resize in place", id, to.size);
    error.limit = range->extent;
    return {};
  }
  const auto resized = [&]() -> Result<Block> {
    ASSAY_TRY(const cuda::Current current, cuda::Current::of(context()));
    ASSAY_TRY_VOID(may_exist(wanted));
    if (wanted <= block.capacity) {
      ASSAY_TRY_VOID(zero_new(block, block.address, from, to));
      return shrink(block, *range, to);
    }
    return wanted <= range->extent ? grow(block, *range, from, to) : move(block, *range, from, to);
  }();
  if (resized) return resized.value();
  error = refusal(resized.error(), to);
  return {};
}

/// Zeroes what comes into use, at `target`, where the block lies or will lie.
Result<void> DeviceVirtual::zero_new(Block block, Address target, const Request& from,
                                     const Request& to) noexcept {
  if (to.init != Init::zero || to.size <= from.size) return {};
  const Queue queue = queue_for(block.address);
  return set_bytes(target + from.size, to.size - from.size, std::byte{0}, queue);
}

/// Gives the whole pieces beyond the new size back.
Result<Block> DeviceVirtual::shrink(Block block, Range& range, const Request& to) noexcept {
  std::size_t keep = 0;
  std::size_t capacity = 0;
  while (capacity < to.size) capacity += range.pieces[keep++].size;
  if (keep >= range.ready) return block;
  ASSAY_TRY_VOID(wait_for_block(block.address));
  ASSAY_TRY_VOID(drop(block.address, range, keep, Tries::one));
  (void)account(range);
  const Block smaller{block.address, capacity};
  change(block.address, smaller);
  return smaller;
}

/// After `error`: the range has its first `ready` pieces again, or the others are lost.
Error DeviceVirtual::undo_growth(Address base, Range& range, std::size_t ready, Error error,
                                 bool quiet) noexcept {
  if (quiet) (void)drop(base, range, ready, Tries::two).has_value();
  range.ready = ready;
  error.lost = account(range);
  return error;
}

/// Maps more pieces within the reservation.
Result<Block> DeviceVirtual::grow(Block block, Range& range, const Request& from,
                                  const Request& to) noexcept {
  const std::size_t ready = range.ready;
  if (range.pieces.size() != ready) {  // of a growth that was not undone
    ASSAY_TRY_VOID(drop(block.address, range, ready, Tries::one));
    (void)account(range);
    if (range.pieces.size() != ready) {
      return Error::make(ErrorCode::driver_error, "cuMemRelease", id, to.size);
    }
  }
  const std::size_t wanted = rounded(to.size);
  if (!make_room(range.pieces, ready + (wanted - block.capacity) / piece_max_ + 1)) {
    return no_record(to.size);
  }
  auto done = map_to(block.address, range, wanted);
  if (done) done = set_access(block.address, range);
  if (!done) return undo_growth(block.address, range, ready, done.error(), true);
  done = zero_new(block, block.address, from, to);
  // The zeroing may be under way: what cannot be waited for is not unmapped.
  if (!done) {
    const bool quiet = wait_for_all().has_value();
    return undo_growth(block.address, range, ready, done.error(), quiet);
  }
  const Block grown{block.address, wanted};
  change(block.address, grown);
  return grown;
}

/// Maps the same pieces, and what comes in addition, in a larger reservation.
Result<Block> DeviceVirtual::move(Block block, Range& old, const Request& from,
                                  const Request& to) noexcept {
  const std::size_t wanted = rounded(to.size);
  auto node = make_node(old.ready + (wanted - block.capacity) / piece_max_ + 1);
  if (node.empty()) return no_record(to.size);
  ASSAY_TRY_VOID(reserve(node, to));
  const Address base = node.key();
  Range& range = node.mapped();
  auto done = map_again(block.address, old, base, range);
  for (Piece& piece : range.pieces) piece.shared = true;  // so far it is the old block's memory
  if (done) done = map_to(base, range, wanted);
  if (done) done = set_access(base, range);
  if (!done) return discard(std::move(node), done.error(), true);
  done = zero_new(block, base, from, to);
  if (done) done = wait_for_block(block.address);
  // The old mappings go; should they stay, the block does too.
  if (done) done = drop(block.address, old, 0, Tries::one);
  if (!done) {
    const bool quiet = wait_for_all().has_value();
    return discard(std::move(node), done.error(), quiet);
  }
  auto gone = take_out(block.address);
  (void)account(gone.mapped());
  for (Piece& piece : range.pieces) piece.shared = false;
  enter(std::move(node));
  const Block moved{base, wanted};
  change(block.address, moved);
  if (!free_addresses(block.address, gone.mapped())) keep_for_the_end(std::move(gone));
  return moved;
}

}  // namespace assay
