#include "assay/backing/driver_backing.hpp"

#include <algorithm>
#include <new>

#include "live_blocks.hpp"

namespace assay {

using cuda::abi::Status;

DriverBacking::DriverBacking(const SourceInfo& info, Free free, Ref<cuda::PrimaryContext> context,
                             Ref<cuda::Stream> own) noexcept
    : Backing(info), context_(std::move(context)), own_(std::move(own)), free_(free) {}

DriverBacking::~DriverBacking() {
  end();
}

void DriverBacking::end() noexcept {
  detail::check_none_live(info().id, live_.size(), live_bytes_);
  for (auto& [address, record] : withheld_) {
    record.stream = {};  // it may be gone by now
    record.other_streams = true;
    // What still cannot be freed goes with the context; there is nobody left to tell.
    (void)release_native(record).has_value();
  }
  withheld_.clear();
}

DriverBacking::Incidents DriverBacking::incidents() const noexcept {
  const std::lock_guard lock(mutex_);
  return {failed_frees_, held_bytes_};
}

std::size_t DriverBacking::do_footprint(const Request& request) const noexcept {
  return align_up(std::max(request.size, request.reserve), info().granularity);
}

std::size_t DriverBacking::padding_of(const Request& request) const noexcept {
  const std::size_t alignment = std::max(request.alignment, info().natural_alignment);
  const bool natural =
      alignment == info().natural_alignment && !pads_natural_.load(std::memory_order_relaxed);
  return natural ? 0 : alignment;
}

std::size_t DriverBacking::do_charge(const Request& request) const noexcept {
  return do_footprint(request) + padding_of(request);
}

std::size_t DriverBacking::do_held_by(Block block) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(block.address);
  return found == live_.end() ? block.capacity : found->second.held;
}

Usage DriverBacking::do_usage() const noexcept {
  const std::lock_guard lock(mutex_);
  return {live_.size(), live_bytes_, live_held_ + held_bytes_};
}

DriverBacking::Records::node_type DriverBacking::make_node() noexcept {
  try {
    Records maker;
    maker.emplace(0, Record{});
    return maker.extract(maker.begin());
  } catch (const std::bad_alloc&) {
    return {};
  }
}

void DriverBacking::enter(Records::node_type node) noexcept {
  const std::lock_guard lock(mutex_);
  live_bytes_ += node.mapped().capacity;
  live_held_ += node.mapped().held;
  live_.insert(std::move(node));
}

/// Out of the table before the driver may give the address to another thread.
DriverBacking::Records::node_type DriverBacking::take_out(Address address) noexcept {
  const std::lock_guard lock(mutex_);
  auto node = live_.extract(address);
  if (node.empty()) return node;
  live_bytes_ -= node.mapped().capacity;
  live_held_ -= node.mapped().held;
  return node;
}

// --- streams

DriverBacking::Queue DriverBacking::queue_for(Address address, StreamRef chosen) noexcept {
  const std::lock_guard lock(mutex_);
  auto after = live_.upper_bound(address);
  if (after != live_.begin()) {
    Record& record = std::prev(after)->second;
    if (chosen.handle != nullptr && !(chosen == record.stream)) record.other_streams = true;
    if (chosen.handle == nullptr) chosen = record.stream;
  }
  return queue_of(chosen);
}

Result<void> DriverBacking::finish(const Queue& queue) noexcept {
  return queue.wait ? wait_for(queue.stream) : Result<void>();
}

/// Also where waiting for the stream fails nothing is under way afterwards, if the driver can be
/// waited for at all: the host side of a copy goes back to its owner.
Result<void> DriverBacking::wait_for(cuda::abi::Stream stream) noexcept {
  auto waited = check(table().cuStreamSynchronize(stream), "cuStreamSynchronize");
  if (!waited) (void)wait_for_all().has_value();
  return waited;
}

Result<void> DriverBacking::wait_for_all() noexcept {
  const auto wait = [&] { return check(table().cuCtxSynchronize(), "cuCtxSynchronize"); };
  auto waited = wait();
  if (!waited && !context_->lost()) waited = wait();  // what failed once for a passing reason
  return waited;
}

