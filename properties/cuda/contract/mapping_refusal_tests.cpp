// Mappings: what cuMemMap, cuMemUnmap, cuMemSetAccess and their kin refuse.
#include "contract/advice.hpp"
#include "contract/groups.hpp"
#include "contract/virtual.hpp"

namespace assay::conformance {
namespace {

using enum Source;
using abi::AccessFlags;
using abi::AllocationHandle;
using abi::LocationType;

constexpr AccessFlags all = AccessFlags::read_write;

Test refuses(const char* id, const char* states, Source source, Call call,
             const Needs& needs = {}) {
  return answers(id, states, {invalid_value}, source, call, virtual_memory() + needs);
}

Tests maps() {
  return {
      refuses("mapping.offset", "an offset is 0", hdr,
              [](Run& run) {
                const std::size_t size = granularity(run);
                return run.cu.cuMemMap(reserve(run, size), size, size, create(run, 2 * size), 0);
              }),
      refuses("mapping.flags", "flags are 0", hdr,
              [](Run& run) {
                const std::size_t size = granularity(run);
                return run.cu.cuMemMap(reserve(run, size), size, 0, create(run, size), 1);
              }),
      refuses("mapping.odd_size", "a size is a multiple of the granularity", hdr,
              [](Run& run) {
                const std::size_t size = granularity(run);
                return run.cu.cuMemMap(reserve(run, 2 * size), size + 4 * KiB, 0,
                                       create(run, 2 * size), 0);
              }),
      refuses("mapping.odd_address", "and so is an address", hdr,
              [](Run& run) {
                const std::size_t size = granularity(run);
                return run.cu.cuMemMap(reserve(run, 2 * size) + 4 * KiB, size, 0, create(run, size),
                                       0);
              }),
      refuses("mapping.size_zero", "nothing is not mapped", hdr,
              [](Run& run) {
                const std::size_t size = granularity(run);
                return run.cu.cuMemMap(reserve(run, size), 0, 0, create(run, size), 0);
              }),
      refuses("mapping.past_reservation", "a mapping stays within its reservation", hdr,
              [](Run& run) {
                const std::size_t size = granularity(run);
                return run.cu.cuMemMap(reserve(run, size), 2 * size, 0, create(run, 2 * size), 0);
              }),
      refuses("mapping.not_reserved", "which it needs", hdr,
              [](Run& run) {
                const std::size_t size = granularity(run);
                const DevicePointer own = address_of(run.pageable(2 * size));
                return run.cu.cuMemMap((own + size - 1) / size * size, size, 0, create(run, size),
                                       0);
              }),
      refuses("mapping.mapped", "and where nothing is mapped", hdr,
              [](Run& run) {
                const std::size_t size = granularity(run);
                return run.cu.cuMemMap(mapped(run, size), size, 0, create(run, size), 0);
              }),
      refuses("mapping.mapped_in_part", "in no part of it", hdr,
              [](Run& run) {
                const std::size_t size = granularity(run);
                const DevicePointer address = reserve(run, 2 * size);
                map(run, address + size, size, create(run, size));
                return run.cu.cuMemMap(address, 2 * size, 0, create(run, 2 * size), 0);
              }),
      refuses("mapping.beyond_handle", "a mapping is no larger than its handle", hdr,
              [](Run& run) {
                const std::size_t size = granularity(run);
                return run.cu.cuMemMap(reserve(run, 2 * size), 2 * size, 0, create(run, size), 0);
              }),
      answers(
          "mapping.dead_handle", "and of a handle that is not released",
          {invalid_value, invalid_handle}, hdr,
          [](Run& run) {
            const std::size_t size = granularity(run);
            const AllocationHandle handle = create(run, size);
            release(run, handle);
            return run.cu.cuMemMap(reserve(run, size), size, 0, handle, 0);
          },
          virtual_memory() + model_only("the use of a released handle is undefined")),
      answers(
          "mapping.part_of_handle", "but may be smaller", {ok}, hdr,
          [](Run& run) {
            const std::size_t size = granularity(run);
            return run.cu.cuMemMap(reserve(run, size), size, 0, create(run, 2 * size), 0);
          },
          virtual_memory()),
  };
}

Tests unmaps() {
  return {
      refuses("mapping.unmap_part", "a mapping is unmapped whole", hip,
              [](Run& run) {
                const std::size_t size = granularity(run);
                const DevicePointer address = reserve(run, 2 * size);
                map(run, address, 2 * size, create(run, 2 * size));
                return run.cu.cuMemUnmap(address, size);
              }),
      refuses("mapping.unmap_tail", "with nothing behind it that is not mapped", iss,
              [](Run& run) {
                const std::size_t size = granularity(run);
                const DevicePointer address = reserve(run, 2 * size);
                map(run, address, size, create(run, size));
                return run.cu.cuMemUnmap(address, 2 * size);
              }),
      refuses("mapping.unmap_bare", "a reservation has nothing to unmap", hdr,
              [](Run& run) {
                const std::size_t size = granularity(run);
                return run.cu.cuMemUnmap(reserve(run, size), size);
              }),
      refuses("mapping.unmap_twice", "nor has what was unmapped", hdr,
              [](Run& run) {
                const std::size_t size = granularity(run);
                const DevicePointer address = mapped(run, size);
                unmap(run, address, size);
                return run.cu.cuMemUnmap(address, size);
              }),
      answers(
          "mapping.unmap_two", "mappings side by side are unmapped at once", {ok}, hdr,
          [](Run& run) {
            const std::size_t size = granularity(run);
            return run.cu.cuMemUnmap(mapped(run, size, 2), 2 * size);
          },
          virtual_memory()),
      refuses("mapping.copy_after_unmap", "unmapped memory takes no copy", hip,
              [](Run& run) {
                const std::size_t size = granularity(run);
                const DevicePointer address = mapped(run, size);
                unmap(run, address, size);
                return run.cu.cuMemsetD8_v2(address, 1, page);
              }),
  };
}

Tests grants() {
  return {
      refuses("mapping.access_bare", "access is to what is mapped throughout", hdr,
              [](Run& run) {
                const std::size_t size = granularity(run);
                const DevicePointer address = reserve(run, 2 * size);
                map(run, address, size, create(run, size));
                return grant(run, address, 2 * size, all);
              }),
      refuses("mapping.access_part", "and to whole mappings", hdr,
              [](Run& run) {
                const std::size_t size = granularity(run);
                const DevicePointer address = reserve(run, 2 * size);
                map(run, address, 2 * size, create(run, 2 * size));
                return grant(run, address, size, all);
              }),
      refuses("mapping.access_flags", "it is none, read or both", hdr,
              [](Run& run) {
                const std::size_t size = granularity(run);
                return grant(run, mapped(run, size), size, static_cast<AccessFlags>(2));
              }),
      answers(
          "mapping.access_bad_device", "of a device that is there", {invalid_value, invalid_device},
          hdr,
          [](Run& run) {
            const std::size_t size = granularity(run);
            return grant(run, mapped(run, size), size, all, {LocationType::device, 99});
          },
          virtual_memory()),
      answers(
          "mapping.access_nowhere", "not of no location", {invalid_value, invalid_device}, hdr,
          [](Run& run) {
            const std::size_t size = granularity(run);
            return grant(run, mapped(run, size), size, all, {LocationType::none, 0});
          },
          virtual_memory()),
      answers(
          "mapping.access_node", "nor of a node, to memory of a device",
          {invalid_value, not_supported}, hdr,
          [](Run& run) {
            const std::size_t size = granularity(run);
            return grant(run, mapped(run, size), size, all, {LocationType::host_numa, 0});
          },
          virtual_memory() + since(12020)),
      refuses(
          "mapping.access_no_descriptors", "it is described", hdr,
          [](Run& run) {
            const std::size_t size = granularity(run);
            return run.cu.cuMemSetAccess(mapped(run, size), size, nullptr, 1);
          },
          model_only("a driver may read a null pointer")),
      answers(
          "mapping.get_access_bad_device", "access of a device that is not there is not read",
          {invalid_value, invalid_device}, unsure,
          [](Run& run) {
            unsigned long long flags = 0;
            const abi::Location where{LocationType::device, 99};
            return run.cu.cuMemGetAccess(&flags, &where, mapped(run, granularity(run)));
          },
          virtual_memory()),
      refuses("mapping.get_access_unknown", "nor of memory that is not mapped", unsure,
              [](Run& run) {
                unsigned long long flags = 0;
                return run.cu.cuMemGetAccess(&flags, &first_device, address_of(run.pageable(page)));
              }),
      refuses(
          "mapping.get_access_null_out", "it is written somewhere", hdr,
          [](Run& run) {
            return run.cu.cuMemGetAccess(nullptr, &first_device, mapped(run, granularity(run)));
          },
          null_out_pointer()),
  };
}

Tests others() {
  return {
      refuses("mapping.retain_bare", "a reservation has no handle", hdr,
              [](Run& run) {
                AllocationHandle handle = 0;
                return run.cu.cuMemRetainAllocationHandle(&handle,
                                                          host(reserve(run, granularity(run))));
              }),
      refuses("mapping.retain_device", "nor has memory of cuMemAlloc", unsure,
              [](Run& run) {
                AllocationHandle handle = 0;
                return run.cu.cuMemRetainAllocationHandle(&handle, host(run.device(page)));
              }),
      refuses(
          "mapping.retain_null_out", "a handle is written somewhere", hdr,
          [](Run& run) {
            return run.cu.cuMemRetainAllocationHandle(nullptr, host(mapped(run, granularity(run))));
          },
          null_out_pointer()),
      refuses("mapping.free", "cuMemFree does not take it", hdr,
              [](Run& run) { return run.cu.cuMemFree_v2(mapped(run, granularity(run))); }),
      refuses(
          "mapping.free_async", "nor does cuMemFreeAsync", unsure,
          [](Run& run) {
            return run.cu.cuMemFreeAsync(mapped(run, granularity(run)), run.stream());
          },
          having(cuda::Feature::pools) + with(DeviceAttribute::memory_pools_supported)),
      refuses(
          "mapping.advise", "it takes no advice", hdr,
          [](Run& run) {
            return advise(run, mapped(run, granularity(run)), page, abi::Advise::set_read_mostly,
                          first_device);
          },
          with(DeviceAttribute::concurrent_managed_access)),
      refuses(
          "mapping.prefetch", "and no prefetch", hdr,
          [](Run& run) {
            return prefetch(run, mapped(run, granularity(run)), page, first_device, run.stream());
          },
          with(DeviceAttribute::concurrent_managed_access)),
      refuses("mapping.copy_past_end", "a copy stays within what is mapped", hip,
              [](Run& run) {
                const std::size_t size = granularity(run);
                const DevicePointer address = reserve(run, 2 * size);
                map(run, address, size, create(run, size));
                open(run, address, size);
                return run.cu.cuMemsetD8_v2(address + size - page, 1, 2 * page);
              }),
  };
}

}  // namespace

Tests mapping_refusal_tests() {
  Tests tests = maps();
  for (Test& test : unmaps()) tests.push_back(std::move(test));
  for (Test& test : grants()) tests.push_back(std::move(test));
  for (Test& test : others()) tests.push_back(std::move(test));
  return tests;
}

}  // namespace assay::conformance
