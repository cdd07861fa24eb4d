#include "contract/launch.hpp"

#include <atomic>

namespace assay::conformance {

Spin::Spin(Run& run, abi::Stream stream)
    : flag_(reinterpret_cast<std::uint32_t*>(run.pinned(page, abi::host_alloc_device_map))) {
  *flag_ = 0;
  DevicePointer device = 0;
  run.must(run.cu.cuMemHostGetDevicePointer_v2(&device, flag_, 0),
           "preparation: cuMemHostGetDevicePointer");
  abi::SpinParameters parameters{device, 1, 5'000'000'000, 0};
  const abi::Function function = kernel(run, abi::SpinParameters::entry);
  run.must(launch(run, function, parameters, stream, {1, 1}), "preparation: launch of spin");
}

void Spin::let_go() noexcept {
  std::atomic_ref<std::uint32_t>(*flag_).store(1, std::memory_order_release);
}

}  // namespace assay::conformance
