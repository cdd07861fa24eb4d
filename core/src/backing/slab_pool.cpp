#include "assay/backing/slab_pool.hpp"

#include <algorithm>

#include "assay/base/system.hpp"
#include "live_blocks.hpp"
#include "slab_chunk.hpp"

namespace assay {

using detail::SlabChunk;

namespace {

std::size_t wanted_size(const Request& request) noexcept {
  return std::max(request.size, request.reserve);
}

std::size_t slot_capacity(const Request& request) noexcept {
  return align_up(request.size, detail::slab_granularity);
}

}  // namespace

Ref<SlabPool> SlabPool::make(Ref<Backing> upstream) {
  return make(std::move(upstream), Options{});
}

Ref<SlabPool> SlabPool::make(Ref<Backing> upstream, const Options& options) {
  ASSAY_CONTRACT(upstream, "a pool needs an upstream");
  return Ref<SlabPool>::adopt(new SlabPool(std::move(upstream), options));
}

SourceInfo SlabPool::pool_info(const Backing& upstream) noexcept {
  SourceInfo info = renamed("slab_pool", upstream);
  // A slot is used again at once, whatever a stream still does with it.
  const std::uint32_t kept = info.capabilities.bits() & ~Capabilities::stream_ordered;
  info.capabilities = kept | Capabilities::resize_in_place | Capabilities::resize_moves |
                      Capabilities::trim | Capabilities::detects_bad_free;
  info.granularity = detail::slab_granularity;
  info.natural_alignment = detail::slab_granularity;
  return info;
}

SlabPool::SlabPool(Ref<Backing> upstream, const Options& options) noexcept
    : Adaptor(pool_info(*upstream), upstream), options_(options), page_(page_size()) {}

SlabPool::~SlabPool() {
  detail::check_none_live(info().id, live_blocks_, live_bytes_);
  give_back_all(unlink_free_chunks(0));
}

/// A chunk has one stream for all of its slots, and outlives them: what is to be ordered by a
/// stream of a device gets a block of the upstream's own.
bool SlabPool::is_direct(const Request& request) const noexcept {
  const bool ordered = request.stream.handle != nullptr && can(Capabilities::device_access);
  return ordered || wanted_size(request) > detail::slab_class_max || request.alignment > page_;
}

std::size_t SlabPool::do_footprint(const Request& request) const noexcept {
  return is_direct(request) ? upstream().footprint(request) : slot_capacity(request);
}

std::size_t SlabPool::do_charge(const Request& request) const noexcept {
  return is_direct(request) ? upstream().charge(request) : slot_capacity(request);
}

/// A block that is told as a slot is held as one; a direct one is what the upstream holds.
std::size_t SlabPool::do_held_by(Block block) const noexcept {
  Block direct;
  {
    const Lock lock(mutex_);
    const SlabChunk* const chunk = table_.find(block.address);
    if (chunk != nullptr && chunk->direct) direct = chunk->block;
  }
  return direct == block ? upstream().held_by(block) : block.capacity;
}

Usage SlabPool::do_usage() const noexcept {
  const Lock lock(mutex_);
  return {live_blocks_, live_bytes_, reserved_bytes_};
}

SlabPool::Figures SlabPool::figures() const noexcept {
  const Lock lock(mutex_);
  Figures figures = figures_;
  figures.chunks = table_.size();
  return figures;
}

Block SlabPool::do_allocate(const Request& request, Error& error) noexcept {
  if (is_direct(request)) return allocate_direct(request, request, error);
  const std::size_t index = detail::slab_class_of(wanted_size(request), request.alignment);
  const bool zero = request.init == Init::zero;
  Slot slot;
  {
    const Lock lock(mutex_);
    slot = take(index, zero);
    if (slot.chunk != nullptr) {
      ++live_blocks_;
      live_bytes_ += slot_capacity(request);
    }
  }
  if (slot.chunk == nullptr) {
    slot = grow(index, request, error);
    if (slot.chunk == nullptr) {
      // Not even a trimmed cache made room for a whole chunk: the exact size may still fit.
      Request exact = request;
      exact.size = align_up(wanted_size(request), detail::slab_granularity);
      exact.reserve = 0;
      return allocate_direct(request, exact, error);
    }
  }
  const Block block{slot.address, slot_capacity(request)};
  if (zero && !slot.zero && !zero_slot(slot, error)) {
    do_deallocate(block, Release{request, false});
    return {};
  }
  return block;
}

Freed SlabPool::do_deallocate(Block block, const Release& release) noexcept {
  Lock lock(mutex_);
  SlabChunk* const chunk = table_.find(block.address);
  if (chunk == nullptr || chunk->live_slot_at(block.address) == SlabChunk::none) {
    ++figures_.refused_frees;
    return Freed::refused;
  }
  --live_blocks_;
  live_bytes_ -= block.capacity;
  if (chunk->direct) {
    // Before the upstream's free: the address may be another thread's the moment after.
    forget(chunk);
    lock.unlock();
    // The caller speaks for its block; of an exact fallback the upstream's is larger.
    const bool whole = block.capacity == chunk->block.capacity;
    return give_back(chunk, release.known_zero && whole);
  }
  put_back(chunk, block.address, release.known_zero);
  if (figures_.cached_bytes > options_.cached_max) {
    SlabChunk* const surplus = unlink_free_chunks(options_.cached_max);
    lock.unlock();
    give_back_all(surplus);
  }
  return Freed::now;
}

Result<std::size_t> SlabPool::do_trim(std::size_t keep_bytes) noexcept {
  SlabChunk* surplus = nullptr;
  {
    const Lock lock(mutex_);
    surplus = unlink_free_chunks(keep_bytes);
  }
  std::size_t given_back = give_back_all(surplus);
  if (upstream().can(Capabilities::trim)) {
    // What this pool gave back may now lie in a cache below; what is left there counts anew.
    ASSAY_TRY(const std::size_t below, upstream().trim(keep_bytes));
    given_back = std::max(given_back, below);
  }
  return given_back;
}

// --- slots, under the lock

SlabPool::Slot SlabPool::take(std::size_t class_index, bool zero) noexcept {
  SlabChunk* chunk = with_room_[class_index];
  if (chunk == nullptr) chunk = recut(class_index);
  return chunk == nullptr ? Slot{} : take_from(chunk, zero);
}

/// `zero` tells that the taker will zero the slot if it is not yet.
SlabPool::Slot SlabPool::take_from(SlabChunk* chunk, bool zero) noexcept {
  std::uint16_t index = chunk->free_head;
  bool reads_zero = chunk->rest_zero;
  if (index != SlabChunk::none) {
    chunk->free_head = chunk->links()[index];
    reads_zero = (chunk->flags()[index] & SlabChunk::zero_flag) != 0;
  } else {
    index = chunk->untouched++;
  }
  const bool rest_zero = zero || reads_zero;
  chunk->flags()[index] =
      static_cast<std::uint8_t>(SlabChunk::live_flag | (rest_zero ? SlabChunk::zero_flag : 0));
  if (chunk->live++ == 0) figures_.cached_bytes -= chunk->block.capacity;
  if (!chunk->has_room()) unlist(chunk);
  if (zero && !reads_zero) figures_.zeroed_bytes += chunk->slot_size;
  return {chunk, chunk->block.address + index * chunk->slot_size, chunk->slot_size, reads_zero};
}

void SlabPool::put_back(SlabChunk* chunk, std::uint64_t address, bool known_zero) noexcept {
  const std::uint16_t index = chunk->live_slot_at(address);
  std::uint8_t& flags = chunk->flags()[index];
  // Zero up to its capacity by the caller's word, and beyond it by our own.
  const bool zero = known_zero && (flags & SlabChunk::zero_flag) != 0;
  flags = zero ? SlabChunk::zero_flag : std::uint8_t{0};
  chunk->links()[index] = chunk->free_head;
  chunk->free_head = index;
  if (--chunk->live == 0) figures_.cached_bytes += chunk->block.capacity;
  if (chunk->listed) unlist(chunk);
  list(chunk);  // to the front: what was freed last is still in a processor's cache
}

void SlabPool::list(SlabChunk* chunk) noexcept {
  SlabChunk*& head = with_room_[chunk->class_index];
  chunk->previous = nullptr;
  chunk->next = head;
  if (head != nullptr) head->previous = chunk;
  head = chunk;
  chunk->listed = true;
}

void SlabPool::unlist(SlabChunk* chunk) noexcept {
  (chunk->previous != nullptr ? chunk->previous->next : with_room_[chunk->class_index]) =
      chunk->next;
  if (chunk->next != nullptr) chunk->next->previous = chunk->previous;
  chunk->listed = false;
}

/// Cuts a wholly free chunk of another class anew, or returns null if there is none.
SlabChunk* SlabPool::recut(std::size_t class_index) noexcept {
  const std::size_t size = detail::slab_class_size(class_index);
  if (figures_.cached_bytes == 0 || size > detail::slab_shared_max) return nullptr;
  for (std::size_t i = 0; i < table_.size(); ++i) {
    SlabChunk* const old = table_.at(i);
    if (old->live != 0 || old->slot_size > detail::slab_shared_max || old->direct) continue;
    SlabChunk* const chunk = SlabChunk::make(detail::slab_chunk_size / size);
    if (chunk == nullptr) return nullptr;
    chunk->block = old->block;
    chunk->request = old->request;
    chunk->class_index = class_index;
    chunk->slot_size = size;
    chunk->rest_zero = old->reads_zero();
    unlist(old);
    table_.erase(old);
    SlabChunk::destroy(old);
    table_.insert(chunk);
    list(chunk);
    return chunk;
  }
  return nullptr;
}

/// Takes wholly free chunks out until at most `keep_bytes` of them are left; a list by `next`.
SlabChunk* SlabPool::unlink_free_chunks(std::size_t keep_bytes) noexcept {
  SlabChunk* first = nullptr;
  for (std::size_t i = table_.size(); i-- > 0 && figures_.cached_bytes > keep_bytes;) {
    SlabChunk* const chunk = table_.at(i);
    if (chunk->live != 0) continue;
    figures_.cached_bytes -= chunk->block.capacity;
    unlist(chunk);
    forget(chunk);
    chunk->next = first;
    first = chunk;
  }
  return first;
}

void SlabPool::forget(SlabChunk* chunk) noexcept {
  table_.erase(chunk);
  table_.dismiss();
}

}  // namespace assay
