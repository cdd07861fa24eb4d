// pinned: page-locked host memory that a device reaches by the same address.
#pragma once

#include "assay/backing/driver_backing.hpp"

namespace assay {

/// Memory from `cuMemHostAlloc`, portable and mapped: host and every device use it directly, and
/// copies to and from a device need no staging.
///
/// Zeroing, copies and fills are the host's own. **Cost** the driver locks each page: prefer large
/// blocks, or a pool above.
class Pinned final : public HostReachableBacking {
 public:
  /// **Errors** not_supported if the device cannot map host memory under the host's address.
  [[nodiscard]] static Result<Ref<Pinned>> make(Ref<cuda::PrimaryContext> context) noexcept;

 private:
  explicit Pinned(Ref<cuda::PrimaryContext> context) noexcept;
  Result<Address> native_allocate(const Request& request, std::size_t size) noexcept override;
  Result<void> zero_fresh(Address base, Address address, std::size_t size,
                          const Request& request) noexcept override;
};

}  // namespace assay
