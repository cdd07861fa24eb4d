// Prefetch: cuMemPrefetchAsync by ordinal (8.0) and by location (12.2).
#include <cstring>

#include "contract/advice.hpp"
#include "contract/groups.hpp"

namespace assay::conformance {
namespace {

using enum Source;
using abi::Location;
using abi::LocationType;
using Attribute = DeviceAttribute;

constexpr std::size_t size = 4 * page;
constexpr Location device_0{LocationType::device, 0};
constexpr Location the_host{LocationType::host, 0};

Needs concurrent() {
  return with(Attribute::concurrent_managed_access);
}

void contents(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer address = run.managed(size);
  std::memset(host(address), 0x5E, size);
  run.code("to the device", prefetch(run, address, size, device_0, stream));
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.holds("the device has the bytes", run.filled(address, 0x5E, size));
  run.code("to the host", prefetch(run, address, size, the_host, stream));
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.holds("the host has them", host(address)[size - 1] == std::byte{0x5E});
}

void part(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer address = run.managed(size);
  run.fill(address, 0x5E, size);
  run.code("an inner range", prefetch(run, address + page + 5, page, device_0, stream));
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.holds("the bytes are as before", run.filled(address, 0x5E, size));
}

/// More than half: the model may leave a page behind, as a driver may.
bool mostly_on(Run& run, DevicePointer address, abi::Device device) {
  return run.model->resident_bytes(address, size, device) > size / 2;
}

void resident(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer address = run.managed(size);
  const auto move = [&](Location where) {
    run.must(prefetch(run, address, size, where, stream), "cuMemPrefetchAsync");
    run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  };
  run.holds("at first it is nowhere",
            !mostly_on(run, address, abi::device_cpu) && !mostly_on(run, address, 0));
  move(device_0);
  run.holds("after a prefetch it is on the device", mostly_on(run, address, 0));
  move(the_host);
  run.holds("after one back it is on the host",
            mostly_on(run, address, abi::device_cpu) && !mostly_on(run, address, 0));
}

void read_duplicated(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer address = run.managed(size);
  run.must(prefetch(run, address, size, the_host, stream), "cuMemPrefetchAsync");
  run.must(advise(run, address, size, abi::Advise::set_read_mostly, device_0), "cuMemAdvise");
  run.must(prefetch(run, address, size, device_0, stream), "cuMemPrefetchAsync");
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.holds("a read-mostly range is on both sides",
            mostly_on(run, address, abi::device_cpu) && mostly_on(run, address, 0));
  run.fill(address, 0x11, size);
  run.holds("a write leaves one copy",
            mostly_on(run, address, abi::device_cpu) != mostly_on(run, address, 0));
  run.must(prefetch(run, address, size, the_host, stream), "cuMemPrefetchAsync");
  run.must(prefetch(run, address, size, device_0, stream), "cuMemPrefetchAsync");
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.must(advise(run, address, size, abi::Advise::unset_read_mostly, device_0), "cuMemAdvise");
  run.holds("and so does the end of the advice",
            mostly_on(run, address, abi::device_cpu) != mostly_on(run, address, 0));
}

void not_yet_resident(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer address = run.managed(size);
  Gate gate(run, stream);
  run.must(prefetch(run, address, size, device_0, stream), "cuMemPrefetchAsync");
  run.code("cuStreamQuery", run.cu.cuStreamQuery(stream));
  run.holds("a prefetch that waits for its turn moves nothing",
            run.model->resident_bytes(address, size, 0) == 0);
  gate.open();
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.holds("once it had its turn it does", mostly_on(run, address, 0));
}

template <class Abi>
Tests both_abis(const char* const (&ids)[11], const Needs& needs) {
  const Needs able = needs + concurrent();
  const Needs closed = needs + without(Attribute::pageable_memory_access);
  return {
      answers(
          ids[0], "a prefetch to the device is taken", {ok}, hdr,
          [](Run& run) {
            return Abi::prefetch(run, run.managed(size), size, device_0, run.stream());
          },
          able),
      answers(
          ids[1], "and to the host", {ok}, hdr,
          [](Run& run) {
            return Abi::prefetch(run, run.managed(size), size, the_host, run.stream());
          },
          able),
      answers(
          ids[2], "count 0 is refused", {invalid_value}, hip,
          [](Run& run) { return Abi::prefetch(run, run.managed(size), 0, device_0, run.stream()); },
          able),
      answers(
          ids[3], "null is no range", {invalid_value}, hip,
          [](Run& run) { return Abi::prefetch(run, 0, size, device_0, run.stream()); }, able),
      answers(
          ids[4], "a range stays within its allocation", {invalid_value}, hip,
          [](Run& run) {
            return Abi::prefetch(run, run.managed(size), size + 1, device_0, run.stream());
          },
          able),
      answers(
          ids[5], "device memory is not prefetched", {invalid_value}, hdr,
          [](Run& run) {
            return Abi::prefetch(run, run.device(size), size, device_0, run.stream());
          },
          able),
      answers(
          ids[6], "nor is pinned memory", {invalid_value}, hdr,
          [](Run& run) {
            return Abi::prefetch(run, address_of(run.pinned(size)), size, device_0, run.stream());
          },
          closed + concurrent()),
      answers(
          ids[7], "nor pageable memory, where the device cannot reach it", {invalid_value}, hdr,
          [](Run& run) {
            return Abi::prefetch(run, address_of(run.pageable(size)), size, device_0, run.stream());
          },
          closed + concurrent()),
      answers(
          ids[8], "a device must be there", {invalid_device}, hdr,
          [](Run& run) {
            return Abi::prefetch(run, run.managed(size), size, {LocationType::device, 99},
                                 run.stream());
          },
          able),
      answers(
          ids[9], "a device of exclusive access takes no prefetch", {invalid_device}, iss,
          [](Run& run) {
            return Abi::prefetch(run, run.managed(size), size, device_0, run.stream());
          },
          needs + with(Attribute::managed_memory) + without(Attribute::concurrent_managed_access)),
      answers(
          ids[10], "a destroyed stream takes no prefetch", {context_is_destroyed, invalid_handle},
          hip,
          [](Run& run) {
            const abi::Stream stream = run.stream();
            run.must(run.cu.cuStreamDestroy_v2(stream), "cuStreamDestroy");
            return Abi::prefetch(run, run.managed(size), size, device_0, stream);
          },
          able),
  };
}

constexpr const char* by_ordinal_ids[11] = {
    "prefetch.by_ordinal_device",     "prefetch.by_ordinal_host",
    "prefetch.by_ordinal_zero",       "prefetch.by_ordinal_null",
    "prefetch.by_ordinal_past_end",   "prefetch.by_ordinal_device_memory",
    "prefetch.by_ordinal_pinned",     "prefetch.by_ordinal_pageable",
    "prefetch.by_ordinal_bad",        "prefetch.by_ordinal_exclusive",
    "prefetch.by_ordinal_dead_stream"};
constexpr const char* by_location_ids[11] = {
    "prefetch.by_location_device",     "prefetch.by_location_host",
    "prefetch.by_location_zero",       "prefetch.by_location_null",
    "prefetch.by_location_past_end",   "prefetch.by_location_device_memory",
    "prefetch.by_location_pinned",     "prefetch.by_location_pageable",
    "prefetch.by_location_bad",        "prefetch.by_location_exclusive",
    "prefetch.by_location_dead_stream"};

}  // namespace

Tests prefetch_tests() {
  const Needs location = concurrent() + having(cuda::Feature::advise_by_location);
  Tests tests = {
      {"prefetch.contents",
       "a prefetch changes no byte, in either direction",
       concurrent(),
       {succeeds("to the device", hdr), holds("the device has the bytes", hdr),
        succeeds("to the host", hdr), holds("the host has them", hdr)},
       contents},
      {"prefetch.part",
       "a prefetch may be for a part that begins within a page",
       concurrent(),
       {succeeds("an inner range", hdr), holds("the bytes are as before", hdr)},
       part},
      answers(
          "prefetch.flags", "flags are 0", {invalid_value}, hdr,
          [](Run& run) {
            return run.cu.cuMemPrefetchAsync_v2(run.managed(size), size, device_0, 1, run.stream());
          },
          location),
      answers(
          "prefetch.location_none", "a location of no type is refused",
          {invalid_value, invalid_device}, unsure,
          [](Run& run) {
            return run.cu.cuMemPrefetchAsync_v2(run.managed(size), size, {LocationType::none, 0}, 0,
                                                run.stream());
          },
          location),
      answers(
          "prefetch.location_absent_node", "a NUMA node must be there",
          {invalid_value, invalid_device}, unsure,
          [](Run& run) {
            return run.cu.cuMemPrefetchAsync_v2(run.managed(size), size,
                                                {LocationType::host_numa, 9999}, 0, run.stream());
          },
          location),
      answers(
          "prefetch.null_stream", "the default stream takes a prefetch", {ok}, hdr,
          [](Run& run) { return prefetch(run, run.managed(size), size, device_0, nullptr); },
          concurrent()),
      {"prefetch.resident",
       "the model moves pages, and tells where they are",
       concurrent() + model_only("residency is not queryable"),
       {holds("at first it is nowhere", model),
        holds("after a prefetch it is on the device", model),
        holds("after one back it is on the host", model)},
       resident},
      {"prefetch.partial",
       "the model leaves a page behind, so that nobody takes a prefetch for residency",
       concurrent() + model_only("a driver may move all or part"),
       {holds("not all of it is on the device", model), holds("a page alone is moved", model)},
       [](Run& run) {
         const abi::Stream stream = run.stream();
         const DevicePointer address = run.managed(size);
         run.must(prefetch(run, address, size, device_0, stream), "cuMemPrefetchAsync");
         run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
         run.holds("not all of it is on the device",
                   run.model->resident_bytes(address, size, 0) < size);
         const DevicePointer one = run.managed(4096);
         run.must(prefetch(run, one, 1, device_0, stream), "cuMemPrefetchAsync");
         run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
         run.holds("a page alone is moved", run.model->resident_bytes(one, 1, 0) == 1);
       }},
      {"prefetch.read_duplicated",
       "pages of a read-mostly range are copied, not moved, until someone writes",
       concurrent() + model_only("residency is not queryable"),
       {holds("a read-mostly range is on both sides", hdr), holds("a write leaves one copy", hdr),
        holds("and so does the end of the advice", uvm)},
       read_duplicated},
      {"prefetch.waits_for_its_turn",
       "a prefetch is ordered on its stream",
       concurrent() + having(cuda::Feature::tests) + model_only("residency is not queryable"),
       {holds("a prefetch that waits for its turn moves nothing", hdr),
        code("cuStreamQuery", {not_ready}, hdr), holds("once it had its turn it does", hdr)},
       not_yet_resident},
  };
  for (Test& test :
       both_abis<ByOrdinal>(by_ordinal_ids, having(cuda::Feature::advise_by_ordinal))) {
    tests.push_back(std::move(test));
  }
  for (Test& test :
       both_abis<ByLocation>(by_location_ids, having(cuda::Feature::advise_by_location))) {
    tests.push_back(std::move(test));
  }
  return tests;
}

}  // namespace assay::conformance
