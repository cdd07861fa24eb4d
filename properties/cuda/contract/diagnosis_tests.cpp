// Diagnoses: mistakes that a driver answers with silence, chance or a dead context, and the model
// with a line that names its rule.
#include <atomic>
#include <cstring>

#include <sys/mman.h>

#include "contract/advice.hpp"
#include "contract/diagnosis.hpp"
#include "contract/groups.hpp"
#include "contract/launch.hpp"

namespace assay::conformance {
namespace {

using enum Source;
using Attribute = DeviceAttribute;

constexpr std::int64_t misaligned_address = 716;
constexpr std::int64_t launch_failed = 719;

void free_twice(Run& run) {
  const DevicePointer address = run.device(page);
  run.must(run.cu.cuMemFree_v2(address), "cuMemFree");
  (void)run.cu.cuMemFree_v2(address);
  run.holds(named, diagnosed(run, "free_twice"));
}

void free_interior(Run& run) {
  (void)run.cu.cuMemFree_v2(run.device(page) + 256);
  run.holds(named, diagnosed(run, "free_interior"));
}

void free_unknown(Run& run) {
  (void)run.cu.cuMemFree_v2(address_of(run.pageable(page)));
  run.holds(named, diagnosed(run, "free_unknown"));
}

void free_wrong_kind(Run& run) {
  (void)run.cu.cuMemFreeHost(host(run.device(page)));
  run.holds(named, diagnosed(run, "free_wrong_kind"));
}

void free_in_flight(Run& run) {
  const DevicePointer address = run.device(page);
  run.must(run.cu.cuMemsetD8Async(address, 1, page, run.stream()), "cuMemsetD8Async");
  run.code("cuMemFree", run.cu.cuMemFree_v2(address));
  run.holds(named, diagnosed(run, "free_in_flight"));
}

/// Whether a free waits is the profile's affair; what follows from it is not.
void work_on_freed(Run& run) {
  static std::atomic<bool> ran{false};
  const abi::Stream stream = run.stream();
  const DevicePointer address = run.device(page);
  run.must(run.cu.cuLaunchHostFunc(stream, [](void*) { ran = true; }, nullptr), "cuLaunchHostFunc");
  run.must(run.cu.cuMemsetD8Async(address, 1, page, stream), "cuMemsetD8Async");
  run.must(run.cu.cuMemFree_v2(address), "cuMemFree");
  const bool waited = ran;
  const auto status = static_cast<std::int64_t>(run.cu.cuStreamSynchronize(stream));
  run.note(waited ? "the free waited" : "the free did not wait");
  run.holds("the free waited, or its work is a fault", status == (waited ? ok : illegal_address));
}

void copy_overlap(Run& run) {
  const DevicePointer address = run.device(page);
  (void)run.cu.cuMemcpyDtoD_v2(address + 8, address, 64);
  run.holds(named, diagnosed(run, "copy_overlap"));
}

void source_changed(Run& run) {
  const abi::Stream stream = run.stream();
  std::byte* const source = run.pinned(page);
  std::memset(source, 1, page);
  run.must(run.cu.cuMemcpyHtoDAsync_v2(run.device(page), source, page, stream),
           "cuMemcpyHtoDAsync");
  std::memset(source, 2, page);
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.holds(named, diagnosed(run, "source_changed"));
}

void target_unmapped(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer address = run.device(page);
  std::byte* const target = run.pageable(page);
  run.fill(address, 1, page);
  run.must(run.cu.cuMemcpyDtoHAsync_v2(target, address, page, stream), "cuMemcpyDtoHAsync");
  ::munmap(target, page);
  (void)run.cu.cuStreamSynchronize(stream);
  run.holds(named, diagnosed(run, "host_memory_gone"));
}

void registered_unmapped(Run& run) {
  std::byte* const memory = run.registered(page);
  ::munmap(memory, page);
  (void)run.cu.cuMemHostUnregister(memory);
  run.holds(named, diagnosed(run, "registered_unmapped"));
}

void neighbour(Run& run) {
  const DevicePointer first = run.managed(512);
  (void)run.managed(512);
  run.must(advise(run, first, 512, abi::Advise::set_read_mostly, {abi::LocationType::device, 0}),
           "cuMemAdvise");
  run.holds(named, diagnosed(run, "advice_neighbour"));
}

void wrong_abi(Run& run) {
  (void)run.cu.cuMemAdvise_v2(run.managed(page), page, abi::Advise::set_preferred_location,
                              {static_cast<abi::LocationType>(0xFFFFFFFFu), 0});
  run.holds(named, diagnosed(run, "location_looks_ordinal"));
}

void context_ended(Run& run) {
  run.need_lazy_model();
  const DevicePointer address = run.device(page);
  run.fill(address, 1, page);
  run.must(run.cu.cuMemcpyDtoHAsync_v2(run.pageable(page), address, page, run.stream()),
           "cuMemcpyDtoHAsync");
  run.must(run.cu.cuDevicePrimaryCtxRelease_v2(0), "last release");
  run.holds(named, diagnosed(run, "context_ended_with_work"));
}

void used_by_another_stream(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer memory = run.managed(page, abi::mem_attach_host);
  abi::FillParameters parameters{memory, 8, 1, 0};
  run.must(launch(run, kernel(run, abi::FillParameters::entry), parameters, stream), "launch");
  (void)run.cu.cuStreamSynchronize(stream);
  run.holds(named, diagnosed(run, "access_attached"));
}

/// Launches fill at an address that it must not write, and looks at what becomes of the context.
void bad_fill(Run& run, DevicePointer address, const char* rule) {
  const abi::Stream stream = run.stream();
  abi::FillParameters parameters{address, 8, 1, 0};
  run.must(launch(run, kernel(run, abi::FillParameters::entry), parameters, stream), "launch");
  run.code("the wait", run.cu.cuStreamSynchronize(stream));
  DevicePointer other = 0;
  run.code("every call from now on", run.cu.cuMemAlloc_v2(&other, 4096));
  run.holds(named, diagnosed(run, rule));
}

void kernel_on_freed(Run& run) {
  const DevicePointer address = run.device(page);
  run.must(run.cu.cuMemFree_v2(address), "cuMemFree");
  bad_fill(run, address, "access_nowhere");
}
void kernel_nowhere(Run& run) {
  bad_fill(run, address_of(run.pageable(page)), "access_nowhere");
}
void kernel_misaligned(Run& run) {
  bad_fill(run, run.device(page) + 4, "access_misaligned");
}

void kernel_without_end(Run& run) {
  const abi::Stream stream = run.stream();
  abi::TouchParameters parameters{run.device(page), page, 0, 0, 0};
  run.must(launch(run, kernel(run, abi::TouchParameters::entry), parameters, stream), "launch");
  run.code("the wait", run.cu.cuStreamSynchronize(stream));
  run.holds(named, diagnosed(run, "touch_stride"));
}

void poisoned(Run& run) {
  const DevicePointer address = run.device(page);
  const abi::Stream stream = run.stream();
  run.model->poison(static_cast<std::uint32_t>(illegal_address));
  DevicePointer other = 0;
  run.code("cuMemAlloc", run.cu.cuMemAlloc_v2(&other, 4096));
  run.code("cuMemFree", run.cu.cuMemFree_v2(address));
  run.code("cuStreamSynchronize", run.cu.cuStreamSynchronize(stream));
  run.code("cuCtxSynchronize", run.cu.cuCtxSynchronize());
}

void clean(Run& run) {
  const abi::Stream stream = run.stream();
  std::byte* const source = run.pinned(page);
  const DevicePointer address = run.device(page);
  std::memset(source, 1, page);
  run.must(run.cu.cuMemcpyHtoDAsync_v2(address, source, page, stream), "cuMemcpyHtoDAsync");
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  std::memset(source, 2, page);
  run.must(run.cu.cuMemFree_v2(address), "cuMemFree");
  run.must(run.cu.cuMemFreeHost(source), "cuMemFreeHost");
  blamed_for_nothing(run);
}

}  // namespace

Tests diagnosis_tests() {
  return {
      silent("diagnosis.free_twice", "memory freed twice", free_twice),
      silent("diagnosis.free_interior", "a free within an allocation", free_interior),
      silent("diagnosis.free_unknown", "a free of memory that is nobody's", free_unknown),
      silent("diagnosis.free_wrong_kind", "a free by the wrong function", free_wrong_kind),
      {"diagnosis.free_in_flight",
       "memory freed while work on it is pending",
       model_alone(),
       {succeeds("cuMemFree", hdr), holds(named, model)},
       free_in_flight},
      {"diagnosis.work_on_freed",
       "work on memory that was freed before it ran",
       model_alone(),
       {holds("the free waited, or its work is a fault", doc)},
       work_on_freed},
      silent("diagnosis.copy_overlap", "a copy onto itself", copy_overlap),
      silent("diagnosis.source_changed", "a source written before its copy was waited for",
             source_changed),
      silent("diagnosis.target_unmapped", "a target unmapped before its copy was waited for",
             target_unmapped),
      silent("diagnosis.registered_unmapped",
             "registered memory unmapped before it is unregistered", registered_unmapped,
             with(Attribute::host_register_supported)),
      silent("diagnosis.neighbour", "advice for a small allocation that shares its page", neighbour,
             with(Attribute::concurrent_managed_access)),
      silent(
          "diagnosis.wrong_abi", "an ordinal where the ABI has a location", wrong_abi,
          with(Attribute::concurrent_managed_access) + having(cuda::Feature::advise_by_location)),
      silent("diagnosis.context_ended", "a context ended before a copy to the host was done",
             context_ended),
      silent("diagnosis.attached", "device work on memory that is attached to the host",
             used_by_another_stream, in({cuda::Regime::exclusive})),
      fatal("diagnosis.kernel_on_freed", "a kernel on freed memory ends the context",
            illegal_address, kernel_on_freed),
      fatal("diagnosis.kernel_nowhere", "a kernel on memory that the device has not",
            illegal_address, kernel_nowhere, without(Attribute::pageable_memory_access)),
      fatal("diagnosis.kernel_misaligned", "a kernel on words that are not aligned",
            misaligned_address, kernel_misaligned),
      {"diagnosis.kernel_without_end",
       "a kernel that would never end",
       model_alone() + having(cuda::Feature::tests),
       {code("the wait", {launch_failed}, model), holds(named, model)},
       kernel_without_end},
      {"diagnosis.poisoned",
       "after an asynchronous fault every call answers it",
       model_alone(),
       {code("cuMemAlloc", {illegal_address}, doc), code("cuMemFree", {illegal_address}, doc),
        code("cuStreamSynchronize", {illegal_address}, doc),
        code("cuCtxSynchronize", {illegal_address}, doc)},
       poisoned},
      clean_program("diagnosis.clean", "a program without fault is blamed for nothing", clean),
  };
}

}  // namespace assay::conformance
