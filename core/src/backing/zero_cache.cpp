#include "assay/backing/zero_cache.hpp"

#include <algorithm>

#include "live_blocks.hpp"
#include "zero_cache_record.hpp"

namespace assay {

using detail::cache_class_of;
using detail::CachedBlock;

namespace detail {

BlockTable::~BlockTable() {
  if (buckets_ != first_.data()) std::free(buckets_);
}

CachedBlock** BlockTable::bucket_of(std::uint64_t address) const noexcept {
  // The upper bits of the product depend on all bits of the address; blocks are at least 64 KiB.
  const std::uint64_t mixed = (address >> 4) * 0x9e3779b97f4a7c15ULL;
  return &buckets_[(mixed >> 32) & (bucket_count_ - 1)];
}

void BlockTable::insert(CachedBlock* record) noexcept {
  if (size_ >= bucket_count_) grow();
  CachedBlock** const bucket = bucket_of(record->block.address);
  record->chain = *bucket;
  *bucket = record;
  ++size_;
}

void BlockTable::erase(CachedBlock* record) noexcept {
  CachedBlock** link = bucket_of(record->block.address);
  while (*link != record) link = &(*link)->chain;
  *link = record->chain;
  --size_;
}

CachedBlock* BlockTable::find(std::uint64_t address) const noexcept {
  CachedBlock* record = *bucket_of(address);
  while (record != nullptr && record->block.address != address) record = record->chain;
  return record;
}

std::uint64_t BlockTable::capacities() const noexcept {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bucket_count_; ++i) {
    for (const CachedBlock* one = buckets_[i]; one != nullptr; one = one->chain) {
      sum += one->capacity;
    }
  }
  return sum;
}

/// Without memory for it the chains just get longer.
void BlockTable::grow() noexcept {
  const std::size_t old_count = bucket_count_;
  CachedBlock** const old = buckets_;
  void* const memory = std::calloc(old_count * 2, sizeof(CachedBlock*));
  if (memory == nullptr) return;
  buckets_ = static_cast<CachedBlock**>(memory);
  bucket_count_ = old_count * 2;
  for (std::size_t i = 0; i < old_count; ++i) {
    for (CachedBlock* record = old[i]; record != nullptr;) {
      CachedBlock* const next = record->chain;
      CachedBlock** const bucket = bucket_of(record->block.address);
      record->chain = *bucket;
      *bucket = record;
      record = next;
    }
  }
  if (old != first_.data()) std::free(old);
}

}  // namespace detail

Ref<ZeroCache> ZeroCache::make(Ref<Backing> upstream) {
  return make(std::move(upstream), Options{});
}

Ref<ZeroCache> ZeroCache::make(Ref<Backing> upstream, const Options& options) {
  ASSAY_CONTRACT(upstream, "a cache needs an upstream");
  ASSAY_CONTRACT(options.block_min >= class_min, "zero_cache keeps no block below 256 bytes");
  return Ref<ZeroCache>::adopt(new ZeroCache(std::move(upstream), options));
}

SourceInfo ZeroCache::cache_info(const Backing& upstream) noexcept {
  SourceInfo info = renamed("zero_cache", upstream);
  // A cached block is used again at once, whatever a stream still does with it.
  info.capabilities =
      (info.capabilities.bits() & ~Capabilities::stream_ordered) | Capabilities::trim;
  return info;
}

ZeroCache::ZeroCache(Ref<Backing> upstream, const Options& options) noexcept
    : Adaptor(cache_info(*upstream), upstream), options_(options) {}

ZeroCache::~ZeroCache() {
  give_back_all(0);
  detail::check_none_live(info().id, table_.size(), table_.capacities());
}

bool ZeroCache::keeps(const Request& request) const noexcept {
  const bool ordered = request.stream.handle != nullptr && can(Capabilities::device_access);
  return request.size >= options_.block_min && request.size <= block_max && request.reserve == 0 &&
         !ordered;
}

