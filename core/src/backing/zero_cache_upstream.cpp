// The half of zero_cache that calls its upstream. No lock is held while it does.
#include <algorithm>
#include <cstring>

#include "assay/backing/zero_cache.hpp"
#include "zero_cache_record.hpp"

namespace assay {

using detail::CachedBlock;

namespace {

Error no_record(const char* feature, std::size_t requested) noexcept {
  return Error::make(ErrorCode::out_of_memory, feature, "zero_cache", requested);
}

/// The bytes that a holder may have written and that nobody below zeroes on growth: those between
/// what it asked for and where the upstream starts.
std::size_t dirty_end(const CachedBlock& record, const Request& to) noexcept {
  const std::size_t known =
      record.zero ? std::min(record.capacity, record.made.size) : record.made.size;
  return std::min(known, to.size);
}

}  // namespace

/// A block of the upstream's own; a refusal empties the cache and asks once more.
Block ZeroCache::allocate_below(const Request& request, Error& error) noexcept {
  const Block block = allocate_from(upstream(), request, error);
  if (block) [[likely]]
    return block;
  // A retry would hide bytes that this call lost.
  if (error.lost != 0 || give_back_all(0) == 0) return {};
  return allocate_from(upstream(), request, error);
}

Block ZeroCache::allocate_new(const Request& request, std::size_t capacity, Error& error) noexcept {
  Record* const record = Record::make();
  if (record == nullptr) {
    error = no_record("allocate", request.size);
    return {};
  }
  record->made = of_class(request);
  record->block = allocate_below(record->made, error);
  if (!record->block && error.lost == 0 && record->made.size != request.size) {
    record->made.size = request.size;  // not even an empty cache made room for the class
    record->block = allocate_from(upstream(), record->made, error);
  }
  const Block whole = record->block;
  if (!whole) {
    Record::destroy(record);
    error.requested = request.size;
    return {};
  }
  record->zero = request.init == Init::zero && whole.capacity == record->made.size;
  const Lock lock(mutex_);
  admit(record, std::min(capacity, whole.capacity));
  return {whole.address, record->capacity};
}

/// As Backing::resize of the upstream; a refusal empties the cache and asks once more.
Block ZeroCache::resize_below(Block block, const Request& from, const Request& to, MayMove may_move,
                              Error& error) noexcept {
  const Block resized = resize_in(upstream(), block, from, to, may_move, error);
  if (resized || error.code == ErrorCode::not_supported || error.lost != 0) return resized;
  if (give_back_all(0) == 0) return {};
  return resize_in(upstream(), block, from, to, may_move, error);
}

/// **Pre** the record is out of the table. It is destroyed.
Freed ZeroCache::give_back(Record* record) noexcept {
  const Freed freed = deallocate_to(upstream(), record->block, Release{record->made, record->zero});
  Record::destroy(record);
  if (did_not_free(freed)) {
    const Lock lock(mutex_);
    ++figures_.failed_frees;
  }
  return freed;
}

/// Gives back the oldest until at most `keep_bytes` are cached. Returns the bytes that went back.
std::size_t ZeroCache::give_back_all(std::size_t keep_bytes) noexcept {
  Record* next = nullptr;
  {
    const Lock lock(mutex_);
    next = unlink_oldest(keep_bytes);
  }
  std::size_t given_back = 0;
  while (next != nullptr) {
    Record* const record = next;
    next = record->chain;
    const std::size_t size = record->block.capacity;
    if (!did_not_free(give_back(record))) given_back += size;
  }
  return given_back;
}

bool ZeroCache::zero_range(Block block, std::size_t from, std::size_t to, Error& error) noexcept {
  if (from >= to) return true;
  // What a device reaches too may have work of a stream on it, which the upstream waits for.
  if (can(Capabilities::host_access) && !can(Capabilities::device_access)) {
    auto* const bytes = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(block.address));
    std::memset(bytes + from, 0, to - from);
    return true;
  }
  const auto filled = upstream().fill(block, from, to - from, std::byte{0});
  if (!filled) error = filled.error();
  return filled.has_value();
}

