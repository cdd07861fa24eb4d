// Probes of virtual memory management.
#include "contract/virtual.hpp"
#include "probe/probe.hpp"

namespace assay::conformance {
namespace {

/// True, and told as absent or skipped, if driver or device manages no virtual memory.
bool no_virtual_memory(Run& run) {
  if (ASSAY_ABSENT(run, cuMemAddressReserve)) return true;
  if (!run.session.facts.has(DeviceAttribute::virtual_memory_management_supported)) {
    run.skip("needs virtual_memory_management_supported = 1");
  }
  return false;
}

void map_new(Run& run, DevicePointer at, std::size_t size) {
  map(run, at, size, create(run, size));
}

void p2(Run& run) {
  if (no_virtual_memory(run)) return;
  DevicePointer address = 0;
  run.code("size 0", run.cu.cuMemAddressReserve(&address, 0, 0, 0, 0));
  run.code("size 1", run.cu.cuMemAddressReserve(&address, 1, 0, 0, 0));
  run.code("alignment 3", run.cu.cuMemAddressReserve(&address, granularity(run), 3, 0, 0));
}

void p3(Run& run) {
  if (no_virtual_memory(run)) return;
  const std::size_t size = granularity(run);
  const DevicePointer address = reserve(run, size);
  map_new(run, address, size);
  run.code("cuMemAddressFree while mapped", run.cu.cuMemAddressFree(address, size));
}

void p4(Run& run) {
  if (no_virtual_memory(run)) return;
  const std::size_t size = granularity(run);
  const DevicePointer address = reserve(run, 4 * size);
  map_new(run, address, size);
  run.code("cuMemMap on a mapped range", run.cu.cuMemMap(address, size, 0, create(run, size), 0));
  map_new(run, address + size, 2 * size);
  run.code("cuMemUnmap of a part", run.cu.cuMemUnmap(address + size, size));
  run.code("cuMemUnmap with a never-mapped tail", run.cu.cuMemUnmap(address + size, 3 * size));
  run.code("cuMemUnmap of two mappings at once", run.cu.cuMemUnmap(address, 3 * size));
}

void p5(Run& run) {
  if (no_virtual_memory(run)) return;
  abi::AllocationHandle handle = 0;
  const std::size_t size = granularity(run);
  const abi::AllocationProp properties = on_device(99);
  run.code("cuMemCreate on device 99", run.cu.cuMemCreate(&handle, size, &properties, 0));
  const DevicePointer address = reserve(run, size);
  map_new(run, address, size);
  unsigned long long flags = 0;
  const abi::Location location{abi::LocationType::device, 99};
  run.code("cuMemGetAccess of device 99", run.cu.cuMemGetAccess(&flags, &location, address));
}

void p6(Run& run) {
  if (no_virtual_memory(run)) return;
  const abi::AllocationHandle handle = create(run, granularity(run));
  run.code("cuMemRelease", run.cu.cuMemRelease(handle));
  run.code("cuMemRelease again", run.cu.cuMemRelease(handle));
}

}  // namespace

std::vector<Probe> virtual_memory_probes() {
  using enum Start;
  return {
      {"P2", "cuMemAddressReserve with size 0, size 1, alignment 3", current, p2},
      {"P3", "cuMemAddressFree while mapped", current, p3},
      {"P4", "cuMemMap on a mapped range; cuMemUnmap of a part, of two, with a tail", current, p4},
      {"P5", "cuMemCreate and cuMemGetAccess with device 99", current, p5},
      {"P6", "cuMemRelease twice", current, p6},
  };
}

}  // namespace assay::conformance
