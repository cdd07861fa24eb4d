// Pinned host memory: cuMemHostAlloc and what belongs to it.
#include <cstring>

#include "contract/groups.hpp"
#include "suite/run.hpp"

namespace assay::conformance {
namespace {

using enum Source;

void allocate(Run& run) {
  constexpr unsigned flags[] = {0, abi::host_alloc_portable, abi::host_alloc_device_map,
                                abi::host_alloc_write_combined,
                                abi::host_alloc_portable | abi::host_alloc_device_map};
  bool usable = true;
  for (const unsigned each : flags) {
    std::byte* const address = run.pinned(4096, each);
    std::memset(address, 0x5C, 4096);
    usable = usable && address[4095] == std::byte{0x5C};
    run.must(run.cu.cuMemFreeHost(address), "cuMemFreeHost");
  }
  run.holds("each kind is host memory", usable);
}

void reachable(Run& run) {
  std::byte* const address = run.pinned(page, abi::host_alloc_device_map);
  std::memset(address, 0x31, page);
  DevicePointer device = 0;
  run.code("cuMemHostGetDevicePointer", run.cu.cuMemHostGetDevicePointer_v2(&device, address, 0));
  run.holds("the device reads what the host wrote", run.filled(device, 0x31, page));
  run.must(run.cu.cuMemsetD8_v2(device, 0x32, page), "cuMemsetD8");
  run.wait();
  run.holds("the host reads what the device wrote", address[page - 1] == std::byte{0x32});
}

void same_address(Run& run) {
  std::byte* const address = run.pinned(page);
  DevicePointer device = 0;
  run.code("of the base", run.cu.cuMemHostGetDevicePointer_v2(&device, address, 0));
  run.holds("it is the host's address", device == address_of(address));
  run.code("of an inner address", run.cu.cuMemHostGetDevicePointer_v2(&device, address + 100, 0));
  run.holds("it is at the same distance", device == address_of(address) + 100);
}

void flags_read_back(Run& run) {
  unsigned flags = 0;
  run.code("cuMemHostGetFlags",
           run.cu.cuMemHostGetFlags(&flags, run.pinned(4096, abi::host_alloc_portable)));
  run.holds("portable is shown", (flags & abi::host_alloc_portable) != 0);
  run.must(run.cu.cuMemHostGetFlags(&flags, run.pinned(4096)), "cuMemHostGetFlags");
  run.holds("portable is not shown where it was not asked for",
            (flags & abi::host_alloc_portable) == 0);
  run.holds("mapped is shown, asked for or not", (flags & abi::host_alloc_device_map) != 0);
  run.must(run.cu.cuMemHostGetFlags(&flags, run.pinned(4096, abi::host_alloc_write_combined)),
           "cuMemHostGetFlags");
  run.holds("write-combined is shown", (flags & abi::host_alloc_write_combined) != 0);
}

void size_zero(Run& run) {
  void* address = nullptr;
  run.code("cuMemHostAlloc", run.cu.cuMemHostAlloc(&address, 0, 0));
}

void untouched(Run& run) {
  void* address = &address;
  run.code("cuMemHostAlloc", run.cu.cuMemHostAlloc(&address, 4096, 0x100));
  run.holds("the address is untouched", address == &address);
}

Status free_twice(Run& run) {
  std::byte* const address = run.pinned(4096);
  run.must(run.cu.cuMemFreeHost(address), "cuMemFreeHost");
  return run.cu.cuMemFreeHost(address);
}

Status free_stack(Run& run) {
  alignas(4096) static std::byte bytes[4096];
  return run.cu.cuMemFreeHost(bytes);
}

Status device_pointer(Run& run, void* address, unsigned flags) {
  DevicePointer device = 0;
  return run.cu.cuMemHostGetDevicePointer_v2(&device, address, flags);
}

Status flags_of(Run& run, void* address) {
  unsigned flags = 0;
  return run.cu.cuMemHostGetFlags(&flags, address);
}

Tests frees() {
  return {
      answers("pinned.free_null", "cuMemFreeHost of null does nothing", {ok}, lup,
              [](Run& run) { return run.cu.cuMemFreeHost(nullptr); }),
      answers("pinned.free_twice", "pinned memory cannot be freed twice", {invalid_value}, hip,
              free_twice),
      answers("pinned.free_static", "memory of the program is not the driver's", {invalid_value},
              hip, free_stack),
      answers("pinned.free_interior", "only the base can be freed", {invalid_value}, hip,
              [](Run& run) { return run.cu.cuMemFreeHost(run.pinned(page) + 4096); }),
      answers(
          "pinned.free_registered", "registered memory is not freed but unregistered",
          {invalid_value}, hip, [](Run& run) { return run.cu.cuMemFreeHost(run.registered(page)); },
          with(DeviceAttribute::host_register_supported)),
      answers("pinned.free_device", "cuMemFreeHost does not free device memory", {invalid_value},
              hip, [](Run& run) { return run.cu.cuMemFreeHost(host(run.device(4096))); }),
  };
}

}  // namespace

Tests pinned_tests() {
  Tests tests = {
      {"pinned.allocate",
       "each kind of pinned memory is host memory",
       {},
       {holds("each kind is host memory", hdr)},
       allocate},
      {"pinned.reachable",
       "host and device reach the same bytes",
       {},
       {succeeds("cuMemHostGetDevicePointer", hdr),
        holds("the device reads what the host wrote", hdr),
        holds("the host reads what the device wrote", hdr)},
       reachable},
      {"pinned.same_address",
       "under unified addressing the device's address is the host's",
       with(DeviceAttribute::unified_addressing),
       {succeeds("of the base", hdr), holds("it is the host's address", hdr),
        succeeds("of an inner address", hdr), holds("it is at the same distance", hdr)},
       same_address},
      {"pinned.flags",
       "flags are read back, and mapped is always among them",
       {},
       {succeeds("cuMemHostGetFlags", hdr), holds("portable is shown", hdr),
        holds("portable is not shown where it was not asked for", hdr),
        holds("mapped is shown, asked for or not", lup), holds("write-combined is shown", hdr)},
       flags_read_back},
      {"pinned.size_zero",
       "size 0 succeeds, against the header's words",
       {},
       {code("cuMemHostAlloc", {ok}, lup)},
       size_zero},
      {"pinned.size_zero_null",
       "of which the model gives null",
       model_only("what a driver gives is not known"),
       {holds("the address is null", unsure)},
       [](Run& run) {
         void* address = &address;
         run.must(run.cu.cuMemHostAlloc(&address, 0, 0), "cuMemHostAlloc");
         run.holds("the address is null", address == nullptr);
       }},
      {"pinned.flags_unknown",
       "unknown flags are refused",
       {},
       {code("cuMemHostAlloc", {invalid_value}, hdr), holds("the address is untouched", hdr)},
       untouched},
      answers("pinned.too_big", "more than any host has is out of memory", {out_of_memory}, hdr,
              [](Run& run) {
                void* address = nullptr;
                return run.cu.cuMemHostAlloc(&address, std::size_t{1} << 60, 0);
              }),
      answers(
          "pinned.null_alloc", "cuMemHostAlloc needs somewhere to write", {invalid_value}, hdr,
          [](Run& run) { return run.cu.cuMemHostAlloc(nullptr, 4096, 0); }, null_out_pointer()),
      answers("pinned.pointer_flags", "cuMemHostGetDevicePointer takes no flags", {invalid_value},
              hdr, [](Run& run) { return device_pointer(run, run.pinned(4096), 1); }),
      answers(
          "pinned.pointer_unmapped", "pageable memory has no device pointer", {invalid_value}, hdr,
          [](Run& run) { return device_pointer(run, run.pageable(page), 0); },
          without(DeviceAttribute::pageable_memory_access)),
      answers("pinned.flags_of_pageable", "pageable memory has no flags", {invalid_value}, hdr,
              [](Run& run) { return flags_of(run, run.pageable(page)); }),
      answers("pinned.flags_of_device", "device memory has no flags of pinned memory",
              {invalid_value}, hdr, [](Run& run) { return flags_of(run, host(run.device(4096))); }),
      answers("pinned.flags_of_freed", "freed memory has no flags", {invalid_value}, hdr,
              [](Run& run) {
                std::byte* const address = run.pinned(4096);
                run.must(run.cu.cuMemFreeHost(address), "cuMemFreeHost");
                return flags_of(run, address);
              }),
  };
  for (Test& test : frees()) tests.push_back(std::move(test));
  return tests;
}

}  // namespace assay::conformance
