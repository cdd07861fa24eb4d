#include "assay/backing/statistics.hpp"

#include <algorithm>
#include <bit>

#include "live_blocks.hpp"

namespace assay {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;

void count(std::atomic<std::uint64_t>& counter, std::uint64_t by = 1) noexcept {
  counter.fetch_add(by, relaxed);
}

std::int64_t as_signed(std::size_t bytes) noexcept {
  return static_cast<std::int64_t>(bytes);  // capacities stay below size_max
}

}  // namespace

void Statistics::Live::add(std::int64_t change) noexcept {
  const std::int64_t after = now.fetch_add(change, relaxed) + change;
  std::int64_t high = peak.load(relaxed);
  while (after > high && !peak.compare_exchange_weak(high, after, relaxed)) {
  }
}

Ref<Statistics> Statistics::make(Ref<Backing> upstream, Precision precision) {
  ASSAY_CONTRACT(upstream, "statistics need an upstream");
  return Ref<Statistics>::adopt(new Statistics(std::move(upstream), precision));
}

Statistics::Statistics(Ref<Backing> upstream, Precision precision) noexcept
    : Adaptor(renamed("statistics", *upstream), upstream), exact_(precision == Precision::exact) {}

Statistics::~Statistics() {
  const Snapshot last = snapshot();
  detail::check_none_live(info().id, last.live_blocks, last.live_bytes);
}

Statistics::Stripe& Statistics::stripe() noexcept {
  static std::atomic<std::uint32_t> next_thread{0};
  thread_local const std::uint32_t mine = next_thread.fetch_add(1, relaxed);
  return stripes_[mine % stripe_count];
}

void Statistics::change_live(Stripe& mine, std::int64_t blocks, std::int64_t bytes) noexcept {
  mine.blocks.add(blocks);
  mine.bytes.add(bytes);
  if (!exact_) return;
  shared_.blocks.add(blocks);
  shared_.bytes.add(bytes);
}

Block Statistics::do_allocate(const Request& request, Error& error) noexcept {
  const Block block = allocate_from(upstream(), request, error);
  Stripe& mine = stripe();
  if (!block) {
    count(mine.failed_allocations);
    return {};
  }
  count(mine.allocations);
  count(mine.requested, request.size);
  count(mine.granted, block.capacity);
  count(mine.sizes[static_cast<std::size_t>(std::bit_width(request.size)) - 1]);
  change_live(mine, 1, as_signed(block.capacity));
  return block;
}

Freed Statistics::do_deallocate(Block block, const Release& release) noexcept {
  Stripe& mine = stripe();
  // Before the upstream's free, so that a block that another thread gets at once is not counted
  // beside this one: an exact mark never exceeds what was out.
  change_live(mine, -1, -as_signed(block.capacity));
  const Freed freed = deallocate_to(upstream(), block, release);
  if (freed == Freed::refused) {
    change_live(mine, 1, as_signed(block.capacity));  // no live block: nothing left
    count(mine.refused_frees);
    return freed;
  }
  count(mine.frees);
  if (freed == Freed::failed) count(mine.failed_frees);
  if (freed == Freed::pending) count(mine.pending_frees);
  return freed;
}

Block Statistics::do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                            Error& error) noexcept {
  const Block resized = resize_in(upstream(), block, from, to, may_move, error);
  Stripe& mine = stripe();
  if (!resized) {
    count(mine.failed_resizes);
    return {};
  }
  count(mine.resizes);
  change_live(mine, 0, as_signed(resized.capacity) - as_signed(block.capacity));
  return resized;
}

Statistics::Snapshot Statistics::snapshot() const noexcept {
  Snapshot sum;
  std::int64_t blocks = 0;
  std::int64_t bytes = 0;
  for (const Stripe& one : stripes_) {
    sum.allocations += one.allocations.load(relaxed);
    sum.frees += one.frees.load(relaxed);
    sum.resizes += one.resizes.load(relaxed);
    sum.failed_allocations += one.failed_allocations.load(relaxed);
    sum.failed_resizes += one.failed_resizes.load(relaxed);
    sum.failed_frees += one.failed_frees.load(relaxed);
    sum.refused_frees += one.refused_frees.load(relaxed);
    sum.pending_frees += one.pending_frees.load(relaxed);
    sum.requested_bytes += one.requested.load(relaxed);
    sum.granted_bytes += one.granted.load(relaxed);
    blocks += one.blocks.now.load(relaxed);
    bytes += one.bytes.now.load(relaxed);
    sum.peak_live_blocks += static_cast<std::uint64_t>(one.blocks.peak.load(relaxed));
    sum.peak_live_bytes += static_cast<std::uint64_t>(one.bytes.peak.load(relaxed));
    for (std::size_t i = 0; i < sum.sizes.size(); ++i) sum.sizes[i] += one.sizes[i].load(relaxed);
  }
  // Read while calls run, a free may be seen without its allocation.
  sum.live_blocks = static_cast<std::uint64_t>(std::max<std::int64_t>(blocks, 0));
  sum.live_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0));
  if (exact_) {
    sum.peak_live_blocks = static_cast<std::uint64_t>(shared_.blocks.peak.load(relaxed));
    sum.peak_live_bytes = static_cast<std::uint64_t>(shared_.bytes.peak.load(relaxed));
  }
  sum.peaks_exact = exact_;
  return sum;
}

}  // namespace assay
