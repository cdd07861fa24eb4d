#include "suite/codes.hpp"

#include <utility>

#include <fmt/format.h>

namespace assay::conformance {

std::string spell_code(std::uint32_t code) {
  static constexpr std::pair<std::int64_t, const char*> names[] = {
      {0, "success"},
      {1, "invalid_value"},
      {2, "out_of_memory"},
      {3, "not_initialized"},
      {4, "deinitialized"},
      {34, "stub_library"},
      {100, "no_device"},
      {101, "invalid_device"},
      {200, "invalid_image"},
      {201, "invalid_context"},
      {218, "invalid_ptx"},
      {400, "invalid_handle"},
      {500, "not_found"},
      {600, "not_ready"},
      {700, "illegal_address"},
      {709, "context_is_destroyed"},
      {712, "host_memory_already_registered"},
      {713, "host_memory_not_registered"},
      {719, "launch_failed"},
      {800, "not_permitted"},
      {801, "not_supported"},
      {803, "system_driver_mismatch"},
      {999, "unknown"},
  };
  for (const auto& [number, name] : names) {
    if (number == code) return fmt::format("{} ({})", name, code);
  }
  return fmt::format("{}", code);
}

}  // namespace assay::conformance
