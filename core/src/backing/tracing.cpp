#include "assay/backing/tracing.hpp"

#include <algorithm>
#include <new>
#include <thread>

#include "live_blocks.hpp"

namespace assay {

/// The newest events of one thread.
struct Tracing::Ring {
  Ring(std::thread::id owner_id, std::uint32_t index, std::size_t capacity)
      : owner(owner_id), thread(index), events(capacity) {}

  std::mutex mutex;  // the thread's own but for a drain
  const std::thread::id owner;
  const std::uint32_t thread;
  std::vector<TraceEvent> events;
  std::size_t next = 0;   ///< where the next event goes
  std::size_t count = 0;  ///< how many are held
};

Ref<Tracing> Tracing::make(Ref<Backing> upstream, std::size_t events_per_thread) {
  ASSAY_CONTRACT(upstream, "tracing needs an upstream");
  ASSAY_CONTRACT(events_per_thread > 0, "tracing needs room for an event");
  return Ref<Tracing>::adopt(new Tracing(std::move(upstream), events_per_thread));
}

namespace {

std::uint64_t next_key() noexcept {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

Tracing::Tracing(Ref<Backing> upstream, std::size_t events_per_thread)
    : Adaptor(renamed("tracing", *upstream), upstream),
      events_per_thread_(events_per_thread),
      key_(next_key()),
      start_(std::chrono::steady_clock::now()) {}

Tracing::~Tracing() {
  const auto live = live_.total();
  detail::check_none_live(info().id, live.blocks, live.bytes);
}

Block Tracing::do_allocate(const Request& request, Error& error) noexcept {
  Node node = make_node();
  Block block;
  if (node.empty()) {
    error = Error::make(ErrorCode::out_of_memory, "allocate", info().id, request.size);
  } else {
    block = allocate_from(upstream(), request, error);
  }
  TraceEvent event = stamped(TraceOperation::allocate);
  event.init = request.init;
  event.outcome = block ? ErrorCode::none : error.code;
  event.stream = reinterpret_cast<std::uintptr_t>(request.stream.handle);
  event.id = next_id_.fetch_add(1, std::memory_order_relaxed);
  event.size = request.size;
  event.alignment = request.alignment;
  if (block) {
    live_.add(block.capacity);
    node.mapped().id = event.id;
    enter(block.address, std::move(node));
  }
  push(event);
  return block;
}

Freed Tracing::do_deallocate(Block block, const Release& release) noexcept {
  // Taken out first: once the upstream has the address back, it may be another thread's block.
  Node node = take_out(block.address);
  TraceEvent event = stamped(TraceOperation::free);
  event.id = node.empty() ? 0 : node.mapped().id;
  event.stream = reinterpret_cast<std::uintptr_t>(release.request.stream.handle);
  if (!node.empty()) live_.remove(block.capacity);
  const Freed freed = deallocate_to(upstream(), block, release);
  if (did_not_free(freed)) {
    event.outcome = ErrorCode::invalid_argument;
    if (!node.empty()) enter(block.address, std::move(node));
    if (freed == Freed::refused && event.id != 0) live_.add(block.capacity);
  }
  push(event);
  return freed;
}

Block Tracing::do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                         Error& error) noexcept {
  Node node = take_out(block.address);
  const Block resized = resize_in(upstream(), block, from, to, may_move, error);
  TraceEvent event = stamped(TraceOperation::resize);
  event.init = to.init;
  event.outcome = resized ? ErrorCode::none : error.code;
  event.stream = reinterpret_cast<std::uintptr_t>(to.stream.handle);
  event.id = node.empty() ? 0 : node.mapped().id;
  event.size = to.size;
  event.alignment = to.alignment;
  if (resized) live_.resize(block.capacity, resized.capacity);
  if (!node.empty()) enter(resized ? resized.address : block.address, std::move(node));
  push(event);
  return resized;
}

Result<void> Tracing::do_fill(Block block, std::size_t offset, std::size_t size,
                              std::byte value) noexcept {
  const auto filled = upstream().fill(block, offset, size, value);
  TraceEvent event = stamped(TraceOperation::fill);
  event.outcome = filled ? ErrorCode::none : filled.error().code;
  event.id = id_of(block.address);
  event.size = size;
  event.offset = offset;
  push(event);
  return filled;
}

Result<std::size_t> Tracing::do_trim(std::size_t keep_bytes) noexcept {
  const auto trimmed = upstream().trim(keep_bytes);
  TraceEvent event = stamped(TraceOperation::trim);
  event.outcome = trimmed ? ErrorCode::none : trimmed.error().code;
  event.size = keep_bytes;
  push(event);
  return trimmed;
}

// --- address records

Tracing::Shard& Tracing::shard_of(std::uint64_t address) noexcept {
  // Low bits are alignment; a multiplication spreads what is left over the top ones.
  return shards_[(address * 0x9e3779b97f4a7c15u) >> 60];
}

/// A record in a node of its own, so that entering it later cannot run out of memory.
Tracing::Node Tracing::make_node() noexcept {
  try {
    std::map<std::uint64_t, Record> maker;
    maker.emplace(0, Record{});
    return maker.extract(maker.begin());
  } catch (const std::bad_alloc&) {
    return {};
  }
}

void Tracing::enter(std::uint64_t address, Node node) noexcept {
  node.key() = address;
  Shard& shard = shard_of(address);
  const std::lock_guard lock(shard.mutex);
  auto refused = shard.blocks.insert(std::move(node));
  // A faulty upstream gave an address that is live: the newer block has it.
  if (!refused.inserted) refused.position->second = refused.node.mapped();
}

Tracing::Node Tracing::take_out(std::uint64_t address) noexcept {
  Shard& shard = shard_of(address);
  const std::lock_guard lock(shard.mutex);
  return shard.blocks.extract(address);
}

std::uint64_t Tracing::id_of(std::uint64_t address) noexcept {
  Shard& shard = shard_of(address);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.blocks.find(address);
  return found == shard.blocks.end() ? 0 : found->second.id;
}

// --- events

TraceEvent Tracing::stamped(TraceOperation operation) noexcept {
  TraceEvent event;
  event.sequence = next_sequence_.fetch_add(1, std::memory_order_relaxed);
  event.time_ns = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                                 std::chrono::steady_clock::now() - start_)
                                                 .count());
  event.operation = operation;
  return event;
}

