// Commands over one UnifiedBuffer: plain data, total.
#pragma once

#include <cstdint>
#include <ostream>
#include <vector>

namespace assay::properties {

enum class BufferOperation : std::uint8_t {
  grow_in_place,  ///< to x bytes, or shrink
  resize,         ///< to x bytes, moving if need be
  write_range,    ///< y bytes from x on
  write_all,
  freeze_and_detach,
  count,
};

struct BufferCommand {
  BufferOperation operation = BufferOperation::write_all;
  std::uint16_t x = 0;
  std::uint16_t y = 0;
};
using BufferCommands = std::vector<BufferCommand>;

inline std::ostream& operator<<(std::ostream& out, const BufferCommand& command) {
  static constexpr const char* names[] = {"grow_in_place", "resize", "write_range", "write_all",
                                          "freeze_and_detach"};
  return out << names[static_cast<std::size_t>(command.operation)] << " x=" << command.x
             << " y=" << command.y;
}

}  // namespace assay::properties
