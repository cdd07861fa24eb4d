// Advice and prefetch by both ABIs.
#include <sched.h>
#include <unistd.h>

#include <string>

#include "arena.hpp"
#include "call.hpp"
#include "hidden.hpp"
#include "memory_book.hpp"
#include "page_policy.hpp"
#include "profile.hpp"
#include "range_check.hpp"
#include "stream_engine.hpp"

namespace assay::cuda::model {

namespace {

Status refuse_range(Rule rule, Range range, Purpose purpose) {
  if (purpose == Purpose::query) return answer(rule, Status::invalid_value);
  std::string text = "of " + describe_range(range.address, range.size);
  const std::uint64_t end = range.address + range.size;
  if (range.size == 0) {
    text += ", which is empty";
  } else if (end < range.address) {
    text += ", which runs over the end of the address space";
  } else {
    const std::string history = history_of(range.address);
    text += history == never_given_out ? ", which is no managed memory" : ": " + history;
  }
  return refuse(rule, Status::invalid_value, text);
}

}  // namespace

Status check_managed_range(Range range, Purpose purpose) noexcept {
  if (range.address == 0 || range.size == 0 || range.address + range.size < range.size) {
    return refuse_range(Rule::managed_range_empty, range, purpose);
  }
  const AllocationRef found = find_range(range);
  if (found != nullptr && found->kind == Kind::managed) return Status::success;
  if (found != nullptr || first_overlap(range) != nullptr) {
    return refuse_range(Rule::managed_range, range, purpose);
  }
  // Plain memory of the process: where the device reads the host's page tables or the kernel
  // mirrors them.
  if (profile().has(DeviceAttribute::pageable_memory_access) &&
      is_mapped(range.address, range.size)) {
    return Status::success;
  }
  return refuse_range(Rule::pageable_range, range, purpose);
}

namespace {

bool node_exists(int node) {
  const std::string path = "/sys/devices/system/node/node" + std::to_string(node);
  return node == 0 || (node > 0 && access(path.c_str(), F_OK) == 0);
}

int current_node() {
  unsigned cpu = 0;
  unsigned node = 0;
  return getcpu(&cpu, &node) == 0 ? static_cast<int>(node) : 0;
}

Status check_device(Device device) {
  if (device < 0 || device >= profile().devices) {
    return refuse(
        Rule::location_device, Status::invalid_device,
        "names device " + std::to_string(device) + " of " + std::to_string(profile().devices));
  }
  if (!profile().has(DeviceAttribute::concurrent_managed_access)) {
    return refuse(
        Rule::location_exclusive, Status::invalid_device,
        "names device " + std::to_string(device) + ", which has no concurrent managed access");
  }
  if (!device_in_use(device)) {
    return refuse(Rule::location_unused, Status::invalid_device,
                  "names device " + std::to_string(device) + ", which has no context yet; " +
                      describe_live_contexts());
  }
  return Status::success;
}

}  // namespace

Status check_location(Location& location) noexcept {
  switch (location.type) {
    case LocationType::device: return check_device(location.id);
    case LocationType::host: location.id = 0; return Status::success;
    case LocationType::host_numa:
      if (node_exists(location.id)) return Status::success;
      return refuse(Rule::location_node, Status::invalid_device,
                    "names NUMA node " + std::to_string(location.id) + ", which is not there");
    case LocationType::host_numa_current:
      location = {LocationType::host_numa, current_node()};
      return Status::success;
    case LocationType::none: break;
  }
  if (location.type > LocationType::host_numa_current) {  // diagnosed by the wrong ABI's rule
    return answer(Rule::location_type, Status::invalid_value);
  }
  return refuse(Rule::location_type, Status::invalid_value,
                "names no location; or its prototype is that of the first ABI, and this device 0");
}

namespace {

Location location_of(Device device) {
  return device == device_cpu ? Location{LocationType::host, 0}
                              : Location{LocationType::device, device};
}

bool ignores_location(Advise advice) {
  return advice == Advise::set_read_mostly || advice == Advise::unset_read_mostly ||
         advice == Advise::unset_preferred_location;
}

/// Pages of the range may hold other managed blocks, which get the advice too.
void look_for_neighbours(Range range, const Site& site) {
  const std::uint64_t first = round_down(range.address, page_size());
  const std::uint64_t end = round_up(range.address + range.size, page_size());
  const auto diagnose_in = [&](Range outside) {
    if (outside.size == 0) return;
    const AllocationRef asked = find_allocation(range.address);
    const AllocationRef other = first_overlap(outside);
    if (other == nullptr || other == asked || other->kind != Kind::managed) return;
    diagnose(Rule::advice_neighbour,
             describe(site) + " on " + describe_range(range.address, range.size) +
                 " reaches, by whole pages, " + describe_range(other->address, other->size) +
                 " made by " + describe(other->allocated));
  };
  diagnose_in({first, range.address - first});
  diagnose_in({range.address + range.size, end - range.address - range.size});
}

Status advise(Range range, Advise advice, Location location, const Site& site) {
  if (advice < Advise::set_read_mostly || advice > Advise::unset_accessed_by) {
    return answer(Rule::advice_unknown, Status::invalid_value);
  }
  if (const Status bad = check_managed_range(range, Purpose::change); bad != Status::success)
    return bad;
  const bool ignored = ignores_location(advice) &&
                       answer(Rule::location_ignored, Status::success) == Status::success;
  if (!ignored) {
    if (const Status bad = check_location(location); bad != Status::success) return bad;
    const bool accessed_by =
        advice == Advise::set_accessed_by || advice == Advise::unset_accessed_by;
    if (accessed_by && location.type == LocationType::host_numa) {
      return refuse(Rule::accessed_by_node, Status::invalid_value,
                    "names NUMA node " + std::to_string(location.id) +
                        ": only devices and the host are accessed by");
    }
  }
  look_for_neighbours(range, site);
  apply_advice(range, advice, location);
  return Status::success;
}

Status prefetch(Range range, Location location, Stream stream, const Site& site) {
  if (const Status bad = check_managed_range(range, Purpose::change); bad != Status::success)
    return bad;
  ContextRecord* const current = current_context();
  if (const Status bad = check_stream(stream, current); bad != Status::success) return bad;
  if (!profile().has(DeviceAttribute::concurrent_managed_access)) {
    return refuse(Rule::prefetch_exclusive, Status::invalid_device,
                  "of " + describe_range(range.address, range.size) +
                      ": the device has no concurrent managed access");
  }
  if (const Status bad = check_location(location); bad != Status::success) return bad;
  Operation operation;
  operation.name = "prefetch";
  operation.reads = {range};
  operation.site = site;
  operation.run = [range, location] {
    apply_prefetch(range, location);
    return Status::success;
  };
  const Status status = enqueue(stream, current, std::move(operation));
  if (status == Status::success) note_prefetch_request(range, location);
  return status;
}

/// The second ABI passes a location where the first has an ordinal: its type, from 1 to 4.
void look_for_newer_abi(Device ordinal, const Site& site) {
  const auto type = static_cast<LocationType>(ordinal);
  if (type < LocationType::device || type > LocationType::host_numa_current) return;
  if (ordinal < profile().devices) return;
  diagnose(Rule::ordinal_looks_location,
           describe(site) + " got device " + std::to_string(ordinal) + " of " +
               std::to_string(profile().devices) +
               ", which is a location's type: is the caller's prototype that of the second ABI?");
}

/// The first ABI passes an ordinal where the second has a location: a type beyond the known ones.
void look_for_wrong_abi(Location location, const Site& site) {
  if (location.type <= LocationType::host_numa_current) return;
  diagnose(Rule::location_looks_ordinal, describe(site) + " got location type " +
                                             std::to_string(static_cast<int>(location.type)) +
                                             ": is the caller's prototype that of the first ABI?");
}

}  // namespace

extern "C" {

Status cuMemAdvise(DevicePointer address, std::size_t size, Advise advice, Device device) {
  ASSAY_MODEL_CALL(cuMemAdvise, sound);
  if (!ignores_location(advice)) look_for_newer_abi(device, call.site());
  return advise({address, size}, advice, location_of(device), call.site());
}

Status implement_cuMemAdvise_v2(DevicePointer address, std::size_t size, Advise advice,
                                Location location) {
  ASSAY_MODEL_CALL(cuMemAdvise_v2, sound);
  if (!ignores_location(advice)) look_for_wrong_abi(location, call.site());
  return advise({address, size}, advice, location, call.site());
}

Status cuMemPrefetchAsync(DevicePointer address, std::size_t size, Device device, Stream stream) {
  ASSAY_MODEL_CALL(cuMemPrefetchAsync, sound);
  look_for_newer_abi(device, call.site());
  return prefetch({address, size}, location_of(device), stream, call.site());
}

Status implement_cuMemPrefetchAsync_v2(DevicePointer address, std::size_t size, Location location,
                                       unsigned flags, Stream stream) {
  ASSAY_MODEL_CALL(cuMemPrefetchAsync_v2, sound);
  look_for_wrong_abi(location, call.site());
  if (flags != 0) {
    return refuse(Rule::prefetch_flags, Status::invalid_value,
                  "has flags " + std::to_string(flags) +
                      ", and there are none: the first ABI passes its stream there");
  }
  return prefetch({address, size}, location, stream, call.site());
}

ASSAY_MODEL_HIDDEN_BELOW(12020, cuMemAdvise_v2)
ASSAY_MODEL_HIDDEN_BELOW(12020, cuMemPrefetchAsync_v2)

}  // extern "C"

}  // namespace assay::cuda::model
