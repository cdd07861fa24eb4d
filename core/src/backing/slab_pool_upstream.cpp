// The half of slab_pool that calls its upstream. No lock is held while it does.
#include <algorithm>
#include <cstring>

#include "assay/backing/slab_pool.hpp"
#include "slab_chunk.hpp"

namespace assay {

using detail::SlabChunk;

namespace {

void* pointer_to(std::uint64_t address) noexcept {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

Error no_record(std::size_t requested) noexcept {
  return Error::make(ErrorCode::out_of_memory, "allocate", "slab_pool", requested);
}

}  // namespace

/// Fills in the chunk's block by its request, and enters it in the table. Success leaves the pool
/// locked, so that nobody takes the new chunk for a free one before it is used.
bool SlabPool::obtain(SlabChunk* chunk, Lock& lock, Error& error) noexcept {
  lock.lock();
  ++figures_.upstream_allocations;
  const bool admitted = table_.admit();
  lock.unlock();
  if (!admitted) {
    error = no_record(chunk->request.size);
    return false;
  }
  chunk->block = allocate_from(upstream(), chunk->request, error);
  lock.lock();
  if (!chunk->block) {
    table_.dismiss();
    lock.unlock();
    return false;
  }
  reserved_bytes_ += chunk->block.capacity;
  table_.insert(chunk);
  return true;
}

/// As obtain; a refusal empties the cache and asks once more. Without success the record is gone.
bool SlabPool::obtain_or_trim(SlabChunk* chunk, Lock& lock, Error& error) noexcept {
  if (obtain(chunk, lock, error)) return true;
  lock.lock();
  SlabChunk* const surplus = unlink_free_chunks(0);
  lock.unlock();
  if (give_back_all(surplus) != 0 && obtain(chunk, lock, error)) return true;
  SlabChunk::destroy(chunk);
  return false;
}

/// Gets a chunk of the class and takes its first slot. Without a chunk, `error` says why.
SlabPool::Slot SlabPool::grow(std::size_t class_index, const Request& request,
                              Error& error) noexcept {
  const std::size_t size = detail::slab_class_size(class_index);
  const bool shared = size <= detail::slab_shared_max;
  SlabChunk* const chunk = SlabChunk::make(shared ? detail::slab_chunk_size / size : 1);
  if (chunk == nullptr) {
    error = no_record(request.size);
    return {};
  }
  chunk->class_index = class_index;
  chunk->slot_size = size;
  // Zero is asked for where it costs no pass over the chunk.
  chunk->rest_zero = upstream().can(Capabilities::zeroed_fresh);
  chunk->request = {.size = shared ? detail::slab_chunk_size : size,
                    .alignment = page_,
                    .init = chunk->rest_zero ? Init::zero : Init::undefined};
  Lock lock(mutex_, std::defer_lock);
  if (!obtain_or_trim(chunk, lock, error)) return {};
  list(chunk);
  figures_.cached_bytes += chunk->block.capacity;
  ++live_blocks_;
  live_bytes_ += align_up(request.size, detail::slab_granularity);
  return take_from(chunk, request.init == Init::zero);
}

/// A block of the upstream's own, recorded so that its free is known to be one.
Block SlabPool::allocate_direct(const Request& request, const Request& passed_on,
                                Error& error) noexcept {
  SlabChunk* const chunk = SlabChunk::make(1);
  if (chunk == nullptr) {
    error = no_record(request.size);
    return {};
  }
  chunk->direct = true;
  chunk->live = 1;
  chunk->request = passed_on;
  chunk->flags()[0] = SlabChunk::live_flag;
  chunk->slot_size = size_max;  // whatever the capacity turns out to be, it is one slot
  Lock lock(mutex_, std::defer_lock);
  if (!obtain_or_trim(chunk, lock, error)) {
    describe_refusal(request, error);
    return {};
  }
  // The footprint was promised: the exact fallback may have got a little more than that.
  const std::size_t capacity =
      is_direct(request) ? chunk->block.capacity : align_up(request.size, detail::slab_granularity);
  ++live_blocks_;
  live_bytes_ += capacity;
  return {chunk->block.address, capacity};
}

/// Tells what a caller can act on: what was asked of the pool, and what its own cache could serve.
void SlabPool::describe_refusal(const Request& request, Error& error) const noexcept {
  error.requested = request.size;
  const Lock lock(mutex_);
  for (std::size_t i = class_count; i-- > 0;) {
    if (with_room_[i] == nullptr) continue;
    error.largest_free = std::max<std::uint64_t>(error.largest_free, detail::slab_class_size(i));
    break;
  }
  if (error.in_use == 0) error.in_use = reserved_bytes_;
}

/// **Pre** the chunk is out of the table. Its record is destroyed.
Freed SlabPool::give_back(SlabChunk* chunk, bool known_zero) noexcept {
  const Block block = chunk->block;
  const Freed freed = deallocate_to(upstream(), block, Release{chunk->request, known_zero});
  SlabChunk::destroy(chunk);
  const Lock lock(mutex_);
  ++figures_.upstream_frees;
  if (did_not_free(freed)) {
    ++figures_.failed_frees;
    figures_.failed_bytes += block.capacity;
  } else {
    reserved_bytes_ -= block.capacity;
  }
  return freed;
}

/// Returns the bytes that went back.
std::size_t SlabPool::give_back_all(SlabChunk* first) noexcept {
  std::size_t given_back = 0;
  while (first != nullptr) {
    SlabChunk* const chunk = first;
    first = chunk->next;
    const std::size_t size = chunk->block.capacity;
    if (!did_not_free(give_back(chunk, chunk->reads_zero()))) given_back += size;
  }
  return given_back;
}

bool SlabPool::zero_slot(const Slot& slot, Error& error) noexcept {
  return zero_range({slot.address, slot.size}, 0, slot.size, error);
}

bool SlabPool::zero_range(Block block, std::size_t from, std::size_t to, Error& error) noexcept {
  if (from >= to) return true;
  // What a device reaches too may have work of a stream on it, which the upstream waits for.
  if (can(Capabilities::host_access) && !can(Capabilities::device_access)) {
    std::memset(static_cast<std::byte*>(pointer_to(block.address)) + from, 0, to - from);
    return true;
  }
  const auto filled = upstream().fill(block, from, to - from, std::byte{0});
  if (!filled) error = filled.error();
  return filled.has_value();
}

Block SlabPool::do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                          Error& error) noexcept {
  Lock lock(mutex_);
  SlabChunk* const chunk = table_.find(block.address);
  const std::uint16_t index =
      chunk == nullptr ? SlabChunk::none : chunk->live_slot_at(block.address);
  if (index == SlabChunk::none) {
    error = Error::make(ErrorCode::invalid_argument, "resize", info().id, to.size);
    return {};
  }
  if (chunk->direct) {
    table_.erase(chunk);  // the upstream may move it, and another thread get the old address
    lock.unlock();
    const Block resized = resize_direct(chunk, block, from, to, may_move, error);
    if (resized || error.code != ErrorCode::not_supported || may_move == MayMove::no) {
      return resized;
    }
    return resize_by_moving(block, from, to, error);
  }
  const std::size_t capacity = align_up(to.size, detail::slab_granularity);
  if (capacity > chunk->slot_size || is_direct(to)) {
    const std::size_t slot_size = chunk->slot_size;
    lock.unlock();
    if (may_move == MayMove::yes) return resize_by_moving(block, from, to, error);
    error = Error::make(ErrorCode::not_supported, "resize in place", info().id, to.size);
    error.limit = slot_size;
    return {};
  }
  std::uint8_t& flags = chunk->flags()[index];
  const bool rest_zero = (flags & SlabChunk::zero_flag) != 0;
  if (capacity < block.capacity) flags &= static_cast<std::uint8_t>(~SlabChunk::zero_flag);
  live_bytes_ += capacity - block.capacity;
  lock.unlock();
  if (to.init == Init::zero) {
    const std::size_t dirty_end = rest_zero ? std::min(block.capacity, to.size) : to.size;
    if (!zero_range({block.address, capacity}, from.size, dirty_end, error)) {
      lock.lock();
      live_bytes_ -= capacity - block.capacity;
      flags &= static_cast<std::uint8_t>(~SlabChunk::zero_flag);
      return {};
    }
  }
  return {block.address, capacity};
}

/// **Pre** the chunk is out of the table; it is back in it afterwards.
Block SlabPool::resize_direct(SlabChunk* chunk, Block block, const Request& from, const Request& to,
                              MayMove may_move, Error& error) noexcept {
  const Block before = chunk->block;
  const Request known = chunk->request;  // of an exact fallback it is larger than the caller's
  Request passed_on = known;
  passed_on.size = to.size;
  passed_on.reserve = to.reserve;
  passed_on.init = to.init;
  Block resized;
  // The upstream zeroes from the size it knows; below that, it is for us.
  const std::size_t told = std::min(known.size, to.size);
  if (to.init != Init::zero || zero_range(before, from.size, told, error)) {
    resized = resize_in(upstream(), before, known, passed_on, may_move, error);
    const bool fits = error.code == ErrorCode::not_supported && to.size <= before.capacity;
    // An upstream that cannot resize at all has still given a block that is large enough.
    if (!resized && fits && (to.init != Init::zero || zero_range(before, told, to.size, error))) {
      resized = before;
      passed_on = known;
    }
  }
  const Lock lock(mutex_);
  if (resized) {
    chunk->block = resized;
    chunk->request = passed_on;
    reserved_bytes_ += resized.capacity - before.capacity;
    // What an exact fallback grew to, or a large block shrank to, is told as any block of its size:
    // the capacity is the footprint, which is what accounts above have charged.
    if (!is_direct(to)) resized.capacity = align_up(to.size, detail::slab_granularity);
    live_bytes_ += resized.capacity - block.capacity;
  }
  table_.insert(chunk);
  return resized;
}

Block SlabPool::resize_by_moving(Block block, const Request& from, const Request& to,
                                 Error& error) noexcept {
  Request request = to;
  request.init = Init::undefined;
  const Block moved = do_allocate(request, error);
  if (!moved) {
    error.feature = "resize";
    return {};
  }
  const std::size_t kept = std::min(from.size, to.size);
  bool filled = true;
  if (const auto copied = upstream().copy_between(moved, 0, upstream(), block, 0, kept); !copied) {
    error = copied.error();
    filled = false;
  } else if (to.init == Init::zero) {
    filled = zero_range(moved, from.size, to.size, error);
  }
  if (!filled) {
    do_deallocate(moved, Release{request, false});
    return {};
  }
  do_deallocate(block, Release{from, false});
  return moved;
}

}  // namespace assay
