// Advice: cuMemAdvise by ordinal (8.0) and by location (12.2), one list for both.
#include <memory>
#include <string>
#include <vector>

#include "contract/advice.hpp"
#include "contract/groups.hpp"

namespace assay::conformance {
namespace {

using enum Source;
using abi::Advise;
using abi::Location;
using abi::LocationType;
using Attribute = DeviceAttribute;

constexpr std::size_t size = 4 * page;
constexpr Location device_0{LocationType::device, 0};
constexpr Location the_host{LocationType::host, 0};

struct Statement {
  const char* id;  ///< after "advice.by_ordinal_" or "advice.by_location_"
  const char* states;
  std::vector<std::int64_t> allowed;
  Source source;
  Call by_ordinal;
  Call by_location;
  Needs needs{};
};

template <class Abi>
Status set(Run& run, DevicePointer address, std::size_t bytes, Advise advice, Location where) {
  return Abi::advise(run, address, bytes, advice, where);
}

/// Every advice succeeds on a whole allocation.
template <class Abi, Advise advice>
Status plain(Run& run) {
  return set<Abi>(run, run.managed(size), size, advice, device_0);
}
template <class Abi, Advise advice>
Status on_host(Run& run) {
  return set<Abi>(run, run.managed(size), size, advice, the_host);
}
template <class Abi>
Status part(Run& run) {
  return set<Abi>(run, run.managed(size) + page, page, Advise::set_read_mostly, device_0);
}
template <class Abi>
Status count_zero(Run& run) {
  return set<Abi>(run, run.managed(size), 0, Advise::set_read_mostly, device_0);
}
template <class Abi>
Status null(Run& run) {
  return set<Abi>(run, 0, size, Advise::set_read_mostly, device_0);
}
template <class Abi>
Status past_end(Run& run) {
  return set<Abi>(run, run.managed(size), size + 1, Advise::set_read_mostly, device_0);
}
template <class Abi>
Status device_memory(Run& run) {
  return set<Abi>(run, run.device(size), size, Advise::set_read_mostly, device_0);
}
template <class Abi>
Status pinned(Run& run) {
  return set<Abi>(run, address_of(run.pinned(size)), size, Advise::set_read_mostly, device_0);
}
template <class Abi>
Status pageable(Run& run) {
  return set<Abi>(run, address_of(run.pageable(size)), size, Advise::set_read_mostly, device_0);
}
template <class Abi>
Status freed(Run& run) {
  const DevicePointer address = run.managed(size);
  run.must(run.cu.cuMemFree_v2(address), "cuMemFree");
  return set<Abi>(run, address, size, Advise::set_read_mostly, device_0);
}
template <class Abi>
Status unknown_advice(Run& run) {
  return set<Abi>(run, run.managed(size), size, static_cast<Advise>(99), device_0);
}
template <class Abi, Advise advice>
Status bad_ordinal(Run& run) {
  return set<Abi>(run, run.managed(size), size, advice, {LocationType::device, 99});
}

#define ASSAY_BOTH(function) function<ByOrdinal>, function<ByLocation>
#define ASSAY_BOTH_OF(function, advice) function<ByOrdinal, advice>, function<ByLocation, advice>

std::vector<Statement> accepted() {
  const Needs concurrent = with(Attribute::concurrent_managed_access);
  return {
      {"read_mostly",
       "SET_READ_MOSTLY is taken",
       {ok},
       hdr,
       ASSAY_BOTH_OF(plain, Advise::set_read_mostly)},
      {"unset_read_mostly",
       "UNSET_READ_MOSTLY is taken, set before or not",
       {ok},
       hdr,
       ASSAY_BOTH_OF(plain, Advise::unset_read_mostly)},
      {"preferred_device",
       "SET_PREFERRED_LOCATION on a device is taken",
       {ok},
       hdr,
       ASSAY_BOTH_OF(plain, Advise::set_preferred_location),
       concurrent},
      {"preferred_host",
       "and on the host",
       {ok},
       hdr,
       ASSAY_BOTH_OF(on_host, Advise::set_preferred_location)},
      {"unset_preferred",
       "UNSET_PREFERRED_LOCATION is taken, set before or not",
       {ok},
       hdr,
       ASSAY_BOTH_OF(plain, Advise::unset_preferred_location)},
      {"accessed_by_device",
       "SET_ACCESSED_BY a device is taken",
       {ok},
       hdr,
       ASSAY_BOTH_OF(plain, Advise::set_accessed_by),
       concurrent},
      {"accessed_by_host",
       "and by the host",
       {ok},
       hdr,
       ASSAY_BOTH_OF(on_host, Advise::set_accessed_by)},
      {"unset_accessed_by",
       "UNSET_ACCESSED_BY is taken, set before or not",
       {ok},
       hdr,
       ASSAY_BOTH_OF(plain, Advise::unset_accessed_by),
       concurrent},
      {"part", "advice may be for a part", {ok}, hdr, ASSAY_BOTH(part)},
      {"read_mostly_ignores_location",
       "SET_READ_MOSTLY ignores its device",
       {ok},
       hip,
       ASSAY_BOTH_OF(bad_ordinal, Advise::set_read_mostly)},
      {"unset_read_mostly_ignores_location",
       "and so does UNSET_READ_MOSTLY",
       {ok},
       hip,
       ASSAY_BOTH_OF(bad_ordinal, Advise::unset_read_mostly)},
      {"unset_preferred_ignores_location",
       "and UNSET_PREFERRED_LOCATION",
       {ok},
       hip,
       ASSAY_BOTH_OF(bad_ordinal, Advise::unset_preferred_location)},
  };
}

std::vector<Statement> refused() {
  const Needs no_pageable = without(Attribute::pageable_memory_access);
  const Needs exclusive = without(Attribute::concurrent_managed_access);
  return {
      {"count_zero", "count 0 is refused", {invalid_value}, hip, ASSAY_BOTH(count_zero)},
      {"null", "null is no range", {invalid_value}, hip, ASSAY_BOTH(null)},
      {"past_end",
       "a range stays within its allocation",
       {invalid_value},
       hip,
       ASSAY_BOTH(past_end)},
      {"device_memory",
       "device memory takes no advice",
       {invalid_value},
       hdr,
       ASSAY_BOTH(device_memory)},
      {"pinned", "nor does pinned memory", {invalid_value}, hdr, ASSAY_BOTH(pinned), no_pageable},
      {"pageable_refused",
       "pageable memory takes none where the device cannot reach it",
       {invalid_value},
       hdr,
       ASSAY_BOTH(pageable),
       no_pageable},
      {"pageable",
       "and takes it where the device can",
       {ok},
       hdr,
       ASSAY_BOTH(pageable),
       with(Attribute::pageable_memory_access)},
      {"freed",
       "freed memory takes no advice",
       {invalid_value},
       hdr,
       ASSAY_BOTH(freed),
       no_pageable},
      {"unknown", "an unknown advice is refused", {invalid_value}, hdr, ASSAY_BOTH(unknown_advice)},
      {"preferred_bad_device",
       "a preferred device must be there",
       {invalid_device},
       hdr,
       ASSAY_BOTH_OF(bad_ordinal, Advise::set_preferred_location)},
      {"accessed_by_bad_device",
       "and so must an accessing one",
       {invalid_device},
       hdr,
       ASSAY_BOTH_OF(bad_ordinal, Advise::set_accessed_by)},
      {"unset_accessed_by_bad_device",
       "also one that accesses no more",
       {invalid_device},
       hdr,
       ASSAY_BOTH_OF(bad_ordinal, Advise::unset_accessed_by)},
      {"preferred_exclusive",
       "a device of exclusive access is no preferred location",
       {invalid_device},
       hdr,
       ASSAY_BOTH_OF(plain, Advise::set_preferred_location),
       exclusive},
      {"accessed_by_exclusive",
       "nor an accessing device",
       {invalid_device},
       hdr,
       ASSAY_BOTH_OF(plain, Advise::set_accessed_by),
       exclusive},
  };
}

/// The id is kept for the life of the program.
const char* kept(std::string text) {
  static std::vector<std::unique_ptr<std::string>> all;
  all.push_back(std::make_unique<std::string>(std::move(text)));
  return all.back()->c_str();
}

void add_both(const Statement& statement, Tests& to) {
  const Needs needs = with(Attribute::managed_memory) + statement.needs;
  to.push_back(answers(kept(std::string("advice.by_ordinal_") + statement.id), statement.states,
                       statement.allowed, statement.source, statement.by_ordinal,
                       needs + having(cuda::Feature::advise_by_ordinal)));
  to.push_back(answers(kept(std::string("advice.by_location_") + statement.id), statement.states,
                       statement.allowed, statement.source, statement.by_location,
                       needs + having(cuda::Feature::advise_by_location)));
}

Status at(Run& run, Advise advice, Location where) {
  return run.cu.cuMemAdvise_v2(run.managed(size), size, advice, where);
}

/// Device 1 has no context, so the kernel module knows no address space of it.
Status unused_device(Run& run) {
  int count = 0;
  run.must(run.cu.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (count < 2) run.skip("needs two devices");
  return advise(run, run.managed(size), size, Advise::set_preferred_location,
                {LocationType::device, 1});
}

Tests locations() {
  const Needs needs =
      with(Attribute::concurrent_managed_access) + having(cuda::Feature::advise_by_location);
  return {
      answers(
          "advice.location_none", "a location of no type is refused",
          {invalid_value, invalid_device}, unsure,
          [](Run& run) { return at(run, Advise::set_preferred_location, {LocationType::none, 0}); },
          needs),
      answers(
          "advice.location_unknown", "and so is one of an unknown type",
          {invalid_value, invalid_device}, unsure,
          [](Run& run) {
            return at(run, Advise::set_preferred_location, {static_cast<LocationType>(99), 0});
          },
          needs),
      answers(
          "advice.location_absent_node", "a NUMA node must be there",
          {invalid_value, invalid_device}, unsure,
          [](Run& run) {
            return at(run, Advise::set_preferred_location, {LocationType::host_numa, 9999});
          },
          needs),
      answers(
          "advice.location_node", "node 0 is there", {ok}, hdr,
          [](Run& run) {
            return at(run, Advise::set_preferred_location, {LocationType::host_numa, 0});
          },
          needs),
      answers(
          "advice.accessed_by_node", "a NUMA node accesses nothing", {invalid_value}, hdr,
          [](Run& run) { return at(run, Advise::set_accessed_by, {LocationType::host_numa, 0}); },
          needs),
      answers(
          "advice.accessed_by_this_node", "nor does the thread's node", {invalid_value}, hdr,
          [](Run& run) {
            return at(run, Advise::set_accessed_by, {LocationType::host_numa_current, 0});
          },
          needs),
      answers(
          "advice.host_ignores_id", "the host has one id, whatever is given", {ok}, hdr,
          [](Run& run) { return at(run, Advise::set_preferred_location, {LocationType::host, 7}); },
          needs),
  };
}

void contents(Run& run) {
  const DevicePointer address = run.managed(size);
  run.fill(address, 0x5E, size);
  for (const Advise advice : {Advise::set_read_mostly, Advise::set_preferred_location,
                              Advise::set_accessed_by, Advise::unset_read_mostly}) {
    run.must(advise(run, address, size, advice, device_0), "cuMemAdvise");
  }
  run.holds("the bytes are as before", run.filled(address, 0x5E, size));
}

}  // namespace

Tests advice_tests() {
  Tests tests = {
      {"advice.contents",
       "advice changes no byte",
       with(Attribute::concurrent_managed_access),
       {holds("the bytes are as before", hdr)},
       contents},
  };
  tests.push_back(answers("advice.unused_device", "a device without a context is no location",
                          {invalid_device}, uvm, unused_device,
                          with(Attribute::concurrent_managed_access)));
  for (const Statement& statement : accepted()) add_both(statement, tests);
  for (const Statement& statement : refused()) add_both(statement, tests);
  for (Test& test : locations()) tests.push_back(std::move(test));
  return tests;
}

}  // namespace assay::conformance