Block ZeroCache::do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                           Error& error) noexcept {
  if (!keeps(from)) {
    return keeps(to) ? resize_into_class(block, from, to, may_move, error)
                     : resize_below(block, from, to, may_move, error);
  }
  Lock lock(mutex_);
  Record* const record = table_.find(block.address);
  if (record == nullptr || !record->live) {
    error = Error::make(ErrorCode::invalid_argument, "resize", info().id, to.size);
    return {};
  }
  const std::size_t made = std::min(record->made.size, block_max);
  const bool same_class =
      keeps(to) && of_class(to).size == detail::cache_class_size(detail::cache_class_of(made));
  // Past what it was asked for, the upstream would zero what a later growth must keep.
  if (same_class && to.size <= record->made.size) {
    return resize_inside(record, lock, from, to, error);
  }
  return resize_record(record, lock, from, to, may_move, error);
}

/// A block of the upstream's own becomes one that is kept.
Block ZeroCache::resize_into_class(Block block, const Request& from, const Request& to,
                                   MayMove may_move, Error& error) noexcept {
  Record* const record = Record::make();
  if (record == nullptr) {
    error = no_record("resize", to.size);
    return {};
  }
  record->made = of_class(to);
  record->block = resize_below(block, from, record->made, may_move, error);
  if (!record->block && error.lost == 0 && record->made.size != to.size) {
    record->made.size = to.size;
    record->block = resize_in(upstream(), block, from, record->made, may_move, error);
  }
  const Block resized = record->block;
  if (!resized) {
    Record::destroy(record);
    error.requested = to.size;
    return {};
  }
  const Lock lock(mutex_);
  admit(record, std::min(upstream().footprint(to), resized.capacity));
  return {resized.address, record->capacity};
}

/// Within what the upstream gave. **Pre** the lock is held; it is not afterwards.
Block ZeroCache::resize_inside(Record* record, Lock& lock, const Request& from, const Request& to,
                               Error& error) noexcept {
  const Block whole = record->block;
  const std::size_t before = record->capacity;
  const std::size_t capacity = std::min(upstream().footprint(to), whole.capacity);
  const std::size_t zero_end = record->zero ? std::min(before, to.size) : to.size;
  if (capacity < before) record->zero = false;
  record->capacity = capacity;
  slack_bytes_ += before - capacity;
  lock.unlock();
  if (to.init == Init::zero && !zero_range(whole, from.size, zero_end, error)) {
    lock.lock();
    record->capacity = before;
    record->zero = false;
    slack_bytes_ -= before - capacity;
    lock.unlock();
    return {};
  }
  return {whole.address, capacity};
}

/// By the upstream. **Pre** the lock is held; it is not afterwards.
Block ZeroCache::resize_record(Record* record, Lock& lock, const Request& from, const Request& to,
                               MayMove may_move, Error& error) noexcept {
  dismiss(record);  // the upstream may move it, and another thread get the old address
  lock.unlock();
  const bool stays = keeps(to);
  Request next = stays ? of_class(to) : to;
  Block resized;
  if (to.init != Init::zero ||
      zero_range(record->block, from.size, dirty_end(*record, to), error)) {
    resized = resize_below(record->block, record->made, next, may_move, error);
    if (!resized && error.lost == 0 && stays && next.size != to.size) {
      next.size = to.size;
      resized = resize_in(upstream(), record->block, record->made, next, may_move, error);
    }
  }
  if (resized && !stays) {
    Record::destroy(record);
    return resized;
  }
  std::size_t capacity = record->capacity;
  if (resized) {
    record->zero =
        to.init == Init::zero && to.size >= record->made.size && resized.capacity == next.size;
    record->block = resized;
    record->made = next;
    capacity = std::min(upstream().footprint(to), resized.capacity);
  }
  lock.lock();
  admit(record, capacity);
  if (resized) {
    lock.unlock();
    return {resized.address, capacity};
  }
  // An upstream that cannot shrink it leaves a block that is large enough.
  const bool fits = error.code == ErrorCode::not_supported && stays && to.size <= record->made.size;
  if (fits) return resize_inside(record, lock, from, to, error);
  lock.unlock();
  error.requested = to.size;
  return {};
}

}  // namespace assay