/// The same with the size that its class has; the upstream's own rounding counts.
Request ZeroCache::of_class(const Request& request) const noexcept {
  Request rounded = request;
  const std::size_t capacity = std::min(upstream().footprint(request), block_max);
  rounded.size = detail::cache_class_size(cache_class_of(capacity));
  return rounded;
}

std::size_t ZeroCache::do_footprint(const Request& request) const noexcept {
  return upstream().footprint(request);
}

std::size_t ZeroCache::do_charge(const Request& request) const noexcept {
  return keeps(request) ? upstream().footprint(request) : upstream().charge(request);
}

/// A block that this cache keeps is held as it was handed out; others are the upstream's.
std::size_t ZeroCache::do_held_by(Block block) const noexcept {
  if (block.capacity >= options_.block_min) {
    const Lock lock(mutex_);
    if (table_.find(block.address) != nullptr) return block.capacity;
  }
  return upstream().held_by(block);
}

Usage ZeroCache::do_usage() const noexcept {
  // All but what is cached is live. Asked while others run, the two counts may be apart.
  Usage usage = upstream().usage();
  const Lock lock(mutex_);
  const std::uint64_t not_live = figures_.cached_bytes + slack_bytes_;
  usage.live_blocks -= std::min(usage.live_blocks, figures_.cached_blocks);
  usage.live_bytes -= std::min(usage.live_bytes, not_live);
  return usage;
}

ZeroCache::Figures ZeroCache::figures() const noexcept {
  const Lock lock(mutex_);
  return figures_;
}

Block ZeroCache::do_allocate(const Request& request, Error& error) noexcept {
  if (!keeps(request)) return allocate_below(request, error);
  const bool zero = request.init == Init::zero;
  const std::size_t capacity = upstream().footprint(request);
  const std::size_t class_index = cache_class_of(std::min(capacity, block_max));
  Block whole;
  bool clean = true;
  {
    const Lock lock(mutex_);
    if (Record* const record = take(request, class_index, capacity); record != nullptr) {
      whole = record->block;
      clean = !zero || record->zero;
      record->zero = record->zero || zero;
      ++figures_.hits;
      if (zero && clean) ++figures_.zero_hits;
      if (!clean) figures_.zeroed_bytes += whole.capacity;
    } else {
      ++figures_.misses;
    }
  }
  if (!whole) return allocate_new(request, capacity, error);
  const Block block{whole.address, capacity};
  if (!clean && !zero_range(whole, 0, whole.capacity, error)) {
    do_deallocate(block, Release{request, false});
    return {};
  }
  return block;
}

Freed ZeroCache::do_deallocate(Block block, const Release& release) noexcept {
  if (!keeps(release.request)) return deallocate_to(upstream(), block, release);
  Lock lock(mutex_);
  Record* const record = table_.find(block.address);
  if (record == nullptr || !record->live) {
    ++figures_.refused_frees;
    return Freed::refused;
  }
  // Zero up to its capacity by the caller's word, and beyond it by our own.
  record->zero = record->zero && release.known_zero && block.capacity == record->capacity;
  const std::size_t size = record->block.capacity;
  record->class_index = static_cast<std::uint8_t>(detail::cache_class_within(record->made.size));
  // What shrank without giving anything back is larger than its class may be.
  const std::size_t class_size = detail::cache_class_size(record->class_index);
  if (size > options_.cached_max || size > class_size + class_size / 8) {
    dismiss(record);
    lock.unlock();
    return give_back(record);
  }
  put(record);
  if (figures_.cached_bytes <= options_.cached_max) return Freed::now;
  lock.unlock();
  give_back_all(options_.cached_max);
  return Freed::now;
}

