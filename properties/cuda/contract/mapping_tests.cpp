// Mappings: physical memory at reserved addresses, what may touch it, and how it is moved.
#include <cstring>

#include "contract/advice.hpp"
#include "contract/groups.hpp"
#include "contract/launch.hpp"
#include "contract/virtual.hpp"

namespace assay::conformance {
namespace {

using enum Source;
using abi::AccessFlags;
using abi::AllocationHandle;
using abi::PointerAttribute;

void life(Run& run) {
  const std::size_t size = granularity(run);
  const DevicePointer address = reserve(run, size);
  const AllocationHandle handle = create(run, size);
  run.code("cuMemMap", run.cu.cuMemMap(address, size, 0, handle, 0));
  run.code("cuMemSetAccess", grant(run, address, size, AccessFlags::read_write));
  run.fill(address, 0x5A, size);
  run.holds("it holds what was set", run.filled(address, 0x5A, size));
  run.code("cuMemUnmap", run.cu.cuMemUnmap(address, size));
  run.code("cuMemRelease", run.cu.cuMemRelease(handle));
  run.code("cuMemAddressFree", run.cu.cuMemAddressFree(address, size));
}

void closed_at_first(Run& run) {
  const std::size_t size = granularity(run);
  const DevicePointer address = reserve(run, size);
  std::byte* const memory = run.pinned(page);
  map(run, address, size, create(run, size));
  run.holds("it has no access", access_at(run, address) == 0);
  run.code("a set", run.cu.cuMemsetD8_v2(address, 1, page));
  run.code("a copy to it", run.cu.cuMemcpyHtoD_v2(address, memory, page));
  run.code("a copy from it", run.cu.cuMemcpyDtoH_v2(memory, address, page));
}

void read_only(Run& run) {
  const std::size_t size = granularity(run);
  std::byte* const memory = run.pinned(page);
  const DevicePointer address = mapped(run, size);
  run.fill(address, 0x33, page);
  run.code("cuMemSetAccess", grant(run, address, size, AccessFlags::read));
  run.holds("it reads back", access_at(run, address) == 1);
  run.code("a copy from it", run.cu.cuMemcpyDtoH_v2(memory, address, page));
  run.holds("gives what it held", memory[page - 1] == std::byte{0x33});
  run.code("a copy to it", run.cu.cuMemcpyHtoD_v2(address, memory, page));
  run.code("a set", run.cu.cuMemsetD8_v2(address, 1, page));
}

void access_read_back(Run& run) {
  const std::size_t size = granularity(run);
  const DevicePointer address = mapped(run, size, 2);
  run.holds("all", access_at(run, address) == 3 && access_at(run, address + 2 * size - 1) == 3);
  run.must(grant(run, address + size, size, AccessFlags::read), "cuMemSetAccess");
  run.holds("each mapping has its own",
            access_at(run, address) == 3 && access_at(run, address + size) == 1);
  run.must(grant(run, address, 2 * size, AccessFlags::none), "cuMemSetAccess");
  run.holds("none", access_at(run, address) == 0 && access_at(run, address + size) == 0);
  run.must(grant(run, address, 2 * size, AccessFlags::read_write), "cuMemSetAccess");
  run.holds("all again", access_at(run, address + size + 5) == 3);
}

void remapped(Run& run) {
  const std::size_t size = granularity(run);
  const DevicePointer here = reserve(run, size);
  const DevicePointer there = reserve(run, size);
  const AllocationHandle first = create(run, size);
  const AllocationHandle second = create(run, size);
  map(run, here, size, first);
  open(run, here, size);
  run.fill(here, 0x11, size);
  unmap(run, here, size);
  map(run, here, size, second);
  run.holds("a new mapping has no access", access_at(run, here) == 0);
  open(run, here, size);
  run.fill(here, 0x22, size);
  map(run, there, size, first);
  open(run, there, size);
  run.holds("a handle keeps its bytes", run.filled(there, 0x11, size));
  run.holds("the other has its own", run.filled(here, 0x22, size));
}

void aliased(Run& run) {
  const std::size_t size = granularity(run);
  const AllocationHandle handle = create(run, size);
  const DevicePointer first = reserve(run, size);
  const DevicePointer second = reserve(run, size);
  for (const DevicePointer each : {first, second}) {
    run.code(each == first ? "first mapping" : "second mapping",
             run.cu.cuMemMap(each, size, 0, handle, 0));
    open(run, each, size);
  }
  run.fill(first, 0x11, size);
  run.holds("what one wrote the other reads", run.filled(second, 0x11, size));
  run.fill(second + page, 0x22, page);
  run.holds("and the other way", run.filled(first + page, 0x22, page));
  unmap(run, first, size);
  run.holds("one outlives the other", run.filled(second, 0x11, page));
}

void released(Run& run) {
  const std::size_t size = granularity(run);
  const DevicePointer address = reserve(run, size);
  const AllocationHandle handle = create(run, size);
  map(run, address, size, handle);
  run.code("cuMemRelease", run.cu.cuMemRelease(handle));
  open(run, address, size);
  run.fill(address, 0x44, page);
  run.holds("the mapping keeps the memory", run.filled(address, 0x44, page));
  run.code("cuMemUnmap", run.cu.cuMemUnmap(address, size));
}

void retained(Run& run) {
  const std::size_t size = granularity(run);
  const DevicePointer address = reserve(run, size);
  const AllocationHandle handle = create(run, size);
  map(run, address, size, handle);
  open(run, address, size);
  run.fill(address, 0x55, page);
  AllocationHandle again = 0;
  run.code("by any address within",
           run.cu.cuMemRetainAllocationHandle(&again, host(address + size / 2)));
  run.holds("it is the same handle", again == handle);
  release(run, handle);
  unmap(run, address, size);
  map(run, address, size, again);
  open(run, address, size);
  run.holds("it keeps the memory", run.filled(address, 0x55, page));
  run.code("and is released", run.cu.cuMemRelease(again));
}

void goes_with_last(Run& run) {
  const auto alive = [&] { return run.model->live_objects(assay_model_physical); };
  const std::uint64_t before = alive();
  const std::size_t size = granularity(run);
  const DevicePointer address = reserve(run, size);
  const AllocationHandle handle = create(run, size);
  AllocationHandle again = 0;
  map(run, address, size, handle);
  run.must(run.cu.cuMemRetainAllocationHandle(&again, host(address)), "retain");
  release(run, handle);
  unmap(run, address, size);
  run.holds("a retained handle keeps it", alive() == before + 1);
  release(run, again);
  run.holds("the last release ends it", alive() == before);
  map(run, address, size, create(run, size));
  run.must(run.cu.cuMemRetainAllocationHandle(&again, host(address)), "retain");
  release(run, again);
  release(run, again);
  run.holds("a mapping keeps it", alive() == before + 1);
  unmap(run, address, size);
  run.holds("the last unmap ends it", alive() == before);
}

void copied_across(Run& run) {
  const std::size_t size = granularity(run);
  const DevicePointer address = mapped(run, size, 2);
  const DevicePointer middle = address + size - page;
  const DevicePointer other = run.device(2 * page);
  run.code("a set across the border", run.cu.cuMemsetD8_v2(middle, 0x66, 2 * page));
  run.wait();
  run.code("a copy across it", run.cu.cuMemcpyDtoD_v2(other, middle, 2 * page));
  run.wait();
  run.holds("the bytes of both came", run.filled(other, 0x66, 2 * page));
}

void kernel_across(Run& run) {
  const std::size_t size = granularity(run);
  const abi::Stream stream = run.stream();
  const DevicePointer address = mapped(run, size, 2);
  const DevicePointer middle = address + size - page;
  abi::FillParameters parameters{middle, 2 * page / 8, 0x7777777777777777u, 0};
  run.must(launch(run, kernel(run, abi::FillParameters::entry), parameters, stream), "launch");
  run.code("cuStreamSynchronize", run.cu.cuStreamSynchronize(stream));
  run.holds("it wrote the end of one", run.filled(middle, 0x77, page));
  run.holds("and the start of the next", run.filled(address + size, 0x77, page));
}

void outlives_context(Run& run) {
  const std::size_t size = granularity(run);
  const abi::Context other = run.other_context();
  const DevicePointer address = mapped(run, size);
  run.fill(address, 0x77, page);
  run.must(run.cu.cuCtxDestroy_v2(other), "cuCtxDestroy");
  run.must(run.cu.cuCtxSetCurrent(run.context), "cuCtxSetCurrent");
  run.holds("the memory holds what it held", run.filled(address, 0x77, page));
  run.code("cuMemUnmap", run.cu.cuMemUnmap(address, size));
}

void neighbours(Run& run) {
  const std::size_t size = granularity(run);
  const DevicePointer address = mapped(run, size, 3);
  for (const int i : {0, 1, 2}) {
    run.fill(address + static_cast<std::size_t>(i) * size, static_cast<unsigned char>(0x11 + i),
             page);
  }
  unmap(run, address + size, size);
  run.holds("an unmap touches no other mapping",
            run.filled(address, 0x11, page) && run.filled(address + 2 * size, 0x13, page));
}

void attributes(Run& run) {
  const std::size_t size = granularity(run);
  const DevicePointer address = reserve(run, 3 * size);
  map(run, address + size, size, create(run, size));
  open(run, address + size, size);
  const auto ask = [&](auto value, PointerAttribute which, DevicePointer of) {
    run.must(run.cu.cuPointerGetAttribute(&value, which, of), "cuPointerGetAttribute");
    return value;
  };
  const DevicePointer inner = address + size + 5;
  run.value("memory type", ask(0u, PointerAttribute::memory_type, inner));
  run.value("ordinal", ask(-7, PointerAttribute::device_ordinal, inner));
  run.value("managed", ask(7u, PointerAttribute::is_managed, inner));
  run.value("mapped", ask(0, PointerAttribute::mapped, inner));
  abi::Context context = nullptr;
  run.code("its context", run.cu.cuPointerGetAttribute(&context, PointerAttribute::context, inner));
  run.holds("the range is the reservation",
            ask(DevicePointer{0}, PointerAttribute::range_start_addr, inner) == address &&
                ask(std::size_t{0}, PointerAttribute::range_size, inner) == 3 * size);
  if (run.session.version < 11070) run.skip("needs a driver of 11.7 or newer");
  run.holds("the mapping is told",
            ask(DevicePointer{0}, PointerAttribute::mapping_base_addr, inner) == address + size &&
                ask(std::size_t{0}, PointerAttribute::mapping_size, inner) == size);
}

void host_touch(Run& run) {
  const DevicePointer address = mapped(run, granularity(run));
  run.signal("host read", read_at(host(address)));
  run.signal("host write", write_at(host(address)));
}

Test described(const char* id, const char* states, std::vector<Expectation> allowed, Steps steps,
               const Needs& needs = {}) {
  return {id, states, virtual_memory() + needs, std::move(allowed), steps};
}

Tests lives() {
  const std::vector<std::int64_t> refused = {invalid_value};
  return {
      described("mapping.life", "memory is reserved, created, mapped, opened, used and given back",
                {succeeds("cuMemMap", hdr), succeeds("cuMemSetAccess", hdr),
                 holds("it holds what was set", hdr), succeeds("cuMemUnmap", hdr),
                 succeeds("cuMemRelease", hdr), succeeds("cuMemAddressFree", hdr)},
                life),
      described("mapping.closed_at_first", "a mapping begins without access",
                {holds("it has no access", hdr), code("a set", refused, hip),
                 code("a copy to it", refused, hip), code("a copy from it", refused, hip)},
                closed_at_first),
      described("mapping.read_only", "what may be read alone is not written",
                {succeeds("cuMemSetAccess", hdr), holds("it reads back", hdr),
                 succeeds("a copy from it", hip), holds("gives what it held", hip),
                 code("a copy to it", refused, hip), code("a set", refused, hip)},
                read_only),
      described("mapping.access", "access reads back as it was set, mapping by mapping",
                {holds("all", hdr), holds("each mapping has its own", hdr), holds("none", hdr),
                 holds("all again", hdr)},
                access_read_back),
      described("mapping.remapped", "a handle's bytes are where it is mapped",
                {holds("a new mapping has no access", hdr), holds("a handle keeps its bytes", hdr),
                 holds("the other has its own", hdr)},
                remapped),
      described("mapping.aliased", "a handle may be mapped twice",
                {succeeds("first mapping", hdr), succeeds("second mapping", hdr),
                 holds("what one wrote the other reads", doc), holds("and the other way", doc),
                 holds("one outlives the other", hdr)},
                aliased),
      described("mapping.released", "a handle may be released while it is mapped",
                {succeeds("cuMemRelease", hdr), holds("the mapping keeps the memory", hdr),
                 succeeds("cuMemUnmap", hdr)},
                released),
      described("mapping.retained", "a mapping gives its handle again",
                {succeeds("by any address within", hdr), holds("it is the same handle", hdr),
                 holds("it keeps the memory", hdr), succeeds("and is released", hdr)},
                retained),
      described("mapping.goes_with_last",
                "the model counts physical memory until its last handle and mapping are gone",
                {holds("a retained handle keeps it", hdr), holds("the last release ends it", hdr),
                 holds("a mapping keeps it", hdr), holds("the last unmap ends it", hdr)},
                goes_with_last, model_only("a driver counts nothing")),
  };
}

Tests uses() {
  return {
      described("mapping.copied_across", "mappings side by side are one range to a copy",
                {code("a set across the border", {ok}, unsure),
                 code("a copy across it", {ok}, unsure), holds("the bytes of both came", unsure)},
                copied_across),
      described("mapping.kernel_across", "and to a kernel",
                {succeeds("cuStreamSynchronize", doc), holds("it wrote the end of one", doc),
                 holds("and the start of the next", doc)},
                kernel_across, having(cuda::Feature::tests)),
      described("mapping.outlives_context", "a mapping does not end with a context",
                {holds("the memory holds what it held", hdr), succeeds("cuMemUnmap", hdr)},
                outlives_context, having(cuda::Feature::tests)),
      described("mapping.neighbours", "mappings are unmapped one by one",
                {holds("an unmap touches no other mapping", hdr)}, neighbours),
      described(
          "mapping.attributes", "an address tells its reservation and its mapping",
          {value("memory type", {2}, hdr), value("ordinal", {0}, hdr), value("managed", {0}, hdr),
           value("mapped", {1}, hdr), code("its context", {invalid_value}, hdr),
           holds("the range is the reservation", hdr), holds("the mapping is told", hdr)},
          attributes),
      described("mapping.host_touch", "access of the device is none of the host",
                {faults("host read", doc), faults("host write", doc)}, host_touch,
                without(DeviceAttribute::pageable_memory_access_uses_host_page_tables)),
  };
}

}  // namespace

Tests mapping_tests() {
  Tests tests = lives();
  for (Test& test : uses()) tests.push_back(std::move(test));
  return tests;
}

}  // namespace assay::conformance
