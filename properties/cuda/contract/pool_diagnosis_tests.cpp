// Diagnoses of stream-ordered memory: what is not in the order of streams, and what is.
#include "contract/diagnosis.hpp"
#include "contract/groups.hpp"
#include "contract/launch.hpp"
#include "contract/pool.hpp"

namespace assay::conformance {
namespace {

using enum Source;

constexpr std::size_t size = page;

void free_twice(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer address = pooled(run, size, stream);
  free_async(run, address, stream);
  (void)run.cu.cuMemFreeAsync(address, stream);
  run.holds(named, diagnosed(run, "pool_free_twice"));
}

void free_foreign(Run& run) {
  (void)run.cu.cuMemFreeAsync(run.device(size), run.stream());
  run.holds(named, diagnosed(run, "pool_free_foreign"));
}

void use_unordered(Run& run) {
  const DevicePointer address = pooled(run, size, run.stream());
  set(run, address, 1, run.stream());
  run.holds(named, diagnosed(run, "pool_use_unordered"));
}

void use_after_free(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer address = pooled(run, size, stream);
  free_async(run, address, stream);
  (void)run.cu.cuMemsetD8Async(address, 1, size, stream);
  run.holds(named, diagnosed(run, "pool_use_after_free"));
}

void use_races_free(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer address = pooled(run, size, stream);
  synchronize(run, stream);
  free_async(run, address, stream);
  (void)run.cu.cuMemsetD8Async(address, 1, size, run.stream());
  run.holds(named, diagnosed(run, "pool_use_races_free"));
}

void free_unordered(Run& run) {
  const DevicePointer address = pooled(run, size, run.stream());
  free_async(run, address, run.stream());
  run.holds(named, diagnosed(run, "pool_free_unordered"));
}

void free_races_use(Run& run) {
  const abi::Stream first = run.stream();
  const abi::Stream second = run.stream();
  const DevicePointer address = pooled(run, size, first);
  order(run, first, second);
  set(run, address, 1, second);
  free_async(run, address, first);
  run.holds(named, diagnosed(run, "pool_free_races_use"));
}

void free_in_flight(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer address = pooled(run, size, stream);
  set(run, address, 1, stream);
  run.code("cuMemFree", run.cu.cuMemFree_v2(address));
  run.holds(named, diagnosed(run, "free_in_flight"));
}

/// Device 1 uses memory of device 0, to which nobody gave it access.
void no_access(Run& run) {
  int count = 0;
  run.must(run.cu.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (count < 2) run.skip("needs two devices");
  const abi::Stream stream = run.stream();
  const DevicePointer address = pooled_from(run, size, make_pool(run), stream);
  synchronize(run, stream);
  abi::Context other = nullptr;
  run.must(run.cu.cuDevicePrimaryCtxRetain(&other, 1), "cuDevicePrimaryCtxRetain");
  run.must(run.cu.cuCtxSetCurrent(other), "cuCtxSetCurrent");
  const abi::Stream there = run.stream();
  abi::FillParameters parameters{address, 8, 1, 0};
  run.must(launch(run, kernel(run, abi::FillParameters::entry), parameters, there), "launch");
  run.code("the wait", run.cu.cuStreamSynchronize(there));
  DevicePointer more = 0;
  run.code("every call from now on", run.cu.cuMemAlloc_v2(&more, 4096));
  run.holds(named, diagnosed(run, "access_forbidden"));
}

void clean(Run& run) {
  const abi::Stream first = run.stream();
  const abi::Stream second = run.stream();
  const DevicePointer address = pooled(run, size, first);
  set(run, address, 1, first);
  order(run, first, second);
  set(run, address, 1, second);
  const DevicePointer other = pooled(run, size, second);
  run.must(run.cu.cuMemcpyDtoDAsync_v2(other, address, size, second), "cuMemcpyDtoDAsync");
  order(run, second, first);
  free_async(run, address, first);
  free_async(run, other, first);
  const DevicePointer last = pooled(run, size, first);
  synchronize(run, first);
  set(run, last, 1, second);
  synchronize(run, second);
  run.must(run.cu.cuMemFree_v2(last), "cuMemFree");
  blamed_for_nothing(run);
}

}  // namespace

Tests pool_diagnosis_tests() {
  return {
      silent("diagnosis.pool_free_twice", "a block freed twice", free_twice, pools()),
      silent("diagnosis.pool_free_foreign", "memory freed in a stream that is no pool's",
             free_foreign, pools()),
      silent("diagnosis.pool_use_unordered", "a block used in a stream that does not wait for it",
             use_unordered, pools()),
      silent("diagnosis.pool_use_after_free", "a block used after its free", use_after_free,
             pools()),
      silent("diagnosis.pool_use_races_free", "a block used beside its free", use_races_free,
             pools()),
      silent("diagnosis.pool_free_unordered", "a block freed in a stream that does not wait for it",
             free_unordered, pools()),
      silent("diagnosis.pool_free_races_use", "a block freed beside its use", free_races_use,
             pools()),
      {"diagnosis.pool_free_in_flight",
       "a block freed by cuMemFree, which waits for nothing, while work on it is pending",
       model_alone() + pools(),
       {succeeds("cuMemFree", hdr), holds(named, model)},
       free_in_flight},
      fatal("diagnosis.pool_no_access", "a block used by a device that has no access to its pool",
            illegal_address, no_access, pools()),
      clean_program("diagnosis.pool_clean", "streams in order are blamed for nothing", clean,
                    pools()),
  };
}

}  // namespace assay::conformance
