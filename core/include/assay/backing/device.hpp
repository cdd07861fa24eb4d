// device: memory of a GPU, out of the host's reach.
#pragma once

#include "assay/backing/driver_backing.hpp"

namespace assay {

/// Memory from `cuMemAlloc`. Addresses are integers: no host span ever exists, and all bytes go
/// through the driver.
///
/// Capacities are multiples of 256 bytes.
class Device final : public DeviceOnlyBacking {
 public:
  static constexpr std::size_t granularity = 256;

  /// **Errors** context_lost, out_of_memory, driver_error.
  [[nodiscard]] static Result<Ref<Device>> make(Ref<cuda::PrimaryContext> context) noexcept;

 private:
  Device(Ref<cuda::PrimaryContext> context, Ref<cuda::Stream> own) noexcept;
  Result<Address> native_allocate(const Request& request, std::size_t size) noexcept override;
};

}  // namespace assay
