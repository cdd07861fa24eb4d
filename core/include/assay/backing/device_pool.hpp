// device_pool: device memory from a pool of the driver, in the order of streams.
#pragma once

#include "assay/backing/driver_backing.hpp"

namespace assay {

/// Memory from a `cuMemPool` of its own, one for each backing, so one for each tenant: no block of
/// another backing is ever carved from it, and what it caches is its own.
///
///     cuMemAllocFromPoolAsync ----> block ----> cuMemFreeAsync
///              on the request's stream, or on the backing's own, never on the legacy one
///
/// **Streams** With a stream, allocation, zeroing and free are queued there and nothing is waited
/// for: the block may be used on that stream at once, elsewhere behind an event. Without one the
/// own stream is waited for, so that the block may be used anywhere once allocate returns; it must
/// be out of use when it is freed. A free that names another stream than the block's own waits on
/// the host for the latter. A freed block serves later requests at once, in the order of their
/// streams: it is `Freed::now`, and stays reserved by the pool.
/// **Limit** with `max_size` the pool refuses with out_of_memory: on 12.2 by the driver, which
/// counts what it reserves; on an older driver by an exact count of the bytes asked of it, charged
/// before the call.
/// **Refusals** what is out of memory is asked once more after all frees on the device have been
/// waited for.
/// **Cost** two driver calls a block beyond those of making the context current; without a stream a
/// wait for the own stream, on which nothing else runs, with each allocation, none with a free. The
/// end waits for the device, so that all memory is back when it returns.
class DevicePool final : public DeviceOnlyBacking {
 public:
  static constexpr std::size_t granularity = 256;
  static constexpr std::uint64_t keep_all = UINT64_MAX;

  struct Options {
    std::size_t max_size = 0;  ///< bytes of the pool; 0: as much as there is
    /// Unused bytes that the pool keeps when a stream, event or context is waited for. The driver's
    /// own default, 0, gives memory back at every wait; keeping all is what makes a pool pay.
    std::uint64_t release_threshold = keep_all;
  };

  /// **Errors** not_supported on a device or driver without pools, context_lost, out_of_memory,
  /// driver_error.
  [[nodiscard]] static Result<Ref<DevicePool>> make(Ref<cuda::PrimaryContext> context,
                                                    const Options& options) noexcept;
  [[nodiscard]] static Result<Ref<DevicePool>> make(Ref<cuda::PrimaryContext> context) noexcept;
  ~DevicePool() override;

  /// What the driver says of the pool.
  struct Figures {
    std::uint64_t reserved_bytes = 0;  ///< taken from the device
    std::uint64_t reserved_peak_bytes = 0;
    std::uint64_t used_bytes = 0;  ///< of blocks, as the driver rounds them
    std::uint64_t used_peak_bytes = 0;
  };
  /// **Cost** four driver calls.
  [[nodiscard]] Result<Figures> figures() noexcept;
  [[nodiscard]] const Options& options() const noexcept { return options_; }

 private:
  DevicePool(Ref<cuda::PrimaryContext> context, Ref<cuda::Stream> own, const Options& options,
             cuda::abi::MemPool pool) noexcept;
  Result<Address> native_allocate(const Request& request, std::size_t size) noexcept override;
  Result<void> native_free(Address base, std::size_t held,
                           cuda::abi::Stream stream) noexcept override;
  Result<void> make_ready(Address base, Address address, std::size_t size,
                          const Request& request) noexcept override;
  void add_limits(Error& error) noexcept override;
  [[nodiscard]] Usage do_usage() const noexcept override;
  Result<std::size_t> do_trim(std::size_t keep_bytes) noexcept override;

  Result<void> settle_all() noexcept;
  bool charge(std::size_t size) noexcept;
  void credit(std::size_t size) noexcept;
  Result<std::uint64_t> attribute(cuda::abi::MemPoolAttribute which) noexcept;

  const Options options_;
  const cuda::abi::MemPool pool_;
  const bool counts_;  ///< the driver takes no largest size: it is kept here
  std::atomic<std::uint64_t> charged_{0};
};

}  // namespace assay
