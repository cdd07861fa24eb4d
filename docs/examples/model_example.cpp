// A program of one's own on the driver model: two mistakes that a GPU may forgive, and how they
// show.
//
//   model-example lib/libassay_cuda_model.so        (or any driver: then without the diagnoses)
//
// A real program would include cuda.h. This one takes the driver's types from assay, so that it
// builds without a toolkit.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "assay/cuda/abi/model_control.hpp"
#include "assay/cuda/abi/types.hpp"

namespace {

using namespace assay::cuda::abi;

void* library = nullptr;

/// Calls an exported function of the driver; ends the program if it does not succeed.
template <class... Arguments>
void call(const char* name, Arguments... arguments) {
  const auto function = reinterpret_cast<Status (*)(Arguments...)>(dlsym(library, name));
  const Status status = function == nullptr ? Status::not_found : function(arguments...);
  if (status == Status::success) return;
  std::fprintf(stderr, "%s failed: %u\n", name, static_cast<unsigned>(status));
  std::exit(1);
}

constexpr std::size_t size = 4096;

struct Buffers {
  DevicePointer device = 0;
  unsigned char* host = nullptr;
  Stream stream = nullptr;
};

Buffers make_buffers() {
  char name[64];
  Context context = nullptr;
  Buffers made;
  void* host = nullptr;
  call("cuInit", 0U);
  call("cuDeviceGetName", &name[0], static_cast<int>(sizeof name), 0);
  std::printf("device: %s\n", name);
  call("cuDevicePrimaryCtxRetain", &context, 0);
  call("cuCtxSetCurrent", context);
  call("cuMemAlloc_v2", &made.device, size);
  call("cuMemHostAlloc", &host, size, 0U);
  call("cuStreamCreate", &made.stream, 1U);
  made.host = static_cast<unsigned char*>(host);
  std::memset(made.host, 0, size);
  return made;
}

/// Reads the target of a copy without waiting for it.
void forget_to_wait(const Buffers& buffers) {
  call("cuMemsetD8Async", buffers.device, static_cast<unsigned char>(7), size, buffers.stream);
  call("cuMemcpyDtoHAsync_v2", static_cast<void*>(buffers.host), buffers.device, size,
       buffers.stream);
  std::printf("before the wait: %d\n", buffers.host[0]);
  call("cuStreamSynchronize", buffers.stream);
  std::printf("after the wait: %d\n", buffers.host[0]);
}

/// Reuses the source of a copy that has not been waited for.
void reuse_the_source_early(const Buffers& buffers) {
  call("cuMemcpyHtoDAsync_v2", buffers.device, static_cast<const void*>(buffers.host), size,
       buffers.stream);
  buffers.host[0] = 99;
  call("cuStreamSynchronize", buffers.stream);
}

}  // namespace

int main(int argc, char** argv) {
  const char* path = argc > 1 ? argv[1] : std::getenv("ASSAY_CUDA_DRIVER");
  library = dlopen(path == nullptr ? "libcuda.so.1" : path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "no driver: %s\n", dlerror());
    return 77;
  }
  const Buffers buffers = make_buffers();
  forget_to_wait(buffers);
  reuse_the_source_early(buffers);

  // The marker exists in the model and in no driver.
  using Marker = const assay_model_control* (*)();
  if (const auto marker = reinterpret_cast<Marker>(dlsym(library, model_marker))) {
    const assay_model_control& model = *marker();
    for (std::uint64_t i = 0; i < model.diagnosis_count(); ++i) {
      std::printf("diagnosed: %s\n", model.diagnosis(i));
    }
  }
  call("cuStreamDestroy_v2", buffers.stream);
  call("cuMemFreeHost", static_cast<void*>(buffers.host));
  call("cuMemFree_v2", buffers.device);
  return 0;
}
