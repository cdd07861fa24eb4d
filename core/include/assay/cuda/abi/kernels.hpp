// The kernels of assay: one PTX text kept by hand, which any driver from 11.0 on compiles for any
// device from sm_70 on. It is part of the contract with the driver model, which recognises the
// text and runs host equivalents: what a kernel does is said here, once, for both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace assay::cuda::abi {

// Each kernel gives the same result for every grid and block of one dimension. The parameters of
// cuLaunchKernel are, in this order, the fields of the struct; each is 8 bytes. An address is one
// that the device can reach, and aligned to what is read or written there.

/// word[i] = value + i * step, for i < words; words are 8 bytes, sums wrap around.
struct FillParameters {
  static constexpr const char* entry = "assay_fill";
  std::uint64_t address;
  std::uint64_t words;
  std::uint64_t value;
  std::uint64_t step;
};

/// For each offset 0, stride, 2 * stride, ... below `bytes`: reads the byte there, and if `add` is
/// not 0 stores the byte plus `add`. The bytes read are summed into the 8 bytes at `sum`
/// (atomically, on top of what is there) unless that is 0. **Pre** stride > 0.
struct TouchParameters {
  static constexpr const char* entry = "assay_touch";
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint64_t stride;
  std::uint64_t add;  ///< the low 8 bits count
  std::uint64_t sum;
};

/// Adds the sum of word[i] * (2 * i + 1), i < words, to the 8 bytes at `result`, atomically; all
/// arithmetic wraps around. A word changed or moved changes the sum.
struct ChecksumParameters {
  static constexpr const char* entry = "assay_checksum";
  std::uint64_t address;
  std::uint64_t words;
  std::uint64_t result;
};

/// Occupies the device until the 4 bytes at `flag` (pinned, mapped host memory) have reached
/// `value`, read as cuStreamWaitValue32 does with GEQ: as int32, flag - value >= 0. Gives up after
/// `limit_ns`. Then stores spin_opened or spin_timed_out in the 4 bytes at `result`, unless that
/// is 0. Only the first thread of the first block waits.
struct SpinParameters {
  static constexpr const char* entry = "assay_spin";
  std::uint64_t flag;
  std::uint64_t value;  ///< the low 32 bits count
  std::uint64_t limit_ns;
  std::uint64_t result;
};
inline constexpr std::uint32_t spin_opened = 1;
inline constexpr std::uint32_t spin_timed_out = 2;

/// Name and number of parameters (8 bytes each) of one kernel.
struct KernelSignature {
  const char* entry;
  std::size_t parameters;
};

template <class Parameters>
[[nodiscard]] constexpr KernelSignature signature_of() noexcept {
  static_assert(sizeof(Parameters) % sizeof(std::uint64_t) == 0);
  return {Parameters::entry, sizeof(Parameters) / sizeof(std::uint64_t)};
}

inline constexpr std::array kernel_signatures = {
    signature_of<FillParameters>(), signature_of<TouchParameters>(),
    signature_of<ChecksumParameters>(), signature_of<SpinParameters>()};

/// What cuModuleLoadData is given. Null-terminated.
inline constexpr const char* kernel_ptx =
#include "assay/cuda/abi/kernels.ptx.inc"
    ;
inline constexpr std::string_view kernel_ptx_text = kernel_ptx;

}  // namespace assay::cuda::abi
