// Device memory: cuMemAlloc, cuMemFree, cuMemGetAddressRange, cuMemGetInfo.
#include <algorithm>
#include <array>

#include "contract/blocks.hpp"
#include "contract/groups.hpp"
#include "suite/run.hpp"

namespace assay::conformance {
namespace {

using enum Source;
using Attribute = DeviceAttribute;

constexpr std::size_t beyond_any_device = std::size_t{1} << 60;

void allocate(Run& run) {
  Blocks at{};
  for (std::size_t i = 0; i < at.size(); ++i) at[i] = run.device(block_sizes[i]);
  judge_blocks(run, at);
  for (const DevicePointer each : at) run.must(run.cu.cuMemFree_v2(each), "cuMemFree");
  run.holds("all are freed", true);
}

void size_zero(Run& run) {
  DevicePointer address = 77;
  run.code("cuMemAlloc", run.cu.cuMemAlloc_v2(&address, 0));
  run.holds("the address is untouched", address == 77);
}

void too_big(Run& run) {
  DevicePointer address = 77;
  run.code("cuMemAlloc", run.cu.cuMemAlloc_v2(&address, beyond_any_device));
  run.holds("the address is untouched", address == 77);
  run.code("a small one afterwards", run.cu.cuMemAlloc_v2(&address, 4096));
}

void not_zero(Run& run) {
  const DevicePointer address = run.device(4096);
  run.holds("fresh memory is not zero", !run.filled(address, 0, 4096));
}

void range_of_device(Run& run) {
  const DevicePointer address = run.device(10'000);
  DevicePointer base = 0;
  std::size_t size = 0;
  run.code("of the base", run.cu.cuMemGetAddressRange_v2(&base, &size, address));
  run.holds("base and size are the allocation's", base == address && size == 10'000);
  base = 0;
  run.code("of an inner address", run.cu.cuMemGetAddressRange_v2(&base, &size, address + 9'999));
  run.holds("the base is the same", base == address);
  run.code("without a base", run.cu.cuMemGetAddressRange_v2(nullptr, &size, address));
  run.code("without a size", run.cu.cuMemGetAddressRange_v2(&base, nullptr, address));
}

void info_falls(Run& run) {
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  run.must(run.cu.cuMemGetInfo_v2(&before, &total), "cuMemGetInfo");
  (void)run.device(64 * MiB);
  run.must(run.cu.cuMemGetInfo_v2(&after, &total), "cuMemGetInfo");
  run.holds("an allocation lowers what is free", after + 64 * MiB <= before);
}

void capacity(Run& run) {
  run.model->set_capacity(8 * MiB);
  DevicePointer first = 0;
  DevicePointer second = 0;
  run.code("within the capacity", run.cu.cuMemAlloc_v2(&first, 6 * MiB));
  run.code("beyond it", run.cu.cuMemAlloc_v2(&second, 4 * MiB));
  run.must(run.cu.cuMemFree_v2(first), "cuMemFree");
  run.code("after a free", run.cu.cuMemAlloc_v2(&second, 4 * MiB));
}

void host_touch(Run& run) {
  const DevicePointer address = run.device(page);
  run.signal("host read", read_at(host(address)));
  run.signal("host write", write_at(host(address) + page / 2));
}

void stale_touch(Run& run) {
  const DevicePointer address = run.device(page);
  run.must(run.cu.cuMemFree_v2(address), "cuMemFree");
  run.signal("host read", read_at(host(address)));
}

void quarantined(Run& run) {
  bool reused = false;
  const DevicePointer first = run.device(page);
  run.must(run.cu.cuMemFree_v2(first), "cuMemFree");
  for (int i = 0; i < 16; ++i) {
    const DevicePointer next = run.device(page);
    reused = reused || next == first;
    run.must(run.cu.cuMemFree_v2(next), "cuMemFree");
  }
  run.holds("a freed address has no new owner at once", !reused);
}

void keeps_neighbours(Run& run) {
  const DevicePointer left = run.device(4096);
  const DevicePointer middle = run.device(4096);
  const DevicePointer right = run.device(4096);
  run.fill(left, 0x11, 4096);
  run.fill(middle, 0x22, 4096);
  run.fill(right, 0x33, 4096);
  run.must(run.cu.cuMemFree_v2(middle), "cuMemFree");
  run.holds("neighbours keep their contents",
            run.filled(left, 0x11, 4096) && run.filled(right, 0x33, 4096));
}

void free_on_other_thread(Run& run) {
  const DevicePointer address = run.device(4096);
  Status status = Status::unknown;
  on_other_thread([&] {
    run.must(run.cu.cuCtxPushCurrent_v2(run.context), "cuCtxPushCurrent");
    status = run.cu.cuMemFree_v2(address);
  });
  run.code("cuMemFree there", status);
}

void freed_is_unknown(Run& run) {
  const DevicePointer address = run.device(4096);
  run.must(run.cu.cuMemFree_v2(address), "cuMemFree");
  DevicePointer base = 0;
  run.code("cuMemGetAddressRange", run.cu.cuMemGetAddressRange_v2(&base, nullptr, address));
}

Tests frees() {
  return {
      answers("memory.free_null", "cuMemFree(0) does nothing", {ok}, lup,
              [](Run& run) { return run.cu.cuMemFree_v2(0); }),
      answers("memory.free_twice", "memory cannot be freed twice", {invalid_value}, hip,
              [](Run& run) {
                const DevicePointer address = run.device(4096);
                run.must(run.cu.cuMemFree_v2(address), "cuMemFree");
                return run.cu.cuMemFree_v2(address);
              }),
      answers("memory.free_interior", "only the base can be freed", {invalid_value}, hip,
              [](Run& run) { return run.cu.cuMemFree_v2(run.device(4096) + 256); }),
      answers("memory.free_unknown", "an address that is nobody's cannot be freed", {invalid_value},
              hip, [](Run& run) { return run.cu.cuMemFree_v2(address_of(run.pageable(page))); }),
      answers("memory.free_pinned", "cuMemFree does not free pinned memory", {invalid_value}, hip,
              [](Run& run) { return run.cu.cuMemFree_v2(address_of(run.pinned(4096))); }),
      answers(
          "memory.free_managed", "cuMemFree frees managed memory", {ok}, hdr,
          [](Run& run) { return run.cu.cuMemFree_v2(run.managed(4096)); },
          with(Attribute::managed_memory)),
      {"memory.free_on_other_thread",
       "any thread under the context may free",
       {},
       {succeeds("cuMemFree there", hdr)},
       free_on_other_thread},
      {"memory.free_keeps_neighbours",
       "a free touches no other allocation",
       {},
       {holds("neighbours keep their contents", hdr)},
       keeps_neighbours},
  };
}

Tests touches_and_quarantine() {
  const Needs apart = without(Attribute::pageable_memory_access_uses_host_page_tables);
  return {
      {"memory.host_touch",
       "the host cannot reach device memory",
       apart,
       {faults("host read", doc), faults("host write", doc)},
       host_touch},
      {"memory.stale_touch",
       "nor device memory that was freed",
       apart,
       {faults("host read", doc)},
       stale_touch},
      {"memory.quarantine",
       "the model gives a freed address to nobody for a while, so that stale pointers show",
       model_only("a driver may reuse an address at once"),
       {holds("a freed address has no new owner at once", model)},
       quarantined},
      {"memory.fresh_contents",
       "the model fills fresh memory, so that nobody takes it for zero",
       model_only("a driver promises nothing about fresh memory"),
       {holds("fresh memory is not zero", model)},
       not_zero},
      {"memory.capacity",
       "the model refuses what passes its capacity, and serves it again after a free",
       model_only("the true limit of a device is not known"),
       {succeeds("within the capacity", model), code("beyond it", {out_of_memory}, hdr),
        succeeds("after a free", model)},
       capacity},
      {"memory.info_falls",
       "the model's free memory is its own",
       model_only("free memory is shared with every process"),
       {holds("an allocation lowers what is free", model)},
       info_falls},
  };
}

}  // namespace

Tests memory_tests() {
  Tests tests = {
      {"memory.allocate",
       "allocations are aligned, apart and freed by their base",
       {},
       {holds("addresses are multiples of 256", doc), holds("no two overlap", hdr),
        holds("none is null", hdr), holds("all are freed", hdr)},
       allocate},
      {"memory.size_zero",
       "size 0 is refused",
       {},
       {code("cuMemAlloc", {invalid_value}, hdr), holds("the address is untouched", hdr)},
       size_zero},
      {"memory.too_big",
       "more than the device has is out of memory, and the context lives on",
       {},
       {code("cuMemAlloc", {out_of_memory}, hdr), holds("the address is untouched", hdr),
        succeeds("a small one afterwards", hdr)},
       too_big},
      answers(
          "memory.null_alloc", "cuMemAlloc needs somewhere to write", {invalid_value}, hdr,
          [](Run& run) { return run.cu.cuMemAlloc_v2(nullptr, 4096); }, null_out_pointer()),
      {"memory.range",
       "an address within an allocation gives its base and size; either may be left out",
       {},
       {succeeds("of the base", hdr), holds("base and size are the allocation's", hdr),
        succeeds("of an inner address", hdr), holds("the base is the same", hdr),
        succeeds("without a base", hdr), succeeds("without a size", hdr)},
       range_of_device},
      answers("memory.range_unknown", "an address that is nobody's has no range", {not_found}, hdr,
              [](Run& run) {
                DevicePointer base = 0;
                std::size_t size = 0;
                return run.cu.cuMemGetAddressRange_v2(&base, &size, address_of(run.pageable(page)));
              }),
      answers(
          "memory.range_past_end", "the byte past an allocation is not its own", {not_found}, hdr,
          [](Run& run) {
            DevicePointer base = 0;
            std::size_t size = 0;
            return run.cu.cuMemGetAddressRange_v2(&base, &size, run.device(64 * KiB) + 64 * KiB);
          },
          model_only("a driver may have put another allocation there")),
      {"memory.range_freed",
       "freed memory has no range",
       {},
       {code("cuMemGetAddressRange", {not_found}, hdr)},
       freed_is_unknown},
      answers(
          "memory.null_info", "cuMemGetInfo needs somewhere to write", {invalid_value}, hdr,
          [](Run& run) { return run.cu.cuMemGetInfo_v2(nullptr, nullptr); }, null_out_pointer()),
  };
  for (Test& test : frees()) tests.push_back(std::move(test));
  for (Test& test : touches_and_quarantine()) tests.push_back(std::move(test));
  return tests;
}

}  // namespace assay::conformance
