// Exports that a profile's older driver must not have. They are indirect functions: dlsym runs the
// resolver, and a resolver that gives null makes dlsym give null, as for an absent symbol.
#pragma once

#include <type_traits>

#include "exports.hpp"
#include "profile.hpp"

namespace assay::cuda::model {

extern "C" {
// Nothing within the model may refer to the exports themselves: the loader would run the resolver
// before the library is ready.
Status implement_cuGetProcAddress_v2(const char*, void**, int, std::uint64_t, ProcAddressResult*);
Status implement_cuCtxGetId(Context, unsigned long long*);
Status implement_cuMemAdvise_v2(DevicePointer, std::size_t, Advise, Location);
Status implement_cuMemPrefetchAsync_v2(DevicePointer, std::size_t, Location, unsigned, Stream);
Status implement_cuMemGetDefaultMemPool(MemPool*, Location*, AllocationType);
Status implement_cuMemGetMemPool(MemPool*, Location*, AllocationType);
Status implement_cuMemSetMemPool(Location*, AllocationType, MemPool);
Status implement_cuMemPrefetchBatchAsync(DevicePointer*, std::size_t*, std::size_t, Location*,
                                         std::size_t*, std::size_t, unsigned long long, Stream);
Status implement_cuMemDiscardBatchAsync(DevicePointer*, std::size_t*, std::size_t,
                                        unsigned long long, Stream);
Status implement_cuMemDiscardAndPrefetchBatchAsync(DevicePointer*, std::size_t*, std::size_t,
                                                   Location*, std::size_t*, std::size_t,
                                                   unsigned long long, Stream);
}

}  // namespace assay::cuda::model

/// Defines the export `symbol` as implement_`symbol`, absent in drivers older than `version`.
#define ASSAY_MODEL_HIDDEN_BELOW(version, symbol)                               \
  std::add_pointer_t<decltype(symbol)> resolve_##symbol() {                     \
    return profile().driver_version < (version) ? nullptr : implement_##symbol; \
  }                                                                             \
  [[gnu::ifunc("resolve_" #symbol), gnu::visibility("default")]] decltype(symbol) symbol;
