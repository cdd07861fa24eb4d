// device: memory of a GPU, out of the host's reach.
#pragma once

#include "assay/backing/driver_backing.hpp"

namespace assay {

/// Memory from `cuMemAlloc`. Addresses are integers: no host span ever exists, and all bytes go
/// through the driver.
///
/// Capacities are multiples of 256 bytes. A copy waits until it is done, because its host side
/// belongs to the caller; a fill waits only where the block has no stream.
class Device final : public DriverBacking {
 public:
  static constexpr std::size_t granularity = 256;

  /// **Errors** context_lost, out_of_memory, driver_error.
  [[nodiscard]] static Result<Ref<Device>> make(Ref<cuda::PrimaryContext> context) noexcept;

 private:
  Device(Ref<cuda::PrimaryContext> context, Ref<cuda::Stream> own) noexcept;
  Result<Address> native_allocate(const Request& request, std::size_t size) noexcept override;
  Result<void> zero_fresh(Address base, Address address, std::size_t size,
                          const Request& request) noexcept override;
  Result<void> do_copy_in(Block block, std::size_t offset,
                          std::span<const std::byte> from) noexcept override;
  Result<void> do_copy_out(Block block, std::size_t offset,
                           std::span<std::byte> to) noexcept override;
  Result<void> do_fill(Block block, std::size_t offset, std::size_t size,
                       std::byte value) noexcept override;
  Result<void> do_copy_on_device(std::uint64_t to, std::uint64_t from,
                                 std::size_t size) noexcept override;
};

}  // namespace assay
