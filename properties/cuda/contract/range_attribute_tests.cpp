// Range attributes: advice and prefetch requests read back.
#include <array>

#include "contract/advice.hpp"
#include "contract/groups.hpp"

namespace assay::conformance {
namespace {

using enum Source;
using abi::Advise;
using abi::Location;
using abi::LocationType;
using abi::RangeAttribute;
using Attribute = DeviceAttribute;

constexpr std::size_t half = 2 * MiB;  ///< more than the driver's largest page
constexpr std::size_t size = 2 * half;
constexpr Location device_0{LocationType::device, 0};
constexpr Location the_host{LocationType::host, 0};

int read(Run& run, RangeAttribute attribute, DevicePointer address, std::size_t bytes) {
  int value = -77;
  run.must(run.cu.cuMemRangeGetAttribute(&value, sizeof value, attribute, address, bytes),
           "cuMemRangeGetAttribute");
  return value;
}

void give(Run& run, DevicePointer address, std::size_t bytes, Advise advice, Location where) {
  run.must(advise(run, address, bytes, advice, where), "cuMemAdvise");
}

void read_mostly(Run& run) {
  const DevicePointer address = run.managed(size);
  run.value("at first", read(run, RangeAttribute::read_mostly, address, size));
  give(run, address, half, Advise::set_read_mostly, device_0);
  run.value("one half has it: that half", read(run, RangeAttribute::read_mostly, address, half));
  run.value("the other half", read(run, RangeAttribute::read_mostly, address + half, half));
  run.value("the whole", read(run, RangeAttribute::read_mostly, address, size));
  give(run, address + half, half, Advise::set_read_mostly, device_0);
  run.value("both halves have it: the whole",
            read(run, RangeAttribute::read_mostly, address, size));
  give(run, address, size, Advise::unset_read_mostly, device_0);
  run.value("unset", read(run, RangeAttribute::read_mostly, address, size));
}

void preferred(Run& run) {
  const DevicePointer address = run.managed(size);
  const auto seen = [&](DevicePointer at, std::size_t bytes) {
    return read(run, RangeAttribute::preferred_location, at, bytes);
  };
  run.value("at first", seen(address, size));
  give(run, address, half, Advise::set_preferred_location, device_0);
  run.value("on the device", seen(address, half));
  run.value("one half only", seen(address, size));
  give(run, address + half, half, Advise::set_preferred_location, the_host);
  run.value("on the host", seen(address + half, half));
  run.value("halves differ", seen(address, size));
  give(run, address, size, Advise::unset_preferred_location, device_0);
  run.value("unset", seen(address, size));
}

void accessed_by(Run& run) {
  const DevicePointer address = run.managed(size);
  const auto seen = [&](DevicePointer at, std::size_t bytes, std::array<int, 4>& list) {
    list.fill(-77);
    run.must(run.cu.cuMemRangeGetAttribute(list.data(), sizeof list, RangeAttribute::accessed_by,
                                           at, bytes),
             "cuMemRangeGetAttribute");
    return list[0];
  };
  std::array<int, 4> list{};
  run.value("at first", seen(address, size, list));
  give(run, address, half, Advise::set_accessed_by, device_0);
  run.value("one half: that half", seen(address, half, list));
  run.holds("the rest of the list is invalid", list[1] == -2 && list[3] == -2);
  run.value("one half: the whole", seen(address, size, list));
  give(run, address + half, half, Advise::set_accessed_by, device_0);
  run.value("both halves: the whole", seen(address, size, list));
  give(run, address, size, Advise::unset_accessed_by, device_0);
  run.value("unset", seen(address, size, list));
}

void last_prefetch(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer address = run.managed(size);
  const auto ask = [&](DevicePointer at, std::size_t bytes, Location where) {
    run.must(prefetch(run, at, bytes, where, stream), "cuMemPrefetchAsync");
    run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  };
  run.value("at first", read(run, RangeAttribute::last_prefetch_location, address, size));
  ask(address, size, device_0);
  run.value("to the device", read(run, RangeAttribute::last_prefetch_location, address, size));
  ask(address, half, the_host);
  run.value("half of it to the host",
            read(run, RangeAttribute::last_prefetch_location, address, half));
  run.value("halves differ", read(run, RangeAttribute::last_prefetch_location, address, size));
}

void prefetch_is_no_residency(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer address = run.managed(half);
  run.must(prefetch(run, address, half, device_0, stream), "cuMemPrefetchAsync");
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  *host(address) = std::byte{1};
  run.value("after a host write", read(run, RangeAttribute::last_prefetch_location, address, half));
}

void types(Run& run) {
  const DevicePointer address = run.managed(size);
  const auto type = [&] {
    return read(run, RangeAttribute::preferred_location_type, address, size);
  };
  const auto id = [&] { return read(run, RangeAttribute::preferred_location_id, address, size); };
  run.value("unset: type", type());
  give(run, address, size, Advise::set_preferred_location, device_0);
  run.value("device: type", type());
  run.value("device: id", id());
  give(run, address, size, Advise::set_preferred_location, the_host);
  run.value("host: type", type());
  give(run, address, size, Advise::set_preferred_location, {LocationType::host_numa, 0});
  run.value("node 0: type", type());
  run.value("node 0: id", id());
  run.value("node 0: by ordinal", read(run, RangeAttribute::preferred_location, address, size));
}

void prefetch_types(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer address = run.managed(size);
  run.must(prefetch(run, address, size, device_0, stream), "cuMemPrefetchAsync");
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.value("device: type", read(run, RangeAttribute::last_prefetch_location_type, address, size));
  run.value("device: id", read(run, RangeAttribute::last_prefetch_location_id, address, size));
}

void rounded_outward(Run& run) {
  const DevicePointer address = run.managed(half);
  give(run, address + 100, 1, Advise::set_read_mostly, device_0);
  run.value("the bytes around it", read(run, RangeAttribute::read_mostly, address, 4096));
}

void survives_copies(Run& run) {
  const DevicePointer address = run.managed(half);
  give(run, address, half, Advise::set_preferred_location, device_0);
  run.fill(address, 0x12, half);
  *host(address) = std::byte{1};
  run.value("after writes on both sides",
            read(run, RangeAttribute::preferred_location, address, half));
}

void not_inherited(Run& run) {
  const DevicePointer first = run.managed(half);
  give(run, first, half, Advise::set_read_mostly, device_0);
  run.must(run.cu.cuMemFree_v2(first), "cuMemFree");
  const DevicePointer second = run.managed(half);
  run.value("a new allocation", read(run, RangeAttribute::read_mostly, second, half));
}

void plural(Run& run) {
  const DevicePointer address = run.managed(size);
  give(run, address, size, Advise::set_read_mostly, device_0);
  give(run, address, size, Advise::set_preferred_location, the_host);
  int mostly = -77;
  int location = -77;
  void* into[] = {&mostly, &location};
  std::size_t sizes[] = {sizeof mostly, sizeof location};
  RangeAttribute which[] = {RangeAttribute::read_mostly, RangeAttribute::preferred_location};
  run.code("cuMemRangeGetAttributes",
           run.cu.cuMemRangeGetAttributes(into, sizes, which, 2, address, size));
  run.value("read mostly", mostly);
  run.value("preferred location", location);
}

void ordinal_reads_as_location(Run& run) {
  const DevicePointer address = run.managed(size);
  run.must(run.cu.cuMemAdvise(address, size, Advise::set_preferred_location, abi::device_cpu),
           "cuMemAdvise by ordinal");
  run.value("type", read(run, RangeAttribute::preferred_location_type, address, size));
  run.value("by ordinal", read(run, RangeAttribute::preferred_location, address, size));
}

Status ask(Run& run, std::size_t bytes, unsigned attribute, DevicePointer address,
           std::size_t count) {
  std::array<int, 4> value{};
  return run.cu.cuMemRangeGetAttribute(value.data(), bytes, static_cast<RangeAttribute>(attribute),
                                       address, count);
}

Tests refusals() {
  const Needs managed = with(Attribute::managed_memory);
  const Needs closed = managed + without(Attribute::pageable_memory_access);
  return {
      answers(
          "range_attribute.wrong_size", "each attribute has its size", {invalid_value}, hdr,
          [](Run& run) { return ask(run, 8, 1, run.managed(page), page); }, managed),
      answers(
          "range_attribute.list_size", "a list has room for whole ordinals", {invalid_value}, hdr,
          [](Run& run) { return ask(run, 6, 3, run.managed(page), page); }, managed),
      answers(
          "range_attribute.unknown", "an unknown attribute is refused", {invalid_value}, hdr,
          [](Run& run) { return ask(run, 4, 99, run.managed(page), page); }, managed),
      answers(
          "range_attribute.count_zero", "count 0 is refused", {invalid_value}, hdr,
          [](Run& run) { return ask(run, 4, 1, run.managed(page), 0); }, managed),
      answers(
          "range_attribute.past_end", "a range stays within its allocation", {invalid_value}, hdr,
          [](Run& run) { return ask(run, 4, 1, run.managed(page), page + 1); }, closed),
      answers(
          "range_attribute.device_memory", "device memory has none", {invalid_value}, hdr,
          [](Run& run) { return ask(run, 4, 1, run.device(page), page); }, managed),
      answers(
          "range_attribute.pageable", "nor has pageable memory", {invalid_value}, hdr,
          [](Run& run) { return ask(run, 4, 1, address_of(run.pageable(page)), page); }, closed),
      answers(
          "range_attribute.null", "cuMemRangeGetAttribute needs somewhere to write",
          {invalid_value}, hdr,
          [](Run& run) {
            return run.cu.cuMemRangeGetAttribute(nullptr, 4, RangeAttribute::read_mostly,
                                                 run.managed(page), page);
          },
          managed + null_out_pointer()),
  };
}

Tests newer() {
  const Needs needs =
      with(Attribute::concurrent_managed_access) + having(cuda::Feature::advise_by_location);
  return {
      {"range_attribute.types",
       "a preferred location has type and id; a node is told from the host by its type",
       needs,
       {value("unset: type", {0}, hdr), value("device: type", {1}, hdr),
        value("device: id", {0}, hdr), value("host: type", {2}, hdr),
        value("node 0: type", {3}, hdr), value("node 0: id", {0}, hdr),
        value("node 0: by ordinal", {-1, -2}, unsure)},
       types},
      {"range_attribute.prefetch_types",
       "and so has the last prefetch",
       needs,
       {value("device: type", {1}, hdr), value("device: id", {0}, hdr)},
       prefetch_types},
      {"range_attribute.ordinal_reads_as_location",
       "what was set by ordinal reads back by location",
       needs + having(cuda::Feature::advise_by_ordinal),
       {value("type", {2}, unsure), value("by ordinal", {-1}, hdr)},
       ordinal_reads_as_location},
  };
}

}  // namespace

Tests range_attribute_tests() {
  const Needs concurrent = with(Attribute::concurrent_managed_access);
  Tests tests = {
      {"range_attribute.read_mostly",
       "a range is read-mostly if all of it is",
       with(Attribute::managed_memory),
       {value("at first", {0}, hdr), value("one half has it: that half", {1}, hdr),
        value("the other half", {0}, hdr), value("the whole", {0}, hdr),
        value("both halves have it: the whole", {1}, hdr), value("unset", {0}, hdr)},
       read_mostly},
      {"range_attribute.preferred",
       "a range has a preferred location if all of it has the same",
       concurrent,
       {value("at first", {-2}, hdr), value("on the device", {0}, hdr),
        value("one half only", {-2}, hdr), value("on the host", {-1}, hdr),
        value("halves differ", {-2}, hdr), value("unset", {-2}, hdr)},
       preferred},
      {"range_attribute.accessed_by",
       "a device accesses a range if it accesses all of it",
       concurrent,
       {value("at first", {-2}, hdr), value("one half: that half", {0}, hdr),
        holds("the rest of the list is invalid", hdr), value("one half: the whole", {-2}, hdr),
        value("both halves: the whole", {0}, hdr), value("unset", {-2}, hdr)},
       accessed_by},
      {"range_attribute.last_prefetch",
       "the last destination asked for, if it is that of the whole range",
       concurrent,
       {value("at first", {-2}, hdr), value("to the device", {0}, hdr),
        value("half of it to the host", {-1}, hdr), value("halves differ", {-2}, hdr)},
       last_prefetch},
      {"range_attribute.prefetch_is_no_residency",
       "which says nothing of where the pages are now",
       concurrent,
       {value("after a host write", {0}, hdr)},
       prefetch_is_no_residency},
      {"range_attribute.rounded_outward",
       "advice is rounded outward to pages",
       with(Attribute::managed_memory),
       {value("the bytes around it", {1}, uvm)},
       rounded_outward},
      {"range_attribute.survives",
       "advice outlives writes and migration",
       concurrent,
       {value("after writes on both sides", {0}, hdr)},
       survives_copies},
      {"range_attribute.not_inherited",
       "a new allocation has no advice, whatever its address had",
       with(Attribute::managed_memory),
       {value("a new allocation", {0}, hdr)},
       not_inherited},
      {"range_attribute.plural",
       "several attributes in one call",
       with(Attribute::managed_memory),
       {succeeds("cuMemRangeGetAttributes", hdr), value("read mostly", {1}, hdr),
        value("preferred location", {-1}, hdr)},
       plural},
  };
  for (Test& test : newer()) tests.push_back(std::move(test));
  for (Test& test : refusals()) tests.push_back(std::move(test));
  return tests;
}

}  // namespace assay::conformance
