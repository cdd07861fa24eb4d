// managed: one address for host and device, whose pages the driver moves.
#pragma once

#include "assay/backing/driver_backing.hpp"

namespace assay {

/// Memory from `cuMemAllocManaged`, with real advice and prefetch.
///
/// Blocks are rounded to the granularity and aligned to it, so that advice, which the driver keeps
/// by the page, never reaches a neighbour [?].
///
/// **Regimes** where the device has concurrent managed access, host and device may use a block at
/// any time, and advice and prefetch are capabilities. Elsewhere (`exclusive`) both are
/// not_supported, and the host must not touch a block of global attachment while the device works:
/// that rule is the caller's to keep, for copies and fills through this backing too. Zeroed blocks
/// come ready in either regime, whatever the device does meanwhile.
class Managed final : public HostReachableBacking {
 public:
  /// Who may use a fresh block: every stream, or the host alone until the caller attaches it.
  enum class Attach : std::uint8_t { global, host };
  static constexpr std::size_t granularity_min = std::size_t{64} << 10;
  static constexpr std::size_t granularity_max = std::size_t{64} << 20;

  struct Options {
    Attach attach = Attach::global;
    std::size_t granularity = granularity_min;  ///< a power of two; 2 MiB is the driver's own block
  };

  /// **Errors** not_supported on a device without managed memory, invalid_argument for the
  /// granularity, context_lost, out_of_memory, driver_error.
  [[nodiscard]] static Result<Ref<Managed>> make(Ref<cuda::PrimaryContext> context,
                                                 const Options& options) noexcept;
  [[nodiscard]] static Result<Ref<Managed>> make(Ref<cuda::PrimaryContext> context) noexcept;

 private:
  Managed(Ref<cuda::PrimaryContext> context, Ref<cuda::Stream> own,
          const Options& options) noexcept;
  Result<Address> native_allocate(const Request& request, std::size_t size) noexcept override;
  Result<void> zero_fresh(Address base, Address address, std::size_t size,
                          const Request& request) noexcept override;
  Result<void> do_advise(Block block, std::size_t offset, std::size_t size, Advice advice,
                         Location location) noexcept override;
  Result<void> do_prefetch(Block block, std::size_t offset, std::size_t size, Location location,
                           StreamRef stream) noexcept override;
  [[nodiscard]] bool concurrent() const noexcept {
    return context().facts().has(cuda::abi::DeviceAttribute::concurrent_managed_access);
  }

  const Options options_;
};

}  // namespace assay
