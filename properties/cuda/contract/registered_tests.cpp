// Registered host memory: cuMemHostRegister and cuMemHostUnregister.
#include <cstring>

#include <sys/mman.h>

#include "contract/groups.hpp"
#include "suite/run.hpp"

namespace assay::conformance {
namespace {

using enum Source;
using Attribute = DeviceAttribute;

Needs can() {
  return with(Attribute::host_register_supported);
}

Status add(Run& run, void* address, std::size_t size, unsigned flags = 0) {
  return run.cu.cuMemHostRegister_v2(address, size, flags);
}

void reachable(Run& run) {
  std::byte* const address = run.pageable(page);
  std::memset(address, 0x61, page);
  run.code("cuMemHostRegister", add(run, address, page, abi::host_register_device_map));
  DevicePointer device = 0;
  run.code("cuMemHostGetDevicePointer", run.cu.cuMemHostGetDevicePointer_v2(&device, address, 0));
  run.holds("the device reads what the host wrote", run.filled(device, 0x61, page));
  run.must(run.cu.cuMemsetD8_v2(device, 0x62, page), "cuMemsetD8");
  run.wait();
  run.holds("the host reads what the device wrote", address[page - 1] == std::byte{0x62});
  run.code("cuMemHostUnregister", run.cu.cuMemHostUnregister(address));
  run.holds("the memory stays the program's", address[0] == std::byte{0x62});
}

void again(Run& run) {
  std::byte* const address = run.registered(page);
  run.must(run.cu.cuMemHostUnregister(address), "cuMemHostUnregister");
  run.code("registered again", add(run, address, page));
  run.code("unregistered again", run.cu.cuMemHostUnregister(address));
}

void unaligned(Run& run) {
  std::byte* const address = run.pageable(page) + 24;
  run.code("cuMemHostRegister", add(run, address, 1000));
  run.code("cuMemHostUnregister", run.cu.cuMemHostUnregister(address));
}

void shared_page(Run& run) {
  std::byte* const address = run.pageable(page);
  run.code("the first half of a page", add(run, address, 1024));
  run.code("the second", add(run, address + 2048, 1024));
}

Status flags_of(Run& run) {
  unsigned flags = 0;
  return run.cu.cuMemHostGetFlags(&flags, run.registered(page, abi::host_register_portable));
}

/// Three pages are made and given back to the system: nothing is mapped there.
std::byte* unmapped(Run& run) {
  std::byte* const address = run.pageable(3 * page);
  ::munmap(address, 3 * page);
  return address + page;
}

Tests overlaps() {
  return {
      answers(
          "registered.overlap_same", "the same range cannot be registered twice",
          {already_registered}, hdr, [](Run& run) { return add(run, run.registered(page), page); },
          can()),
      answers(
          "registered.overlap_inner", "nor a range within a registered one", {already_registered},
          hdr, [](Run& run) { return add(run, run.registered(2 * page) + 4096, 4096); }, can()),
      answers(
          "registered.overlap_outer", "nor a range around one", {already_registered}, hdr,
          [](Run& run) {
            std::byte* const address = run.pageable(3 * page);
            run.must(add(run, address + page, page), "cuMemHostRegister");
            return add(run, address, 3 * page);
          },
          can()),
      answers(
          "registered.overlap_end", "nor one that reaches into it", {already_registered}, hdr,
          [](Run& run) {
            std::byte* const address = run.pageable(3 * page);
            run.must(add(run, address + page, 2 * page), "cuMemHostRegister");
            return add(run, address, page + 4096);
          },
          can()),
      answers(
          "registered.pinned", "pinned memory is registered already",
          {already_registered, invalid_value}, unsure,
          [](Run& run) { return add(run, run.pinned(page), page); }, can()),
  };
}

Tests unregistering() {
  return {
      answers(
          "registered.unregister_unknown", "memory that was not registered", {not_registered}, lup,
          [](Run& run) { return run.cu.cuMemHostUnregister(run.pageable(page)); }, can()),
      answers(
          "registered.unregister_twice", "or not any more", {not_registered}, lup,
          [](Run& run) {
            std::byte* const address = run.registered(page);
            run.must(run.cu.cuMemHostUnregister(address), "cuMemHostUnregister");
            return run.cu.cuMemHostUnregister(address);
          },
          can()),
      answers(
          "registered.unregister_interior", "only the base is unregistered", {invalid_value}, lup,
          [](Run& run) { return run.cu.cuMemHostUnregister(run.registered(page) + 4096); }, can()),
      answers(
          "registered.unregister_null", "null was never registered", {invalid_value}, lup,
          [](Run& run) { return run.cu.cuMemHostUnregister(nullptr); }, can()),
      answers(
          "registered.unregister_pinned", "memory of cuMemHostAlloc is not unregistered",
          {invalid_value}, lup,
          [](Run& run) { return run.cu.cuMemHostUnregister(run.pinned(page)); }, can()),
  };
}

Tests refusals() {
  return {
      answers(
          "registered.null", "null is no range", {invalid_value}, hdr,
          [](Run& run) { return add(run, nullptr, page); }, can()),
      answers(
          "registered.size_zero", "nor is one of size 0", {invalid_value}, hdr,
          [](Run& run) { return add(run, run.pageable(page), 0); }, can()),
      answers(
          "registered.flags_unknown", "unknown flags are refused", {invalid_value}, hdr,
          [](Run& run) { return add(run, run.pageable(page), page, 0x100); }, can()),
      answers(
          "registered.managed", "managed memory is the driver's already",
          {invalid_value, already_registered}, unsure,
          [](Run& run) { return add(run, host(run.managed(page)), page); },
          can() + with(Attribute::managed_memory)),
      answers(
          "registered.unmapped", "a range that is not mapped cannot be registered", {invalid_value},
          hdr, [](Run& run) { return add(run, unmapped(run), page); }, can()),
      answers(
          "registered.read_only_unsupported", "READ_ONLY needs its attribute", {not_supported}, hdr,
          [](Run& run) { return add(run, run.pageable(page), page, abi::host_register_read_only); },
          can() + without(Attribute::read_only_host_register_supported)),
      answers(
          "registered.read_only", "READ_ONLY where it is supported", {ok}, hdr,
          [](Run& run) { return add(run, run.pageable(page), page, abi::host_register_read_only); },
          can() + with(Attribute::read_only_host_register_supported)),
      answers(
          "registered.unsupported", "a device that cannot register says so", {not_supported}, hdr,
          [](Run& run) { return add(run, run.pageable(page), page); },
          without(Attribute::host_register_supported)),
  };
}

}  // namespace

Tests registered_tests() {
  Tests tests = {
      {"registered.reachable",
       "host and device reach the same bytes, and afterwards the memory is the program's",
       can(),
       {succeeds("cuMemHostRegister", hdr), succeeds("cuMemHostGetDevicePointer", hdr),
        holds("the device reads what the host wrote", hdr),
        holds("the host reads what the device wrote", hdr), succeeds("cuMemHostUnregister", hdr),
        holds("the memory stays the program's", hdr)},
       reachable},
      {"registered.again",
       "what was unregistered can be registered again",
       can(),
       {succeeds("registered again", hdr), succeeds("unregistered again", hdr)},
       again},
      {"registered.unaligned",
       "a range need not begin or end at a page",
       can(),
       {succeeds("cuMemHostRegister", lup), succeeds("cuMemHostUnregister", lup)},
       unaligned},
      {"registered.shared_page",
       "disjoint ranges may share a page",
       can(),
       {succeeds("the first half of a page", lup), succeeds("the second", lup)},
       shared_page},
      answers("registered.flags", "cuMemHostGetFlags is for memory of cuMemHostAlloc",
              {invalid_value}, hdr, flags_of, can()),
  };
  for (Test& test : overlaps()) tests.push_back(std::move(test));
  for (Test& test : unregistering()) tests.push_back(std::move(test));
  for (Test& test : refusals()) tests.push_back(std::move(test));
  return tests;
}

}  // namespace assay::conformance
