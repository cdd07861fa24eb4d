// DeviceFacts: what a device says of itself, and the memory regime that follows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "assay/cuda/abi/types.hpp"

namespace assay::cuda {

/// How host and device share managed and pageable memory (CUDA programming guide, unified memory).
enum class Regime : std::uint8_t {
  none,        ///< no managed memory
  exclusive,   ///< managed, but not while the device works (Windows, WSL, Tegra)
  concurrent,  ///< managed, from both sides at any time
  hmm,         ///< pageable memory too, by the kernel's heterogeneous memory management
  ats,         ///< pageable memory too, by shared page tables (Grace Hopper)
};
[[nodiscard]] std::string_view name_of(Regime regime) noexcept;

/// The attributes that assay asks for, each with the driver version that introduced it.
struct AttributeRow {
  abi::DeviceAttribute attribute;
  const char* name;
  int since;  ///< 9020 is 9.2
};
inline constexpr std::size_t attribute_count = 30;
[[nodiscard]] const std::array<AttributeRow, attribute_count>& attribute_rows() noexcept;

struct DeviceFacts {
  int ordinal = 0;
  std::string name;
  std::string uuid;        ///< 8-4-4-4-12 hexadecimal digits
  std::string pci_bus_id;  ///< empty if the driver cannot tell
  std::uint64_t total_bytes = 0;
  int compute_major = 0, compute_minor = 0, multiprocessors = 0;
  Regime regime = Regime::none;
  std::array<int, attribute_count> attributes{};  ///< 0: absent, or newer than the driver

  [[nodiscard]] int attribute(abi::DeviceAttribute which) const noexcept;
  [[nodiscard]] bool has(abi::DeviceAttribute which) const noexcept {
    return attribute(which) != 0;
  }
};

/// The regime that follows from attributes 83, 88, 89, 100 and 101.
[[nodiscard]] Regime regime_of(const DeviceFacts& facts) noexcept;

}  // namespace assay::cuda
