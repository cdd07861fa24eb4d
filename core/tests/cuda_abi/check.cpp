// assay's hand-written driver ABI beside NVIDIA's cuda.h and cudaTypedefs.h: the one place that
// sees both. Everything is compared while it compiles; running it looks each export up in the
// toolkit's stub library, which has the driver's export table.
#include <cstddef>
#include <cstdio>

#include <dlfcn.h>

#include "assay/cuda/abi/types.hpp"
#include "compare.hpp"

// After ours: cuda.h defines names such as cuMemAlloc as macros.
#include <cuda.h>
#include <cudaTypedefs.h>

namespace assay::cuda::abi {

// Opaque handles: pointers to something incomplete on both sides, and one class apart.
#define ASSAY_ABI_TYPE(ours, theirs)                  \
  static_assert(abi_check::same_type<ours, theirs>(), \
                "type " #ours " is not as " #theirs " of cuda.h")
ASSAY_ABI_TYPE(Device, CUdevice);
ASSAY_ABI_TYPE(DevicePointer, CUdeviceptr);
ASSAY_ABI_TYPE(AllocationHandle, CUmemGenericAllocationHandle);
ASSAY_ABI_TYPE(Context, CUcontext);
ASSAY_ABI_TYPE(Stream, CUstream);
ASSAY_ABI_TYPE(Event, CUevent);
ASSAY_ABI_TYPE(Module, CUmodule);
ASSAY_ABI_TYPE(Function, CUfunction);
ASSAY_ABI_TYPE(MemPool, CUmemoryPool);
ASSAY_ABI_TYPE(HostFunction, CUhostFn);

#define ASSAY_DRIVER_FUNCTION(symbol, base, version, need, parameters)                    \
  namespace check_of_##symbol {                                                           \
    using Same = abi_check::SameFunction<Status parameters,                               \
                                         std::remove_pointer_t<PFN_##base##_v##version>>; \
    static_assert(Same::arity, "row " #symbol ": number of parameters");                  \
    static_assert(Same::result, "row " #symbol ": result");                               \
    static_assert(Same::arguments, "row " #symbol ": class or width of a parameter");     \
  }
#define ASSAY_ABI_ENUM(ours, theirs)                                    \
  ASSAY_ABI_TYPE(ours, theirs);                                         \
  [[maybe_unused]] constexpr void every_value_is_compared(ours value) { \
    switch (value) {
#define ASSAY_ABI_VALUE(enumeration, ours, theirs)                                \
  case enumeration::ours:                                                         \
    static_assert(static_cast<long long>(enumeration::ours) == (long long)theirs, \
                  "value " #enumeration "::" #ours " is not " #theirs);           \
    break;
#define ASSAY_ABI_ENUM_END(ours) \
  }                              \
  }
#define ASSAY_ABI_CONSTANT(ours, theirs) \
  static_assert((long long)ours == (long long)theirs, "constant " #ours " is not " #theirs);
#define ASSAY_ABI_STRUCT(ours, theirs)                                                  \
  ASSAY_ABI_TYPE(ours, theirs);                                                         \
  static_assert(alignof(ours) == alignof(theirs) && std::is_trivially_copyable_v<ours>, \
                "struct " #ours ": alignment, or how it is passed by value");
#define ASSAY_ABI_FIELD(ours, our_field, theirs, their_field)                             \
  static_assert(                                                                          \
      offsetof(ours, our_field) == offsetof(theirs, their_field) &&                       \
          sizeof(((ours*)nullptr)->our_field) == sizeof(((theirs*)nullptr)->their_field), \
      "field " #our_field " of " #ours ": offset or width");

#include ASSAY_ABI_ROWS
#include ASSAY_ABI_STRUCTS
#include ASSAY_ABI_VALUES

}  // namespace assay::cuda::abi

#undef ASSAY_DRIVER_FUNCTION

int main(int count, char** arguments) {
  int rows = 0;
  int missing = 0;
  void* const stub = count > 1 ? dlopen(arguments[1], RTLD_LAZY | RTLD_LOCAL) : nullptr;
#define ASSAY_DRIVER_FUNCTION(symbol, base, version, need, parameters)                    \
  ++rows;                                                                                 \
  if (stub != nullptr && dlsym(stub, #symbol) == nullptr) {                               \
    std::fprintf(stderr, "row %s: the toolkit's stub exports no such symbol\n", #symbol); \
    ++missing;                                                                            \
  }
#include ASSAY_ABI_ROWS
  std::printf("%d functions as in cuda.h %d.%d; exports %s\n", rows, CUDA_VERSION / 1000,
              CUDA_VERSION % 1000 / 10,
              stub != nullptr ? "as in its stub" : "not compared: no stub");
  return missing == 0 ? 0 : 1;
}
