// Virtual memory management: granularity, reservations, physical memory.
#include "contract/virtual.hpp"

#include "contract/groups.hpp"

namespace assay::conformance {
namespace {

using enum Source;
using abi::AllocationProp;
using abi::AllocationType;
using abi::GranularityFlags;
using abi::LocationType;
using Attribute = DeviceAttribute;

/// What a refused reservation may give: 1 by the header, 2 by hip-tests.
const std::vector<std::int64_t> one_or_two = {invalid_value, out_of_memory};

std::size_t granularity_of(Run& run, GranularityFlags option) {
  std::size_t size = 0;
  const AllocationProp properties = on_device();
  run.must(run.cu.cuMemGetAllocationGranularity(&size, &properties, option),
           "cuMemGetAllocationGranularity");
  return size;
}

void granularities(Run& run) {
  const std::size_t least = granularity_of(run, GranularityFlags::minimum);
  const std::size_t best = granularity_of(run, GranularityFlags::recommended);
  run.holds("the least is a multiple of a page", least != 0 && least % (4 * KiB) == 0);
  run.holds("the recommended one is a multiple of it", best != 0 && best % least == 0);
  run.note("granularity " + std::to_string(least) + ", recommended " + std::to_string(best));
}

Status ask_granularity(Run& run, const AllocationProp& properties, GranularityFlags option) {
  std::size_t size = 0;
  return run.cu.cuMemGetAllocationGranularity(&size, &properties, option);
}

Tests granularity_tests() {
  const auto refused = std::vector<std::int64_t>{invalid_value};
  constexpr GranularityFlags least = GranularityFlags::minimum;
  return {
      {"virtual.granularity",
       "sizes and addresses are multiples of a granularity, of which there are two",
       virtual_memory(),
       {holds("the least is a multiple of a page", hdr),
        holds("the recommended one is a multiple of it", unsure)},
       granularities},
      answers(
          "virtual.granularity_option", "no more than two", refused, hdr,
          [](Run& run) {
            return ask_granularity(run, on_device(), static_cast<GranularityFlags>(7));
          },
          virtual_memory()),
      answers(
          "virtual.granularity_type", "a granularity is of an allocation of some type", refused,
          unsure,
          [](Run& run) {
            AllocationProp properties = on_device();
            properties.type = AllocationType::invalid;
            return ask_granularity(run, properties, least);
          },
          virtual_memory()),
      answers(
          "virtual.granularity_bad_device", "on a device that is there",
          {invalid_value, invalid_device}, unsure,
          [](Run& run) { return ask_granularity(run, on_device(99), least); }, virtual_memory()),
      answers(
          "virtual.granularity_null_out", "it is written somewhere", refused, hdr,
          [](Run& run) {
            const AllocationProp properties = on_device();
            return run.cu.cuMemGetAllocationGranularity(nullptr, &properties, least);
          },
          virtual_memory() + null_out_pointer()),
      answers(
          "virtual.granularity_null_properties", "and of properties", refused, hdr,
          [](Run& run) {
            std::size_t size = 0;
            return run.cu.cuMemGetAllocationGranularity(&size, nullptr, least);
          },
          virtual_memory() + model_only("a driver may read a null pointer")),
      answers(
          "virtual.granularity_unsupported", "a device that manages none has none",
          {not_supported, invalid_value}, unsure,
          [](Run& run) { return ask_granularity(run, on_device(), least); },
          having(cuda::Feature::virtual_memory) +
              without(Attribute::virtual_memory_management_supported)),
  };
}

void reservations(Run& run) {
  const std::size_t size = granularity(run);
  const DevicePointer first = reserve(run, size);
  const DevicePointer second = reserve(run, 3 * size);
  run.holds("none is null", first != 0 && second != 0);
  run.holds("they are apart", first + size <= second || second + 3 * size <= first);
  run.holds("they begin at a multiple of the granularity", first % size == 0 && second % size == 0);
  DevicePointer aligned = 0;
  run.code("with an alignment", run.cu.cuMemAddressReserve(&aligned, size, 64 * MiB, 0, 0));
  run.holds("it is kept", aligned % (64 * MiB) == 0);
  DevicePointer hinted = 0;
  run.code("with a hint that is taken", run.cu.cuMemAddressReserve(&hinted, size, 0, first, 0));
  run.holds("gives another place", hinted != 0 && hinted != first);
  run.code("cuMemAddressFree", run.cu.cuMemAddressFree(first, size));
  run.code("of the other", run.cu.cuMemAddressFree(second, 3 * size));
}

void bare(Run& run) {
  const std::size_t size = granularity(run);
  const DevicePointer address = reserve(run, size);
  std::byte* const memory = run.pinned(page);
  run.code("a copy to it", run.cu.cuMemcpyHtoD_v2(address, memory, page));
  run.code("a set of it", run.cu.cuMemsetD8_v2(address, 1, page));
  unsigned long long flags = 0;
  run.code("its access", run.cu.cuMemGetAccess(&flags, &first_device, address));
  run.code("access to it", grant(run, address, size, abi::AccessFlags::read_write));
}

Status reserve_as(Run& run, std::size_t size, std::size_t alignment, unsigned long long flags) {
  DevicePointer address = 0;
  return run.cu.cuMemAddressReserve(&address, size, alignment, 0, flags);
}

Tests reservation_tests() {
  const Needs absent = having(cuda::Feature::virtual_memory) +
                       without(Attribute::virtual_memory_management_supported);
  return {
      {"virtual.reserve",
       "address space is reserved apart, aligned, and given back",
       virtual_memory(),
       {holds("none is null", hdr), holds("they are apart", hdr),
        holds("they begin at a multiple of the granularity", unsure),
        succeeds("with an alignment", hdr), holds("it is kept", hdr),
        succeeds("with a hint that is taken", hdr), holds("gives another place", hdr),
        succeeds("cuMemAddressFree", hdr), succeeds("of the other", hdr)},
       reservations},
      {"virtual.bare",
       "a reservation is no memory",
       virtual_memory(),
       {code("a copy to it", {invalid_value}, hip), code("a set of it", {invalid_value}, hip),
        code("its access", {invalid_value}, unsure), code("access to it", {invalid_value}, hdr)},
       bare},
      {"virtual.bare_touch",
       "for the host neither",
       virtual_memory(),
       {faults("host read", doc)},
       [](Run& run) { run.signal("host read", read_at(host(reserve(run, granularity(run))))); }},
      answers(
          "virtual.reserve_zero", "size 0 is refused", one_or_two, unsure,
          [](Run& run) { return reserve_as(run, 0, 0, 0); }, virtual_memory()),
      answers(
          "virtual.reserve_odd_size", "a size is a multiple of a page", one_or_two, hdr,
          [](Run& run) { return reserve_as(run, granularity(run) + 1, 0, 0); }, virtual_memory()),
      answers(
          "virtual.reserve_odd_alignment", "an alignment is a power of two", one_or_two, hdr,
          [](Run& run) { return reserve_as(run, granularity(run), 3, 0); }, virtual_memory()),
      answers(
          "virtual.reserve_odd_hint", "a hint begins a page", one_or_two, hdr,
          [](Run& run) {
            DevicePointer address = 0;
            const std::size_t size = granularity(run);
            return run.cu.cuMemAddressReserve(&address, size, 0, (DevicePointer{1} << 40) + 1, 0);
          },
          virtual_memory()),
      answers(
          "virtual.reserve_flags", "flags are 0", {invalid_value}, hdr,
          [](Run& run) { return reserve_as(run, granularity(run), 0, 1); }, virtual_memory()),
      answers(
          "virtual.reserve_too_big", "there is an end to address space", one_or_two, unsure,
          [](Run& run) { return reserve_as(run, std::size_t{1} << 62, 0, 0); }, virtual_memory()),
      answers(
          "virtual.reserve_null_out", "it is written somewhere", {invalid_value}, hdr,
          [](Run& run) { return run.cu.cuMemAddressReserve(nullptr, granularity(run), 0, 0, 0); },
          virtual_memory() + null_out_pointer()),
      answers(
          "virtual.reserve_unsupported", "a device that manages none reserves none",
          {not_supported}, hdr, [](Run& run) { return reserve_as(run, 64 * MiB, 0, 0); }, absent),
  };
}

Status free_twice(Run& run) {
  const std::size_t size = granularity(run);
  const DevicePointer address = reserve(run, size);
  run.must(run.cu.cuMemAddressFree(address, size), "cuMemAddressFree");
  return run.cu.cuMemAddressFree(address, size);
}

Tests address_free_tests() {
  const auto refused = std::vector<std::int64_t>{invalid_value};
  return {
      answers(
          "virtual.free_shorter", "a reservation goes whole", refused, hdr,
          [](Run& run) {
            const std::size_t size = granularity(run);
            return run.cu.cuMemAddressFree(reserve(run, 2 * size), size);
          },
          virtual_memory()),
      answers(
          "virtual.free_longer", "and alone", refused, hdr,
          [](Run& run) {
            const std::size_t size = granularity(run);
            return run.cu.cuMemAddressFree(reserve(run, size), 2 * size);
          },
          virtual_memory()),
      answers(
          "virtual.free_interior", "by its start", refused, hdr,
          [](Run& run) {
            const std::size_t size = granularity(run);
            return run.cu.cuMemAddressFree(reserve(run, 2 * size) + size, size);
          },
          virtual_memory()),
      answers(
          "virtual.free_unknown", "what was never reserved is not given back", refused, hdr,
          [](Run& run) { return run.cu.cuMemAddressFree(address_of(run.pageable(page)), page); },
          virtual_memory()),
      answers("virtual.free_twice", "nor is a reservation twice", refused, hdr, free_twice,
              virtual_memory() + model_only("the address may be another's by then")),
      answers(
          "virtual.free_mapped", "nor one that is mapped", refused, unsure,
          [](Run& run) {
            const std::size_t size = granularity(run);
            return run.cu.cuMemAddressFree(mapped(run, size), size);
          },
          virtual_memory()),
      answers(
          "virtual.free_null", "address 0 is no reservation", refused, unsure,
          [](Run& run) { return run.cu.cuMemAddressFree(0, granularity(run)); }, virtual_memory()),
  };
}

Status create_as(Run& run, std::size_t size, const AllocationProp& properties,
                 unsigned long long flags = 0) {
  abi::AllocationHandle handle = 0;
  return run.cu.cuMemCreate(&handle, size, &properties, flags);
}

AllocationProp at(abi::Location where) {
  AllocationProp properties = on_device();
  properties.location = where;
  return properties;
}

void physical(Run& run) {
  const std::size_t size = granularity(run);
  const AllocationProp properties = on_device();
  abi::AllocationHandle handle = 0;
  run.code("cuMemCreate", run.cu.cuMemCreate(&handle, size, &properties, 0));
  run.holds("a handle is given", handle != 0);
  run.holds("each has its own", create(run, size) != handle);
  AllocationProp seen{};
  run.code("cuMemGetAllocationPropertiesFromHandle",
           run.cu.cuMemGetAllocationPropertiesFromHandle(&seen, handle));
  run.holds("type and location are those asked for",
            seen.type == AllocationType::pinned && seen.location.type == LocationType::device &&
                seen.location.id == 0);
  run.code("cuMemRelease", run.cu.cuMemRelease(handle));
}

void capacity(Run& run) {
  const std::size_t size = granularity(run);
  const std::size_t piece = (20 * MiB + size - 1) / size * size;
  run.model->set_capacity(piece + piece / 2);
  const AllocationProp properties = on_device();
  abi::AllocationHandle first = 0;
  abi::AllocationHandle second = 0;
  run.code("within the capacity", run.cu.cuMemCreate(&first, piece, &properties, 0));
  run.code("beyond it", run.cu.cuMemCreate(&second, piece, &properties, 0));
  release(run, first);
  run.code("after the release", run.cu.cuMemCreate(&second, piece, &properties, 0));
  const DevicePointer address = reserve(run, piece);
  map(run, address, piece, second);
  release(run, second);
  run.code("while it is mapped", run.cu.cuMemCreate(&first, piece, &properties, 0));
  unmap(run, address, piece);
  run.code("after the unmap", run.cu.cuMemCreate(&first, piece, &properties, 0));
}

Tests physical_tests() {
  const auto refused = std::vector<std::int64_t>{invalid_value};
  return {
      {"virtual.create",
       "physical memory has a handle, by which it is described and released",
       virtual_memory(),
       {succeeds("cuMemCreate", hdr), holds("a handle is given", hdr),
        holds("each has its own", hdr), succeeds("cuMemGetAllocationPropertiesFromHandle", hdr),
        holds("type and location are those asked for", hdr), succeeds("cuMemRelease", hdr)},
       physical},
      {"virtual.capacity",
       "the model's physical memory counts until handle and mapping are gone",
       virtual_memory() + model_only("the true limit of a device is not known"),
       {succeeds("within the capacity", model), code("beyond it", {out_of_memory}, hdr),
        succeeds("after the release", hdr), code("while it is mapped", {out_of_memory}, hdr),
        succeeds("after the unmap", hdr)},
       capacity},
      answers(
          "virtual.create_zero", "size 0 is refused", refused, hdr,
          [](Run& run) { return create_as(run, 0, on_device()); }, virtual_memory()),
      answers(
          "virtual.create_odd_size", "a size is a multiple of the granularity", refused, hdr,
          [](Run& run) { return create_as(run, granularity(run) + 4 * KiB, on_device()); },
          virtual_memory()),
      answers(
          "virtual.create_flags", "flags are 0", refused, hdr,
          [](Run& run) { return create_as(run, granularity(run), on_device(), 1); },
          virtual_memory()),
      answers(
          "virtual.create_type", "memory is of some type", refused, hdr,
          [](Run& run) {
            AllocationProp properties = on_device();
            properties.type = AllocationType::invalid;
            return create_as(run, granularity(run), properties);
          },
          virtual_memory()),
      answers(
          "virtual.create_bad_device", "on a device that is there", {invalid_value, invalid_device},
          unsure, [](Run& run) { return create_as(run, granularity(run), on_device(99)); },
          virtual_memory()),
      answers(
          "virtual.create_nowhere", "it lies somewhere", {invalid_value, invalid_device}, unsure,
          [](Run& run) { return create_as(run, granularity(run), at({LocationType::none, 0})); },
          virtual_memory()),
      answers(
          "virtual.create_too_big", "more than the device has is out of memory", {out_of_memory},
          hdr, [](Run& run) { return create_as(run, std::size_t{1} << 50, on_device()); },
          virtual_memory()),
  };
}

Tests place_tests() {
  const auto refused = std::vector<std::int64_t>{invalid_value};
  const auto absent = std::vector<std::int64_t>{not_supported, invalid_value, invalid_device};
  return {
      answers(
          "virtual.create_node_current", "the current node is no location of memory", refused, hdr,
          [](Run& run) {
            return create_as(run, granularity(run), at({LocationType::host_numa_current, 0}));
          },
          virtual_memory() + since(12020)),
      answers(
          "virtual.create_host_unsupported", "host memory where the device maps none", absent,
          unsure, [](Run& run) { return create_as(run, 64 * MiB, at({LocationType::host, 0})); },
          virtual_memory() + without(Attribute::host_virtual_memory_management_supported)),
      answers(
          "virtual.create_host", "host memory", {ok}, hdr,
          [](Run& run) { return create_as(run, 64 * MiB, at({LocationType::host, 0})); },
          virtual_memory() + with(Attribute::host_virtual_memory_management_supported)),
      answers(
          "virtual.create_shared_unsupported", "handle types that the device has not",
          {not_supported, invalid_value}, unsure,
          [](Run& run) {
            AllocationProp properties = on_device();
            properties.requested_handle_types = abi::HandleType::posix_file_descriptor;
            return create_as(run, granularity(run), properties);
          },
          virtual_memory() + without(Attribute::handle_type_posix_file_descriptor_supported)),
      answers(
          "virtual.create_null_out", "a handle is written somewhere", refused, hdr,
          [](Run& run) {
            const AllocationProp properties = on_device();
            return run.cu.cuMemCreate(nullptr, granularity(run), &properties, 0);
          },
          virtual_memory() + null_out_pointer()),
      answers(
          "virtual.create_null_properties", "memory has properties", refused, hdr,
          [](Run& run) {
            abi::AllocationHandle handle = 0;
            return run.cu.cuMemCreate(&handle, granularity(run), nullptr, 0);
          },
          virtual_memory() + model_only("a driver may read a null pointer")),
      answers(
          "virtual.create_unsupported", "a device that manages none creates none", {not_supported},
          hdr, [](Run& run) { return create_as(run, 64 * MiB, on_device()); },
          having(cuda::Feature::virtual_memory) +
              without(Attribute::virtual_memory_management_supported)),
      answers(
          "virtual.release_twice", "a reference is released once", {invalid_value, invalid_handle},
          unsure,
          [](Run& run) {
            const abi::AllocationHandle handle = create(run, granularity(run));
            release(run, handle);
            return run.cu.cuMemRelease(handle);
          },
          virtual_memory() + model_only("the use of a released handle is undefined")),
      answers(
          "virtual.release_unknown", "of a handle that there is", {invalid_value, invalid_handle},
          unsure, [](Run& run) { return run.cu.cuMemRelease(0); },
          virtual_memory() + model_only("an invalid handle is undefined")),
      answers(
          "virtual.properties_unknown", "an unknown handle has no properties",
          {invalid_value, invalid_handle}, unsure,
          [](Run& run) {
            AllocationProp seen{};
            return run.cu.cuMemGetAllocationPropertiesFromHandle(&seen, 0);
          },
          virtual_memory() + model_only("an invalid handle is undefined")),
      answers(
          "virtual.properties_null_out", "properties are written somewhere", refused, hdr,
          [](Run& run) {
            return run.cu.cuMemGetAllocationPropertiesFromHandle(nullptr,
                                                                 create(run, granularity(run)));
          },
          virtual_memory() + null_out_pointer()),
  };
}

}  // namespace

Tests virtual_tests() {
  Tests tests = granularity_tests();
  for (Test& test : reservation_tests()) tests.push_back(std::move(test));
  for (Test& test : address_free_tests()) tests.push_back(std::move(test));
  for (Test& test : physical_tests()) tests.push_back(std::move(test));
  for (Test& test : place_tests()) tests.push_back(std::move(test));
  return tests;
}

}  // namespace assay::conformance
