// Diagnoses of what the host does to memory that is not its own, or not yet.
#include <csignal>
#include <cstring>

#include "contract/diagnosis.hpp"
#include "contract/groups.hpp"
#include "contract/launch.hpp"

namespace assay::conformance {
namespace {

using enum Source;

/// Starts the driver with nobody who handles SIGSEGV, so that what it passes on changes nothing.
void begin(Run& run) {
  std::signal(SIGSEGV, SIG_DFL);
  run.must(run.cu.cuInit(0), "preparation: cuInit");
  abi::Context context = nullptr;
  run.must(run.cu.cuDevicePrimaryCtxRetain(&context, 0), "preparation: cuDevicePrimaryCtxRetain");
  run.must(run.cu.cuCtxSetCurrent(context), "preparation: cuCtxSetCurrent");
}

int attribute(Run& run, DeviceAttribute which) {
  int value = 0;
  run.must(run.cu.cuDeviceGetAttribute(&value, which, 0), "cuDeviceGetAttribute");
  return value;
}

void touch(Run& run, DevicePointer address, const char* rule) {
  run.signal("host read", read_told(host(address)));
  run.holds(named, diagnosed(run, rule));
}

void of_device(Run& run) {
  begin(run);
  touch(run, run.device(page), "host_access_device");
}

void of_freed(Run& run) {
  begin(run);
  const DevicePointer address = run.device(page);
  run.must(run.cu.cuMemFree_v2(address), "cuMemFree");
  touch(run, address, "host_access_freed");
}

void of_busy(Run& run) {
  begin(run);
  if (attribute(run, DeviceAttribute::managed_memory) == 0 ||
      attribute(run, DeviceAttribute::concurrent_managed_access) != 0) {
    run.skip("needs the memory regime exclusive");
  }
  const abi::Stream stream = run.stream();
  const DevicePointer address = run.managed(page);
  Spin spin(run, stream);
  touch(run, address, "host_access_busy");
}

void read_early(Run& run) {
  run.need_lazy_model();
  const abi::Stream stream = run.stream();
  std::byte* const target = run.pinned(page);
  run.must(run.cu.cuMemcpyDtoHAsync_v2(target, run.device(page), page, stream),
           "cuMemcpyDtoHAsync");
  run.holds("the model is asked too early", run.model->host_reads(address_of(target), page) != 0);
  run.holds(named, diagnosed(run, "host_read_early"));
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.holds("after a wait it is not", run.model->host_reads(address_of(target), page) == 0);
}

void newer_abi(Run& run) {
  constexpr auto looks_like_a_node = static_cast<abi::Device>(abi::LocationType::host_numa);
  (void)run.cu.cuMemAdvise(run.managed(page), page, abi::Advise::set_preferred_location,
                           looks_like_a_node);
  run.holds(named, diagnosed(run, "ordinal_looks_location"));
}

Test touching(const char* id, const char* states, Steps steps) {
  return {id,
          states,
          model_alone() + from(Start::unloaded),
          {faults("host read", doc), holds(named, model)},
          steps};
}

}  // namespace

Tests host_diagnosis_tests() {
  return {
      touching("diagnosis.host_device", "device memory touched by the host", of_device),
      touching("diagnosis.host_freed", "freed memory touched by the host", of_freed),
      touching("diagnosis.host_busy", "managed memory touched while the device excludes the host",
               of_busy),
      {"diagnosis.host_read_early",
       "memory read before the work that writes it was waited for, as the model is told",
       model_alone(),
       {holds("the model is asked too early", model), holds(named, model),
        holds("after a wait it is not", model)},
       read_early},
      silent("diagnosis.newer_abi", "a location where the ABI has an ordinal", newer_abi,
             with(DeviceAttribute::concurrent_managed_access) +
                 having(cuda::Feature::advise_by_ordinal)),
  };
}

}  // namespace assay::conformance