Result<void> DriverBacking::wait_for_block(Address address) noexcept {
  const Queue queue = queue_for(address);
  if (queue.wait) return {};
  ASSAY_TRY(const cuda::Current current, cuda::Current::of(*context_));
  return wait_for(queue.stream);
}

Result<void> DriverBacking::set_bytes(Address address, std::size_t size, std::byte value,
                                      const Queue& queue) noexcept {
  const auto byte = std::to_integer<unsigned char>(value);
  ASSAY_TRY_VOID(
      check(table().cuMemsetD8Async(address, byte, size, queue.stream), "cuMemsetD8Async"));
  return finish(queue);
}

// --- one allocation of the driver

Result<void> DriverBacking::obtain_padded(const Request& request, std::size_t padding,
                                          Address& address, Record& record) noexcept {
  record.held = record.capacity + padding;  // checked: Backing::check left room for both
  ASSAY_TRY(record.base, native_allocate(request, record.held));
  const std::size_t alignment = std::max(request.alignment, info().natural_alignment);
  address = align_up(record.base, alignment);
  return {};
}

/// An allocation that holds an aligned block. The natural alignment is not promised by the driver,
/// only seen: where it does not hold, the block is padded as a larger alignment is.
Result<void> DriverBacking::obtain(const Request& request, Address& address,
                                   Record& record) noexcept {
  ASSAY_TRY_VOID(obtain_padded(request, padding_of(request), address, record));
  if (address + record.capacity <= record.base + record.held) return {};
  pads_natural_.store(true, std::memory_order_relaxed);
  ASSAY_TRY_VOID(give_back(record));
  return obtain_padded(request, padding_of(request), address, record);
}

/// Frees what no caller has seen; what cannot be freed is kept.
Result<void> DriverBacking::give_back(const Record& record) noexcept {
  auto released = release_native(record);
  if (released) return released;
  auto node = make_node();  // without one (never seen) the bytes are lost, and still counted
  if (!node.empty()) {
    node.key() = record.base;
    node.mapped() = record;
  }
  keep(std::move(node), record.held);
  Error error = released.error();
  error.lost = record.held;
  return error;
}

/// **Pre** no other thread can reach the block.
Result<void> DriverBacking::release_native(const Record& record) noexcept {
  ASSAY_TRY(const cuda::Current current, cuda::Current::of(*context_));
  if (free_.in_order) {
    if (record.other_streams) ASSAY_TRY_VOID(wait_for_all());
    return native_free(record.base, record.held, queue_of(record.stream).stream);
  }
  // cuMemFree usually waits for the device, but may not be relied on to [hdr]: what cannot be
  // waited for is not freed.
  bool quiet = !record.other_streams;
  if (quiet && record.stream.handle != nullptr) {
    const auto stream = static_cast<cuda::abi::Stream>(record.stream.handle);
    quiet = check(table().cuStreamSynchronize(stream), "cuStreamSynchronize").has_value();
  }
  if (!quiet) ASSAY_TRY_VOID(wait_for_all());
  return native_free(record.base, record.held, nullptr);
}

Result<void> DriverBacking::native_free(Address base, std::size_t, cuda::abi::Stream) noexcept {
  return check(free_.call(table(), base), free_.name);
}

Result<void> DriverBacking::make_ready(Address base, Address address, std::size_t size,
                                       const Request& request) noexcept {
  return request.init == Init::zero ? zero_fresh(base, address, size, request) : Result<void>();
}

void DriverBacking::keep(Records::node_type node, std::size_t held) noexcept {
  const std::lock_guard lock(mutex_);
  ++failed_frees_;
  held_bytes_ += held;
  if (!node.empty()) withheld_.insert(std::move(node));
}

void DriverBacking::regain(std::size_t held) noexcept {
  const std::lock_guard lock(mutex_);
  held_bytes_ -= held;
}

