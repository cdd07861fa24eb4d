// Profile: which driver and which devices the model plays.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "assay/cuda/abi/types.hpp"

namespace assay::cuda::model {

using namespace abi;

/// Read once, when the library is loaded, from ASSAY_MODEL_PROFILE: a name, or a file of
/// `key = value` lines (`base = h200` first, then what differs).
struct Profile {
  static constexpr std::size_t attribute_max = 160;

  std::string name = "h200";
  int driver_version = 13000;
  int devices = 1;
  std::uint64_t capacity_bytes = 143771ULL << 20;    ///< device and managed memory, per device
  std::uint64_t host_capacity_bytes = 256ULL << 30;  ///< pinned memory
  /// Of a fresh block at most so many bytes are filled, half at each end: a page costs a fault.
  std::uint64_t fill_bytes = 16ULL << 10;
  std::uint64_t granularity_bytes = 2ULL << 20;  ///< of physical memory and mappings: the minimum
  std::uint64_t recommended_granularity_bytes = 2ULL << 20;
  std::uint64_t seed = 1;            ///< of the fill pattern
  bool free_waits = true;            ///< cuMemFree waits for work on the block ("typical")
  bool managed_shares_pages = true;  ///< small managed blocks may lie on one page
  /// Attribute values by number; empty: the driver does not know the attribute.
  std::array<std::optional<int>, attribute_max> attributes{};

  [[nodiscard]] int attribute(DeviceAttribute which) const noexcept {
    return attributes[static_cast<std::size_t>(which)].value_or(0);
  }
  [[nodiscard]] bool has(DeviceAttribute which) const noexcept { return attribute(which) != 0; }
};

/// The profile in force. If it could not be read, what is wrong stands in profile_error() and
/// cuInit answers 999.
[[nodiscard]] const Profile& profile() noexcept;
[[nodiscard]] const std::string& profile_error() noexcept;

/// Reads a name or a file into `out`. Returns what is wrong, naming key and value, or "".
[[nodiscard]] std::string read_profile(const std::string& name_or_path, Profile& out);

}  // namespace assay::cuda::model