/// The calling thread's ring, made at its first event; null if out of memory.
Tracing::Ring* Tracing::ring_of_this_thread() noexcept {
  struct Last {
    std::uint64_t key = 0;
    Ring* ring = nullptr;
  };
  thread_local Last last;
  if (last.key == key_) return last.ring;
  const std::lock_guard lock(rings_mutex_);
  const auto self = std::this_thread::get_id();
  for (const auto& ring : rings_) {
    if (ring->owner == self) {
      last = {key_, ring.get()};
      return last.ring;
    }
  }
  try {
    const auto index = static_cast<std::uint32_t>(rings_.size());
    rings_.push_back(std::make_unique<Ring>(self, index, events_per_thread_));
  } catch (const std::exception&) {  // bad_alloc, or length_error of a ring beyond all memory
    return nullptr;
  }
  last = {key_, rings_.back().get()};
  return last.ring;
}

void Tracing::push(TraceEvent event) noexcept {
  Ring* const ring = ring_of_this_thread();
  if (ring == nullptr) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  event.thread = ring->thread;
  const std::lock_guard lock(ring->mutex);
  ring->events[ring->next] = event;
  ring->next = (ring->next + 1) % ring->events.size();
  if (ring->count < ring->events.size()) {
    ++ring->count;
  } else {
    dropped_.fetch_add(1, std::memory_order_relaxed);
  }
}

Result<std::vector<TraceEvent>> Tracing::drain() {
  std::vector<TraceEvent> all;
  const std::lock_guard lock(rings_mutex_);
  std::vector<std::unique_lock<std::mutex>> ring_locks;
  try {
    std::size_t recorded = 0;
    for (const auto& ring : rings_) {
      ring_locks.emplace_back(ring->mutex);
      recorded += ring->count;
    }
    all.reserve(recorded);
  } catch (const std::exception&) {
    return Error::make(ErrorCode::out_of_memory, "drain", info().id);
  }
  for (const auto& ring : rings_) {
    const std::size_t size = ring->events.size();
    for (std::size_t i = 0; i < ring->count; ++i) {
      all.push_back(ring->events[(ring->next + size - ring->count + i) % size]);
    }
    ring->count = 0;
  }
  std::ranges::sort(all, {}, &TraceEvent::sequence);
  return all;
}

std::uint64_t Tracing::dropped() const noexcept {
  return dropped_.load(std::memory_order_relaxed);
}

}  // namespace assay