Error DriverBacking::refusal(Error error, const Request& request) noexcept {
  error.backing = info().id;
  error.requested = request.size;
  {
    const std::lock_guard lock(mutex_);
    error.in_use = live_bytes_;
  }
  if (error.code == ErrorCode::out_of_memory) add_limits(error);
  return error;
}

void DriverBacking::add_limits(Error& error) noexcept {
  const auto current = cuda::Current::of(*context_);
  std::size_t free = 0;
  std::size_t total = 0;
  if (current && table().cuMemGetInfo_v2(&free, &total) == Status::success) {
    error.limit = total;
    error.largest_free = free;
  }
}

// --- the backing

bool DriverBacking::is_live(Block block) const noexcept {
  const std::lock_guard lock(mutex_);
  return live_.contains(block.address);
}

Block DriverBacking::do_allocate(const Request& request, Error& error) noexcept {
  auto node = make_node();
  if (node.empty()) {
    error = Error::make(ErrorCode::out_of_memory, "record", info().id, request.size);
    return {};
  }
  const auto current = cuda::Current::of(*context_);
  if (!current) {
    error = refusal(current.error(), request);
    return {};
  }
  Record& record = node.mapped();
  record.capacity = do_footprint(request);
  record.stream = request.stream;
  Address address = 0;
  if (const auto obtained = obtain(request, address, record); !obtained) {
    error = refusal(obtained.error(), request);
    return {};
  }
  node.key() = address;
  const std::size_t capacity = record.capacity;
  if (const auto ready = make_ready(record.base, address, capacity, request); !ready) {
    error = refusal(ready.error(), request);
    record.other_streams = true;  // the zeroing may be under way
    if (!release_native(record)) {
      error.lost = record.held;
      keep(std::move(node), error.lost);
    }
    return {};
  }
  enter(std::move(node));
  return {address, capacity};
}

Freed DriverBacking::do_deallocate(Block block, const Release& release) noexcept {
  auto node = take_out(block.address);
  if (node.empty()) return Freed::refused;
  if (free_.in_order) follow(node.mapped(), release.request.stream);
  if (release_native(node.mapped())) return Freed::now;
  const std::size_t held = node.mapped().held;
  keep(std::move(node), held);
  return Freed::failed;
}

/// A free on another stream than the block's own comes behind the work of both.
void DriverBacking::follow(Record& record, StreamRef stream) noexcept {
  if (stream.handle == nullptr || stream == record.stream) return;
  if (record.stream.handle != nullptr) {
    const auto current = cuda::Current::of(*context_);
    const auto own = static_cast<cuda::abi::Stream>(record.stream.handle);
    record.other_streams = record.other_streams || !current || !wait_for(own);
  }
  record.stream = stream;
}

void DriverBacking::change(Address from, Block to) noexcept {
  const std::lock_guard lock(mutex_);
  auto node = live_.extract(from);
  if (node.empty()) return;
  Record& record = node.mapped();
  live_bytes_ += to.capacity - record.capacity;
  live_held_ += to.capacity - record.held;
  record.base = to.address;
  record.capacity = to.capacity;
  record.held = to.capacity;
  node.key() = to.address;
  live_.insert(std::move(node));
}

Block DriverBacking::do_resize(Block block, const Request& from, const Request& to,
                               MayMove may_move, Error& error) noexcept {
  const auto zero_new = [&](Block target) -> Result<void> {
    if (to.init != Init::zero || to.size <= from.size) return {};
    return fill(target, from.size, to.size - from.size, std::byte{0});
  };
  if (!is_live(block)) {
    error = Error::make(ErrorCode::invalid_argument, "resize", info().id, to.size);
    return {};
  }
  if (to.size <= block.capacity) {
    const auto zeroed = zero_new(block);
    if (zeroed) return block;
    error = zeroed.error();
    return {};
  }
  if (may_move == MayMove::no) {
    error = Error::make(ErrorCode::not_supported, "resize in place", info().id, to.size);
    error.limit = block.capacity;
    return {};
  }
  Request larger = to;
  larger.init = Init::undefined;
  const Block moved = do_allocate(larger, error);
  if (!moved) return {};
  auto done = copy_between(moved, 0, *this, block, 0, from.size);
  if (done) done = zero_new(moved);
  if (done) done = release_old(block);
  if (done) return moved;
  // Undone as a whole. What of that fails is lost, and the caller hears of it.
  error = done.error();
  const std::size_t held = do_held_by(moved);
  if (did_not_free(do_deallocate(moved, Release{larger, false}))) error.lost = held;
  return {};
}

