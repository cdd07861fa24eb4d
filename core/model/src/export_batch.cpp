// Batches of prefetch and discard (13.0): all of a batch is checked before any of it is enqueued.
#include <new>
#include <utility>
#include <vector>

#include "call.hpp"
#include "discards.hpp"
#include "hidden.hpp"
#include "page_policy.hpp"
#include "profile.hpp"
#include "range_check.hpp"
#include "stream_access.hpp"
#include "stream_engine.hpp"

namespace assay::cuda::model {

namespace {

struct Ranges {
  const DevicePointer* addresses;
  const std::size_t* sizes;
  std::size_t count;
};

struct Locations {
  const Location* locations;
  const std::size_t* first_ranges;  ///< of each location: it holds up to that of the next
  std::size_t count;
};

/// One range of a batch, and what to do with it.
struct Item {
  Operand operand;  ///< of what is discarded
  Range range;
  Location destination;  ///< of a prefetch
};
using Items = std::vector<Item>;

/// A range that is plain memory of the process has no allocation.
Operand operand_of(Range range) {
  return {find_allocation(range.address), range, {}};
}

Status check_batch(const Ranges& ranges, unsigned long long flags, Stream stream) {
  if (ranges.count == 0 || ranges.addresses == nullptr || ranges.sizes == nullptr) {
    return answer(Rule::batch_empty, Status::invalid_value);
  }
  if (flags != 0) return answer(Rule::batch_flags, Status::invalid_value);
  if (is_default_stream(stream)) {
    return answer(Rule::batch_null_stream, Status::invalid_value);
  }
  return Status::success;
}

Status check_locations(const Locations& to, std::size_t ranges) {
  if (to.count == 0 || to.count > ranges || to.locations == nullptr || to.first_ranges == nullptr) {
    return answer(Rule::batch_locations, Status::invalid_value);
  }
  bool rising = to.first_ranges[0] == 0;
  for (std::size_t i = 1; i < to.count && rising; ++i) {
    rising = to.first_ranges[i] > to.first_ranges[i - 1];
  }
  if (rising && to.first_ranges[to.count - 1] < ranges) return Status::success;
  return answer(Rule::batch_indices, Status::invalid_value);
}

/// Every device of the model is alike.
Status check_devices() {
  if (profile().has(DeviceAttribute::concurrent_managed_access)) return Status::success;
  return answer(Rule::batch_exclusive, Status::not_supported);
}

Status find_items(const Ranges& ranges, Items& items) {
  for (std::size_t i = 0; i < ranges.count; ++i) {
    const Range range{ranges.addresses[i], ranges.sizes[i]};
    if (const Status bad = check_managed_range(range, Purpose::change); bad != Status::success)
      return bad;
    items.push_back({operand_of(range), range, {}});
  }
  return Status::success;
}

/// Pre: check_locations().
Status find_destinations(const Locations& to, Items& items) {
  for (std::size_t i = 0; i < to.count; ++i) {
    Location location = to.locations[i];
    if (const Status bad = check_location(location); bad != Status::success) return bad;
    const std::size_t end = i + 1 < to.count ? to.first_ranges[i + 1] : items.size();
    for (std::size_t item = to.first_ranges[i]; item < end; ++item) {
      items[item].destination = location;
    }
  }
  return Status::success;
}

Status run_batch(const Items& items, bool discards, bool prefetches, Running running) {
  for (const Item& item : items) {
    if (discards) {
      std::byte* const bytes = use(item.operand, Access::discard, running);
      if (bytes != nullptr) discard_pages(item.range, bytes, running.site);
    }
    if (prefetches && running.fault == Status::success) {
      apply_prefetch(item.range, item.destination);
    }
  }
  return running.fault;
}

/// Prefetches if `to` is not null.
Status enqueue_batch(const Call& call, const Ranges& ranges, const Locations* to, bool discards,
                     unsigned long long flags, Stream stream) try {
  Items items;
  QueuePointer queue;
  Status status = check_batch(ranges, flags, stream);
  if (status == Status::success && to != nullptr) status = check_locations(*to, ranges.count);
  if (status == Status::success) status = find_items(ranges, items);
  if (status == Status::success) status = find_queue(stream, current_context(), queue);
  if (status == Status::success) status = check_devices();
  if (status == Status::success && to != nullptr) status = find_destinations(*to, items);
  if (status != Status::success) return status;

  Operation operation;
  operation.name = call.site().function;
  operation.site = call.site();
  auto& touched = discards ? operation.writes : operation.reads;
  for (const Item& item : items) touched.push_back(item.range);
  const bool prefetches = to != nullptr;
  if (prefetches) {
    for (const Item& item : items) note_prefetch_request(item.range, item.destination);
  }
  const Running running = running_in(*queue, call.site());
  operation.run = [items = std::move(items), discards, prefetches, running] {
    return run_batch(items, discards, prefetches, running);
  };
  scheduler().enqueue(queue, std::move(operation));
  return Status::success;
} catch (const std::bad_alloc&) {
  return answer(Rule::copy_memory, Status::out_of_memory);
}

}  // namespace

extern "C" {

Status implement_cuMemPrefetchBatchAsync(DevicePointer* addresses, std::size_t* sizes,
                                         std::size_t count, Location* locations,
                                         std::size_t* first_ranges, std::size_t location_count,
                                         unsigned long long flags, Stream stream) {
  ASSAY_MODEL_CALL(cuMemPrefetchBatchAsync, sound);
  const Locations to{locations, first_ranges, location_count};
  return enqueue_batch(call, {addresses, sizes, count}, &to, false, flags, stream);
}

Status implement_cuMemDiscardBatchAsync(DevicePointer* addresses, std::size_t* sizes,
                                        std::size_t count, unsigned long long flags,
                                        Stream stream) {
  ASSAY_MODEL_CALL(cuMemDiscardBatchAsync, sound);
  return enqueue_batch(call, {addresses, sizes, count}, nullptr, true, flags, stream);
}

Status implement_cuMemDiscardAndPrefetchBatchAsync(DevicePointer* addresses, std::size_t* sizes,
                                                   std::size_t count, Location* locations,
                                                   std::size_t* first_ranges,
                                                   std::size_t location_count,
                                                   unsigned long long flags, Stream stream) {
  ASSAY_MODEL_CALL(cuMemDiscardAndPrefetchBatchAsync, sound);
  const Locations to{locations, first_ranges, location_count};
  return enqueue_batch(call, {addresses, sizes, count}, &to, true, flags, stream);
}

ASSAY_MODEL_HIDDEN_BELOW(13000, cuMemPrefetchBatchAsync)
ASSAY_MODEL_HIDDEN_BELOW(13000, cuMemDiscardBatchAsync)
ASSAY_MODEL_HIDDEN_BELOW(13000, cuMemDiscardAndPrefetchBatchAsync)

}  // extern "C"

}  // namespace assay::cuda::model
