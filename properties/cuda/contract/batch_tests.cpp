// Batches of prefetch and discard (13.0): several ranges in one call.
#include <algorithm>
#include <cstring>
#include <vector>

#include "contract/groups.hpp"
#include "suite/run.hpp"

namespace assay::conformance {
namespace {

using enum Source;
using abi::Location;
using abi::LocationType;
using abi::RangeAttribute;
using Attribute = DeviceAttribute;

constexpr std::size_t size = page;
constexpr Location device_0{LocationType::device, 0};
constexpr Location the_host{LocationType::host, 0};

Needs batches() {
  return having(cuda::Feature::batches) + with(Attribute::concurrent_managed_access);
}

/// The arguments of a call, valid until a test spoils one of them.
struct Batch {
  explicit Batch(Run& run)
      : addresses{run.managed(size), run.managed(size), run.managed(size)},
        sizes(addresses.size(), size) {}
  std::vector<DevicePointer> addresses;
  std::vector<std::size_t> sizes;
  std::vector<Location> locations{device_0, the_host};
  std::vector<std::size_t> firsts{0, 2};
  unsigned long long flags = 0;
};

struct Prefetch {
  static Status call(Run& run, Batch& batch, abi::Stream stream) {
    return run.cu.cuMemPrefetchBatchAsync(
        batch.addresses.data(), batch.sizes.data(), batch.addresses.size(), batch.locations.data(),
        batch.firsts.data(), batch.locations.size(), batch.flags, stream);
  }
};
struct Discard {
  static Status call(Run& run, Batch& batch, abi::Stream stream) {
    return run.cu.cuMemDiscardBatchAsync(batch.addresses.data(), batch.sizes.data(),
                                         batch.addresses.size(), batch.flags, stream);
  }
};
struct DiscardAndPrefetch {
  static Status call(Run& run, Batch& batch, abi::Stream stream) {
    return run.cu.cuMemDiscardAndPrefetchBatchAsync(
        batch.addresses.data(), batch.sizes.data(), batch.addresses.size(), batch.locations.data(),
        batch.firsts.data(), batch.locations.size(), batch.flags, stream);
  }
};

template <class Kind>
Status in_stream(Run& run, Batch& batch) {
  return Kind::call(run, batch, run.stream());
}

int requested(Run& run, DevicePointer address) {
  int where = -77;
  run.must(run.cu.cuMemRangeGetAttribute(&where, sizeof where,
                                         RangeAttribute::last_prefetch_location, address, size),
           "cuMemRangeGetAttribute");
  return where;
}

void synchronize(Run& run, abi::Stream stream) {
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
}

template <class Kind>
void locations(Run& run) {
  const abi::Stream stream = run.stream();
  Batch batch(run);
  run.code("the batch", Kind::call(run, batch, stream));
  run.code("cuStreamSynchronize", run.cu.cuStreamSynchronize(stream));
  run.holds("the first location is of the first two",
            requested(run, batch.addresses[0]) == 0 && requested(run, batch.addresses[1]) == 0);
  run.holds("the second of the third", requested(run, batch.addresses[2]) == abi::device_cpu);
}

void contents(Run& run) {
  const abi::Stream stream = run.stream();
  Batch batch(run);
  for (const DevicePointer each : batch.addresses) std::memset(host(each), 0x5E, size);
  run.code("the batch", Prefetch::call(run, batch, stream));
  synchronize(run, stream);
  bool same = true;
  for (const DevicePointer each : batch.addresses) same = same && run.filled(each, 0x5E, size);
  run.holds("no byte has changed", same);
}

void written_after_discard(Run& run) {
  const abi::Stream stream = run.stream();
  Batch batch(run);
  const DevicePointer other = run.managed(size);
  run.fill(other, 0x11, size);
  for (const DevicePointer each : batch.addresses) run.fill(each, 0x22, size);
  run.code("the batch", Discard::call(run, batch, stream));
  for (const DevicePointer each : batch.addresses) {
    run.must(run.cu.cuMemsetD8Async(each, 0x33, size, stream), "cuMemsetD8Async");
  }
  synchronize(run, stream);
  bool written = true;
  for (const DevicePointer each : batch.addresses) {
    written = written && run.filled(each, 0x33, size);
  }
  run.holds("a write ends the discard", written);
  run.holds("other memory is as before", run.filled(other, 0x11, size));
}

void scrambled(Run& run) {
  const abi::Stream stream = run.stream();
  Batch batch(run);
  for (const DevicePointer each : batch.addresses) run.fill(each, 0x22, size);
  run.must(Discard::call(run, batch, stream), "cuMemDiscardBatchAsync");
  synchronize(run, stream);
  bool old = false;
  for (const DevicePointer each : batch.addresses) {
    old = old || std::all_of(host(each), host(each) + size,
                             [](std::byte byte) { return byte == std::byte{0x22}; });
  }
  run.holds("discarded bytes are not what they were", !old);
}

void in_its_turn(Run& run) {
  const abi::Stream stream = run.stream();
  Batch batch(run);
  for (const DevicePointer each : batch.addresses) run.fill(each, 0x22, size);
  std::byte* const target = run.pinned(size);
  std::memset(target, 0, size);
  Gate gate(run, stream);
  run.must(run.cu.cuMemcpyDtoHAsync_v2(target, batch.addresses[0], size, stream),
           "cuMemcpyDtoHAsync");
  run.code("the batch", Discard::call(run, batch, stream));
  (void)run.cu.cuStreamQuery(stream);
  run.code("waits behind the gate", run.cu.cuStreamQuery(stream));
  gate.open();
  synchronize(run, stream);
  run.holds("the copy before it came before it",
            target[0] == std::byte{0x22} && target[size - 1] == std::byte{0x22});
}

/// Half of the pages or more: the model may leave a page behind, as a driver may.
void resident(Run& run) {
  const abi::Stream stream = run.stream();
  Batch batch(run);
  run.must(Prefetch::call(run, batch, stream), "cuMemPrefetchBatchAsync");
  synchronize(run, stream);
  const auto on = [&](std::size_t i, abi::Device device) {
    return run.model->resident_bytes(batch.addresses[i], size, device) >= size / 2;
  };
  run.holds("each range is where it was sent", on(0, 0) && on(1, 0) && on(2, abi::device_cpu));
}

/// What each kind refuses in the same way.
template <class Kind>
Tests ranges(const char* const (&ids)[8]) {
  const std::vector<std::int64_t> refused = {invalid_value};
  return {
      answers(
          ids[0], "flags are 0", refused, hdr,
          [](Run& run) {
            Batch batch(run);
            batch.flags = 1;
            return in_stream<Kind>(run, batch);
          },
          batches()),
      answers(
          ids[1], "the default stream takes no batch", {invalid_value, invalid_handle}, unsure,
          [](Run& run) {
            Batch batch(run);
            return Kind::call(run, batch, nullptr);
          },
          batches()),
      answers(
          ids[2], "device memory is not managed", refused, hdr,
          [](Run& run) {
            Batch batch(run);
            batch.addresses[1] = run.device(size);
            return in_stream<Kind>(run, batch);
          },
          batches()),
      answers(
          ids[3], "no range is empty", refused, unsure,
          [](Run& run) {
            Batch batch(run);
            batch.sizes[2] = 0;
            return in_stream<Kind>(run, batch);
          },
          batches()),
      answers(
          ids[4], "each stays within its allocation", refused, unsure,
          [](Run& run) {
            Batch batch(run);
            batch.sizes[2] = size + 1;
            return in_stream<Kind>(run, batch);
          },
          batches()),
      answers(
          ids[5], "a destroyed stream takes no batch", {context_is_destroyed, invalid_handle}, hip,
          [](Run& run) {
            Batch batch(run);
            const abi::Stream stream = run.stream();
            run.must(run.cu.cuStreamDestroy_v2(stream), "cuStreamDestroy");
            return Kind::call(run, batch, stream);
          },
          batches() + model_only("the use of a dead handle is undefined")),
      answers(
          ids[6], "all devices have concurrent access",
          {not_supported, invalid_device, invalid_value}, unsure,
          [](Run& run) {
            Batch batch(run);
            return in_stream<Kind>(run, batch);
          },
          having(cuda::Feature::batches) + with(Attribute::managed_memory) +
              without(Attribute::concurrent_managed_access)),
      answers(
          ids[7], "a batch has ranges", refused, unsure,
          [](Run& run) {
            Batch batch(run);
            batch.addresses.clear();
            batch.sizes.clear();
            batch.locations.clear();
            batch.firsts.clear();
            return in_stream<Kind>(run, batch);
          },
          batches() + model_only("a driver may read a null pointer")),
  };
}

template <class Kind>
Tests targets(const char* const (&ids)[8]) {
  const std::vector<std::int64_t> refused = {invalid_value};
  return {
      {ids[0],
       "a location is for the ranges from its index to the next",
       batches(),
       {succeeds("the batch", hdr), succeeds("cuStreamSynchronize", hdr),
        holds("the first location is of the first two", hdr),
        holds("the second of the third", hdr)},
       locations<Kind>},
      answers(
          ids[1], "the first index is 0", refused, hdr,
          [](Run& run) {
            Batch batch(run);
            batch.firsts = {1, 2};
            return in_stream<Kind>(run, batch);
          },
          batches()),
      answers(
          ids[2], "each is greater than the one before", refused, hdr,
          [](Run& run) {
            Batch batch(run);
            batch.firsts = {0, 0};
            return in_stream<Kind>(run, batch);
          },
          batches()),
      answers(
          ids[3], "and the last is that of a range", refused, hdr,
          [](Run& run) {
            Batch batch(run);
            batch.firsts = {0, 3};
            return in_stream<Kind>(run, batch);
          },
          batches()),
      answers(
          ids[4], "there are not more locations than ranges", refused, hdr,
          [](Run& run) {
            Batch batch(run);
            batch.locations = {device_0, device_0, device_0, device_0};
            batch.firsts = {0, 1, 2, 3};
            return in_stream<Kind>(run, batch);
          },
          batches()),
      answers(
          ids[5], "there is one", refused, unsure,
          [](Run& run) {
            Batch batch(run);
            batch.locations.clear();
            batch.firsts.clear();
            return in_stream<Kind>(run, batch);
          },
          batches() + model_only("a driver may read a null pointer")),
      answers(
          ids[6], "a device is one that is there", {invalid_device, invalid_value}, hdr,
          [](Run& run) {
            Batch batch(run);
            batch.locations[1] = {LocationType::device, 99};
            return in_stream<Kind>(run, batch);
          },
          batches()),
      answers(
          ids[7], "a location has a type", {invalid_value, invalid_device}, unsure,
          [](Run& run) {
            Batch batch(run);
            batch.locations[0] = {LocationType::none, 0};
            return in_stream<Kind>(run, batch);
          },
          batches()),
  };
}

constexpr const char* prefetch_ranges[8] = {
    "batch.prefetch_flags",         "batch.prefetch_default_stream",
    "batch.prefetch_device_memory", "batch.prefetch_empty",
    "batch.prefetch_past_end",      "batch.prefetch_dead_stream",
    "batch.prefetch_exclusive",     "batch.prefetch_none"};
constexpr const char* discard_ranges[8] = {
    "batch.discard_flags",         "batch.discard_default_stream",
    "batch.discard_device_memory", "batch.discard_empty",
    "batch.discard_past_end",      "batch.discard_dead_stream",
    "batch.discard_exclusive",     "batch.discard_none"};
constexpr const char* both_ranges[8] = {"batch.both_flags",         "batch.both_default_stream",
                                        "batch.both_device_memory", "batch.both_empty",
                                        "batch.both_past_end",      "batch.both_dead_stream",
                                        "batch.both_exclusive",     "batch.both_none"};
constexpr const char* prefetch_targets[8] = {
    "batch.prefetch_locations",  "batch.prefetch_first_index",    "batch.prefetch_rising_index",
    "batch.prefetch_last_index", "batch.prefetch_many_locations", "batch.prefetch_no_location",
    "batch.prefetch_bad_device", "batch.prefetch_nowhere"};
constexpr const char* both_targets[8] = {"batch.both_locations",      "batch.both_first_index",
                                         "batch.both_rising_index",   "batch.both_last_index",
                                         "batch.both_many_locations", "batch.both_no_location",
                                         "batch.both_bad_device",     "batch.both_nowhere"};

}  // namespace

Tests batch_tests() {
  Tests tests = {
      {"batch.contents",
       "a batch of prefetches changes no byte",
       batches(),
       {succeeds("the batch", hdr), holds("no byte has changed", hdr)},
       contents},
      {"batch.resident",
       "the model moves each range to its location",
       batches() + model_only("residency is not queryable"),
       {holds("each range is where it was sent", model)},
       resident},
      {"batch.discard",
       "discarded memory may be written again, and no other is discarded",
       batches(),
       {succeeds("the batch", hdr), holds("a write ends the discard", hdr),
        holds("other memory is as before", hdr)},
       written_after_discard},
      {"batch.discard_scrambles",
       "the model scrambles what is discarded, so that nobody relies on it",
       batches() + model_only("a driver may leave the bytes"),
       {holds("discarded bytes are not what they were", model)},
       scrambled},
      {"batch.discard_in_its_turn",
       "a batch is ordered on its stream",
       batches() + having(cuda::Feature::tests),
       {succeeds("the batch", hdr), code("waits behind the gate", {not_ready}, hdr),
        holds("the copy before it came before it", hdr)},
       in_its_turn},
  };
  const auto add = [&](Tests more) {
    for (Test& test : more) tests.push_back(std::move(test));
  };
  add(ranges<Prefetch>(prefetch_ranges));
  add(targets<Prefetch>(prefetch_targets));
  add(ranges<Discard>(discard_ranges));
  add(ranges<DiscardAndPrefetch>(both_ranges));
  add(targets<DiscardAndPrefetch>(both_targets));
  return tests;
}

}  // namespace assay::conformance