/// Frees the block that a move has left; one that cannot be freed is live as before.
Result<void> DriverBacking::release_old(Block block) noexcept {
  auto node = take_out(block.address);
  if (node.empty()) return {};  // freed meanwhile, by a caller that must not
  auto released = release_native(node.mapped());
  if (!released) enter(std::move(node));
  return released;
}

// --- bytes out of the host's reach

Result<void> DeviceOnlyBacking::zero_fresh(Address, Address address, std::size_t size,
                                           const Request& request) noexcept {
  return set_bytes(address, size, std::byte{0}, queue_of(request.stream));
}

Result<void> DeviceOnlyBacking::do_copy_in(Block block, std::size_t offset,
                                           std::span<const std::byte> from) noexcept {
  const Address address = block.address + offset;
  Queue queue = queue_for(address);
  queue.wait = true;  // the source is the caller's
  ASSAY_TRY(const cuda::Current current, cuda::Current::of(context()));
  ASSAY_TRY_VOID(
      check(table().cuMemcpyHtoDAsync_v2(address, from.data(), from.size(), queue.stream),
            "cuMemcpyHtoDAsync"));
  return finish(queue);
}

Result<void> DeviceOnlyBacking::do_copy_out(Block block, std::size_t offset,
                                            std::span<std::byte> to) noexcept {
  const Address address = block.address + offset;
  Queue queue = queue_for(address);
  queue.wait = true;
  ASSAY_TRY(const cuda::Current current, cuda::Current::of(context()));
  ASSAY_TRY_VOID(check(table().cuMemcpyDtoHAsync_v2(to.data(), address, to.size(), queue.stream),
                       "cuMemcpyDtoHAsync"));
  return finish(queue);
}

Result<void> DeviceOnlyBacking::do_fill(Block block, std::size_t offset, std::size_t size,
                                        std::byte value) noexcept {
  const Address address = block.address + offset;
  ASSAY_TRY(const cuda::Current current, cuda::Current::of(context()));
  return set_bytes(address, size, value, queue_for(address));
}

Result<void> DeviceOnlyBacking::do_copy_on_device(std::uint64_t to, std::uint64_t from,
                                                  std::size_t size) noexcept {
  // On a stream of its own: both blocks are settled, and the source may be another backing's.
  const Queue queue = own_queue();
  ASSAY_TRY(const cuda::Current current, cuda::Current::of(context()));
  ASSAY_TRY_VOID(
      check(table().cuMemcpyDtoDAsync_v2(to, from, size, queue.stream), "cuMemcpyDtoDAsync"));
  return finish(queue);
}

// --- host access

Result<void> HostReachableBacking::do_copy_in(Block block, std::size_t offset,
                                              std::span<const std::byte> from) noexcept {
  ASSAY_TRY_VOID(wait_for_block(block.address));
  return Source::do_copy_in(block, offset, from);
}

Result<void> HostReachableBacking::do_copy_out(Block block, std::size_t offset,
                                               std::span<std::byte> to) noexcept {
  ASSAY_TRY_VOID(wait_for_block(block.address));
  return Source::do_copy_out(block, offset, to);
}

Result<void> HostReachableBacking::do_fill(Block block, std::size_t offset, std::size_t size,
                                           std::byte value) noexcept {
  ASSAY_TRY_VOID(wait_for_block(block.address));
  return Source::do_fill(block, offset, size, value);
}

}  // namespace assay
