// Diagnoses of virtual memory management, and of memory that was discarded.
#include "contract/diagnosis.hpp"
#include "contract/groups.hpp"
#include "contract/launch.hpp"
#include "contract/virtual.hpp"

namespace assay::conformance {
namespace {

using enum Source;

/// Work on a mapping that the device has not come to.
abi::Stream leave_work(Run& run, DevicePointer address) {
  run.need_lazy_model();
  const abi::Stream stream = run.stream();
  run.must(run.cu.cuMemsetD8Async(address, 1, page, stream), "cuMemsetD8Async");
  return stream;
}

void unmap_in_flight(Run& run) {
  const std::size_t size = granularity(run);
  const DevicePointer address = mapped(run, size);
  const abi::Stream stream = leave_work(run, address);
  unmap(run, address, size);
  run.holds("an unmap under work", diagnosed(run, "unmap_in_flight"));
  run.code("the wait", run.cu.cuStreamSynchronize(stream));
  DevicePointer other = 0;
  run.code("every call from now on", run.cu.cuMemAlloc_v2(&other, 4096));
  run.holds(named, diagnosed(run, "access_after_unmap"));
}

void reservation_in_flight(Run& run) {
  const std::size_t size = granularity(run);
  const DevicePointer address = mapped(run, size);
  (void)leave_work(run, address);
  unmap(run, address, size);
  run.must(run.cu.cuMemAddressFree(address, size), "cuMemAddressFree");
  run.holds(named, diagnosed(run, "reservation_in_flight"));
}

void map_in_flight(Run& run) {
  const std::size_t size = granularity(run);
  const DevicePointer address = mapped(run, size);
  (void)leave_work(run, address);
  unmap(run, address, size);
  map(run, address, size, create(run, size));
  run.holds(named, diagnosed(run, "map_in_flight"));
}

void forbidden(Run& run) {
  const std::size_t size = granularity(run);
  const DevicePointer address = reserve(run, size);
  map(run, address, size, create(run, size));
  const abi::Stream stream = run.stream();
  abi::FillParameters parameters{address, 8, 1, 0};
  run.must(launch(run, kernel(run, abi::FillParameters::entry), parameters, stream), "launch");
  run.code("the wait", run.cu.cuStreamSynchronize(stream));
  DevicePointer other = 0;
  run.code("every call from now on", run.cu.cuMemAlloc_v2(&other, 4096));
  run.holds(named, diagnosed(run, "access_forbidden"));
}

void read_only(Run& run) {
  const std::size_t size = granularity(run);
  const DevicePointer address = mapped(run, size);
  const DevicePointer result = run.device(8);
  run.fill(address, 1, page);
  run.must(grant(run, address, size, abi::AccessFlags::read), "cuMemSetAccess");
  const abi::Stream stream = run.stream();
  abi::ChecksumParameters reads{address, 8, result};
  run.must(launch(run, kernel(run, abi::ChecksumParameters::entry), reads, stream), "launch");
  abi::TouchParameters touches{address, page, 4096, 0, 0};
  run.must(launch(run, kernel(run, abi::TouchParameters::entry), touches, stream), "launch");
  run.code("kernels that read", run.cu.cuStreamSynchronize(stream));
  abi::FillParameters writes{address, 8, 1, 0};
  run.must(launch(run, kernel(run, abi::FillParameters::entry), writes, stream), "launch");
  run.code("one that writes", run.cu.cuStreamSynchronize(stream));
}

void release_twice(Run& run) {
  const abi::AllocationHandle handle = create(run, granularity(run));
  release(run, handle);
  (void)run.cu.cuMemRelease(handle);
  run.holds(named, diagnosed(run, "release_twice"));
}

void release_unknown(Run& run) {
  (void)run.cu.cuMemRelease(12345);
  run.holds(named, diagnosed(run, "release_unknown"));
}

void clean(Run& run) {
  const std::size_t size = granularity(run);
  const DevicePointer address = reserve(run, size);
  const abi::AllocationHandle handle = create(run, size);
  const abi::Stream stream = run.stream();
  for (int i = 0; i < 2; ++i) {
    map(run, address, size, handle);
    open(run, address, size);
    run.must(run.cu.cuMemsetD8Async(address, 1, page, stream), "cuMemsetD8Async");
    run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
    unmap(run, address, size);
  }
  release(run, handle);
  run.must(run.cu.cuMemAddressFree(address, size), "cuMemAddressFree");
  blamed_for_nothing(run);
}

Needs batches() {
  return having(cuda::Feature::batches) + with(DeviceAttribute::concurrent_managed_access);
}

void discard(Run& run, DevicePointer address, abi::Stream stream) {
  DevicePointer addresses[] = {address};
  std::size_t sizes[] = {page};
  run.must(run.cu.cuMemDiscardBatchAsync(addresses, sizes, 1, 0, stream), "cuMemDiscardBatchAsync");
}

void discarded_read(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer address = run.managed(page);
  run.fill(address, 1, page);
  discard(run, address, stream);
  run.must(run.cu.cuMemcpyDtoDAsync_v2(run.device(page), address, page, stream),
           "cuMemcpyDtoDAsync");
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.holds(named, diagnosed(run, "discarded_read"));
}

/// A write or a prefetch ends the discard.
void discarded_clean(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer first = run.managed(page);
  const DevicePointer second = run.managed(page);
  const DevicePointer target = run.device(page);
  DevicePointer addresses[] = {second};
  std::size_t sizes[] = {page};
  abi::Location locations[] = {first_device};
  std::size_t firsts[] = {0};
  for (const DevicePointer each : {first, second}) discard(run, each, stream);
  run.must(run.cu.cuMemsetD8Async(first, 1, page, stream), "cuMemsetD8Async");
  run.must(run.cu.cuMemPrefetchBatchAsync(addresses, sizes, 1, locations, firsts, 1, 0, stream),
           "cuMemPrefetchBatchAsync");
  for (const DevicePointer each : {first, second}) {
    run.must(run.cu.cuMemcpyDtoDAsync_v2(target, each, page, stream), "cuMemcpyDtoDAsync");
  }
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  blamed_for_nothing(run);
}

}  // namespace

Tests virtual_diagnosis_tests() {
  Test unmapped = fatal("diagnosis.unmap_in_flight", "memory unmapped under work ends the context",
                        illegal_address, unmap_in_flight, virtual_memory());
  unmapped.allowed.push_back(holds("an unmap under work", model));
  return {
      std::move(unmapped),
      silent("diagnosis.reservation_in_flight", "addresses given back under work",
             reservation_in_flight, virtual_memory()),
      silent("diagnosis.map_in_flight", "addresses mapped anew under work", map_in_flight,
             virtual_memory()),
      fatal("diagnosis.access_forbidden", "a kernel on memory that it was given no access to",
            illegal_address, forbidden, virtual_memory()),
      {"diagnosis.access_read_only",
       "a kernel that only reads needs no more than read access",
       model_alone() + having(cuda::Feature::tests) + virtual_memory(),
       {succeeds("kernels that read", hdr), code("one that writes", {illegal_address}, doc)},
       read_only},
      silent("diagnosis.release_twice", "a handle released twice", release_twice, virtual_memory()),
      silent("diagnosis.release_unknown", "a handle that never was one", release_unknown,
             virtual_memory()),
      clean_program("diagnosis.virtual_clean", "memory unmapped after a wait is no mistake", clean,
                    virtual_memory()),
      silent("diagnosis.discarded_read", "discarded bytes read before a write or prefetch",
             discarded_read, batches()),
      clean_program("diagnosis.discarded_clean", "a write or a prefetch ends a discard",
                    discarded_clean, batches()),
  };
}

}  // namespace assay::conformance
