// Where the programs' blocks come from: a pool of the driver, or a backing over one.
#pragma once

#include <memory>

#include "assay/cuda/driver.hpp"

namespace assay::ordering {

enum class Through : std::uint8_t { driver, backing };

/// A context, current on this thread, and blocks in stream order of one pool of that context's
/// device.
class Memory {
 public:
  static constexpr std::size_t block_bytes = 256;

  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  virtual ~Memory() = default;

  [[nodiscard]] virtual cuda::abi::Status allocate(cuda::abi::DevicePointer& out,
                                                   cuda::abi::Stream stream) = 0;
  [[nodiscard]] virtual cuda::abi::Status free(cuda::abi::DevicePointer address,
                                               cuda::abi::Stream stream) = 0;
  /// The context is of no use any more.
  virtual void renew_context() = 0;
};

[[nodiscard]] std::unique_ptr<Memory> make_memory(const Ref<cuda::Driver>& driver, Through through);

/// A call that every program needs.
void must(cuda::abi::Status status);

}  // namespace assay::ordering
