// Managed memory: allocation, both sides, attachment. Regimes of exclusive access have their file.
#include <cstring>

#include "contract/groups.hpp"
#include "suite/run.hpp"

namespace assay::conformance {
namespace {

using enum Source;
using Attribute = DeviceAttribute;

Needs has_managed() {
  return with(Attribute::managed_memory);
}
Needs concurrent() {
  return has_managed() + with(Attribute::concurrent_managed_access);
}

Status allocate(Run& run, std::size_t size, unsigned flags) {
  DevicePointer address = 0;
  return run.cu.cuMemAllocManaged(&address, size, flags);
}

void both_sides(Run& run) {
  const DevicePointer address = run.managed(page);
  std::memset(host(address), 0x21, page);
  run.holds("the device reads what the host wrote", run.filled(address, 0x21, page));
  run.fill(address, 0x43, page);
  run.holds("the host reads what the device wrote",
            host(address)[0] == std::byte{0x43} && host(address)[page - 1] == std::byte{0x43});
}

void kinds(Run& run) {
  DevicePointer global = 0;
  DevicePointer attached_to_host = 0;
  run.code("global", run.cu.cuMemAllocManaged(&global, 4096, abi::mem_attach_global));
  run.code("host", run.cu.cuMemAllocManaged(&attached_to_host, 4096, abi::mem_attach_host));
  run.signal("host write of the second", write_at(host(attached_to_host)));
  run.code("free of the first", run.cu.cuMemFree_v2(global));
  run.code("free of the second", run.cu.cuMemFree_v2(attached_to_host));
}

void untouched(Run& run) {
  DevicePointer address = 77;
  run.code("cuMemAllocManaged", run.cu.cuMemAllocManaged(&address, 0, abi::mem_attach_global));
  run.holds("the address is untouched", address == 77);
}

void range(Run& run) {
  const DevicePointer address = run.managed(10'000);
  DevicePointer base = 0;
  std::size_t size = 0;
  run.code("cuMemGetAddressRange", run.cu.cuMemGetAddressRange_v2(&base, &size, address + 5'000));
  run.holds("base and size are the allocation's", base == address && size == 10'000);
}

void stale_touch(Run& run) {
  const DevicePointer address = run.managed(page);
  run.must(run.cu.cuMemFree_v2(address), "cuMemFree");
  run.signal("host read", read_at(host(address)));
}

void neighbours(Run& run) {
  const DevicePointer left = run.managed(4096);
  const DevicePointer right = run.managed(4096);
  std::memset(host(left), 0x11, 4096);
  std::memset(host(right), 0x22, 4096);
  run.must(run.cu.cuMemFree_v2(left), "cuMemFree");
  run.holds("the other keeps its contents", run.filled(right, 0x22, 4096));
}

void at_any_time(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer touched = run.managed(page);
  const DevicePointer busy = run.managed(page);
  Gate gate(run, stream);
  run.must(run.cu.cuMemsetD8Async(busy, 0x11, page, stream), "cuMemsetD8Async");
  run.signal("host write while the device has work", write_at(host(touched)));
  run.signal("host read of the same memory", read_at(host(touched)));
  gate.open();
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.holds("the work was done", host(busy)[page - 1] == std::byte{0x11});
}

Test attach(const char* id, const char* states, std::vector<std::int64_t> allowed, Source source,
            Call call) {
  return answers(id, states, std::move(allowed), source, call, has_managed());
}

Tests attachments() {
  return {
      attach("managed.attach_whole", "a stream takes a whole allocation by length 0", {ok}, hdr,
             [](Run& run) {
               return run.cu.cuStreamAttachMemAsync(run.stream(), run.managed(page), 0,
                                                    abi::mem_attach_single);
             }),
      attach("managed.attach_length", "or by its exact length", {ok}, hdr,
             [](Run& run) {
               return run.cu.cuStreamAttachMemAsync(run.stream(), run.managed(page), page,
                                                    abi::mem_attach_single);
             }),
      attach("managed.attach_part", "but not a part", {invalid_value}, hdr,
             [](Run& run) {
               return run.cu.cuStreamAttachMemAsync(run.stream(), run.managed(2 * page), page,
                                                    abi::mem_attach_single);
             }),
      attach("managed.attach_null_stream", "SINGLE needs a stream of its own", {invalid_value}, hdr,
             [](Run& run) {
               return run.cu.cuStreamAttachMemAsync(nullptr, run.managed(page), 0,
                                                    abi::mem_attach_single);
             }),
      attach("managed.attach_host", "HOST is taken on any stream", {ok}, hdr,
             [](Run& run) {
               return run.cu.cuStreamAttachMemAsync(run.stream(), run.managed(page), 0,
                                                    abi::mem_attach_host);
             }),
      attach("managed.attach_flags", "flags are one of three", {invalid_value}, hdr,
             [](Run& run) {
               return run.cu.cuStreamAttachMemAsync(run.stream(), run.managed(page), 0, 8);
             }),
      attach("managed.attach_device_memory", "device memory is attached to nothing",
             {invalid_value}, hdr,
             [](Run& run) {
               return run.cu.cuStreamAttachMemAsync(run.stream(), run.device(page), 0,
                                                    abi::mem_attach_single);
             }),
      attach("managed.attach_pinned", "nor is pinned memory", {invalid_value}, hdr,
             [](Run& run) {
               return run.cu.cuStreamAttachMemAsync(run.stream(), address_of(run.pinned(page)), 0,
                                                    abi::mem_attach_single);
             }),
  };
}

Tests refusals() {
  return {
      {"managed.size_zero",
       "size 0 is refused",
       has_managed(),
       {code("cuMemAllocManaged", {invalid_value}, hdr), holds("the address is untouched", hdr)},
       untouched},
      answers(
          "managed.flags_none", "flags 0 are refused", {invalid_value}, hdr,
          [](Run& run) { return allocate(run, 4096, 0); }, has_managed()),
      answers(
          "managed.flags_both", "GLOBAL and HOST exclude each other", {invalid_value}, hdr,
          [](Run& run) { return allocate(run, 4096, 3); }, has_managed()),
      answers(
          "managed.flags_single", "SINGLE is no flag of an allocation", {invalid_value}, hdr,
          [](Run& run) { return allocate(run, 4096, abi::mem_attach_single); }, has_managed()),
      answers(
          "managed.flags_unknown", "unknown flags are refused", {invalid_value}, hdr,
          [](Run& run) { return allocate(run, 4096, abi::mem_attach_global | 0x100u); },
          has_managed()),
      answers(
          "managed.too_big", "more than any address space holds is out of memory", {out_of_memory},
          hdr,
          // Passes the cap on managed memory without holding any: it cannot succeed.
          [](Run& run) { return allocate(run, std::size_t{1} << 60, abi::mem_attach_global); },
          has_managed()),
      answers(
          "managed.null_alloc", "cuMemAllocManaged needs somewhere to write", {invalid_value}, hdr,
          [](Run& run) { return run.cu.cuMemAllocManaged(nullptr, 4096, abi::mem_attach_global); },
          has_managed() + null_out_pointer()),
      answers(
          "managed.unsupported", "a device without managed memory says so", {not_supported}, hdr,
          [](Run& run) { return allocate(run, 4096, abi::mem_attach_global); },
          without(Attribute::managed_memory)),
      answers(
          "managed.free_twice", "managed memory cannot be freed twice", {invalid_value}, hip,
          [](Run& run) {
            const DevicePointer address = run.managed(4096);
            run.must(run.cu.cuMemFree_v2(address), "cuMemFree");
            return run.cu.cuMemFree_v2(address);
          },
          has_managed()),
      answers(
          "managed.free_interior", "only the base can be freed", {invalid_value}, hip,
          [](Run& run) { return run.cu.cuMemFree_v2(run.managed(page) + 4096); }, has_managed()),
      answers(
          "managed.free_host", "cuMemFreeHost does not free managed memory", {invalid_value}, hip,
          [](Run& run) { return run.cu.cuMemFreeHost(host(run.managed(4096))); }, has_managed()),
  };
}

}  // namespace

Tests managed_tests() {
  Tests tests = {
      {"managed.both_sides",
       "host and device reach the same bytes at the same address",
       has_managed(),
       {holds("the device reads what the host wrote", doc),
        holds("the host reads what the device wrote", doc)},
       both_sides},
      {"managed.kinds",
       "GLOBAL and HOST are the two kinds",
       has_managed(),
       {succeeds("global", hdr), succeeds("host", hdr), touches("host write of the second", doc),
        succeeds("free of the first", hdr), succeeds("free of the second", hdr)},
       kinds},
      {"managed.range",
       "an inner address gives the allocation",
       has_managed(),
       {succeeds("cuMemGetAddressRange", hdr), holds("base and size are the allocation's", hdr)},
       range},
      {"managed.stale_touch",
       "freed managed memory is out of the host's reach",
       has_managed() + without(Attribute::direct_managed_mem_access_from_host),
       {faults("host read", doc)},
       stale_touch},
      {"managed.neighbours",
       "a free touches no other allocation",
       has_managed(),
       {holds("the other keeps its contents", hdr)},
       neighbours},
      {"managed.at_any_time",
       "with concurrent access the host may touch managed memory while the device works",
       concurrent() + having(cuda::Feature::tests),
       {touches("host write while the device has work", doc),
        touches("host read of the same memory", doc), holds("the work was done", doc)},
       at_any_time},
  };
  for (Test& test : refusals()) tests.push_back(std::move(test));
  for (Test& test : attachments()) tests.push_back(std::move(test));
  return tests;
}

}  // namespace assay::conformance
