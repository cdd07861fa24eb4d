// Kernels: the four kernels of abi/kernels.hpp, loaded into a context and launched on a stream.
#pragma once

#include "assay/cuda/abi/kernels.hpp"
#include "assay/cuda/stream.hpp"

namespace assay::cuda {

/// How many threads a launch has. The result does not depend on it.
struct Grid {
  unsigned blocks = 1;
  unsigned threads_per_block = 128;
};

/// The loaded module. What each kernel computes is said at its parameters.
///
/// **Threads** safe from any thread. A launch is asynchronous; its parameters are copied.
class Kernels final : public Counted {
 public:
  /// Hands the PTX text to the driver, which compiles it. **Errors** not_supported if the driver
  /// lacks Feature::tests, context_lost, out_of_memory, driver_error. **Cost** some ms.
  [[nodiscard]] static Result<Ref<Kernels>> load(Ref<PrimaryContext> context) noexcept;

  Result<void> launch(const abi::FillParameters& parameters, Grid grid, Stream& stream) noexcept;
  Result<void> launch(const abi::TouchParameters& parameters, Grid grid, Stream& stream) noexcept;
  Result<void> launch(const abi::ChecksumParameters& parameters, Grid grid,
                      Stream& stream) noexcept;
  /// One thread, whatever the device.
  Result<void> launch(const abi::SpinParameters& parameters, Stream& stream) noexcept;

 private:
  Kernels(Ref<PrimaryContext> context, abi::Module module) noexcept
      : context_(std::move(context)), module_(module) {}
  ~Kernels() override;

  Result<void> find(abi::Function& function, const char* entry) noexcept;
  template <class Parameters>
  Result<void> launch_on(abi::Function function, Parameters parameters, Grid grid,
                         Stream& stream) noexcept;

  Ref<PrimaryContext> context_;
  abi::Module module_;
  abi::Function fill_ = nullptr, touch_ = nullptr, checksum_ = nullptr, spin_ = nullptr;
};

}  // namespace assay::cuda