Result<std::size_t> ZeroCache::do_trim(std::size_t keep_bytes) noexcept {
  std::size_t given_back = give_back_all(keep_bytes);
  if (upstream().can(Capabilities::trim)) {
    // What this cache gave back may now lie in a cache below; what is left there counts anew.
    const std::uint64_t kept = figures().cached_bytes;
    ASSAY_TRY(const std::size_t below, upstream().trim(keep_bytes - std::min(keep_bytes, kept)));
    given_back = std::max(given_back, below);
  }
  return given_back;
}

// --- records, under the lock

/// Takes a cached block for the request out of the cache, or returns null.
ZeroCache::Record* ZeroCache::take(const Request& request, std::size_t class_index,
                                   std::size_t capacity) noexcept {
  const bool zero = request.init == Init::zero;
  const auto fits = [&](const Record* record) {
    return record->made.alignment == request.alignment && record->block.capacity >= capacity;
  };
  const std::array<Kind, 2> order =
      zero ? std::array{reads_zero, other} : std::array{other, reads_zero};
  constexpr int looked_at_max = 8;  // of other alignments; nearly always the first one fits
  for (const Kind kind : order) {
    if (zero && kind == other && request.size > zeroed_by_hand_max) break;
    Record* record = free_[class_index][kind];
    for (int i = 0; record != nullptr && i < looked_at_max; ++i, record = record->class_next) {
      if (!fits(record)) continue;
      unlink(record);
      record->live = true;
      record->capacity = capacity;
      slack_bytes_ += record->block.capacity - capacity;
      return record;
    }
  }
  return nullptr;
}

/// Enters a live block. **Pre** capacity <= record->block.capacity.
void ZeroCache::admit(Record* record, std::size_t capacity) noexcept {
  record->capacity = capacity;
  slack_bytes_ += record->block.capacity - capacity;
  table_.insert(record);
}

/// Takes a live block out of the records. Its address may be another thread's as soon as the
/// upstream has it.
void ZeroCache::dismiss(Record* record) noexcept {
  slack_bytes_ -= record->block.capacity - record->capacity;
  table_.erase(record);
}

/// Puts a live block into the cache. **Pre** its class is set.
void ZeroCache::put(Record* record) noexcept {
  slack_bytes_ -= record->block.capacity - record->capacity;
  record->live = false;
  Record*& head = free_[record->class_index][record->zero ? reads_zero : other];
  record->class_previous = nullptr;
  record->class_next = head;
  if (head != nullptr) head->class_previous = record;
  head = record;
  record->newer = nullptr;
  record->older = newest_;
  (newest_ != nullptr ? newest_->newer : oldest_) = record;
  newest_ = record;
  ++figures_.cached_blocks;
  figures_.cached_bytes += record->block.capacity;
  if (record->zero) figures_.cached_zero_bytes += record->block.capacity;
  if (can(Capabilities::host_access)) detail::forbid_use(record->block);
}

/// Takes a block out of the cache; it stays in the table.
void ZeroCache::unlink(Record* record) noexcept {
  Record*& head = free_[record->class_index][record->zero ? reads_zero : other];
  (record->class_previous != nullptr ? record->class_previous->class_next : head) =
      record->class_next;
  if (record->class_next != nullptr) record->class_next->class_previous = record->class_previous;
  (record->older != nullptr ? record->older->newer : oldest_) = record->newer;
  (record->newer != nullptr ? record->newer->older : newest_) = record->older;
  --figures_.cached_blocks;
  figures_.cached_bytes -= record->block.capacity;
  if (record->zero) figures_.cached_zero_bytes -= record->block.capacity;
  if (can(Capabilities::host_access)) detail::allow_use(record->block);
}

/// Takes the oldest cached blocks out until at most `keep_bytes` are left; a list by `chain`.
ZeroCache::Record* ZeroCache::unlink_oldest(std::size_t keep_bytes) noexcept {
  Record* first = nullptr;
  while (figures_.cached_bytes > keep_bytes) {
    Record* const record = oldest_;
    unlink(record);
    table_.erase(record);
    record->chain = first;
    first = record;
  }
  return first;
}

}  // namespace assay
