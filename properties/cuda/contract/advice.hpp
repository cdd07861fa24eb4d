// Both ABIs of advice and prefetch under one signature.
#pragma once

#include "suite/run.hpp"

namespace assay::conformance {

/// The ordinal of a location where the ABI knows ordinals only.
[[nodiscard]] inline abi::Device ordinal_of(abi::Location where) noexcept {
  return where.type == abi::LocationType::host ? abi::device_cpu : where.id;
}

struct ByOrdinal {
  static Status advise(Run& run, DevicePointer address, std::size_t size, abi::Advise advice,
                       abi::Location where) {
    return run.cu.cuMemAdvise(address, size, advice, ordinal_of(where));
  }
  static Status prefetch(Run& run, DevicePointer address, std::size_t size, abi::Location where,
                         abi::Stream stream) {
    return run.cu.cuMemPrefetchAsync(address, size, ordinal_of(where), stream);
  }
};

struct ByLocation {
  static Status advise(Run& run, DevicePointer address, std::size_t size, abi::Advise advice,
                       abi::Location where) {
    return run.cu.cuMemAdvise_v2(address, size, advice, where);
  }
  static Status prefetch(Run& run, DevicePointer address, std::size_t size, abi::Location where,
                         abi::Stream stream) {
    return run.cu.cuMemPrefetchAsync_v2(address, size, where, 0, stream);
  }
};

/// By whichever ABI the driver has.
[[nodiscard]] inline Status advise(Run& run, DevicePointer address, std::size_t size,
                                   abi::Advise advice, abi::Location where) {
  return run.cu.cuMemAdvise_v2 != nullptr ? ByLocation::advise(run, address, size, advice, where)
                                          : ByOrdinal::advise(run, address, size, advice, where);
}
[[nodiscard]] inline Status prefetch(Run& run, DevicePointer address, std::size_t size,
                                     abi::Location where, abi::Stream stream) {
  return run.cu.cuMemPrefetchAsync_v2 != nullptr
             ? ByLocation::prefetch(run, address, size, where, stream)
             : ByOrdinal::prefetch(run, address, size, where, stream);
}

}  // namespace assay::conformance
