// Commands over a few slots of Bytes: plain data, total, so every subsequence is legal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <vector>

namespace assay::properties {

inline constexpr std::size_t slot_count = 5;

enum class BytesOperation : std::uint8_t {
  make,           ///< a = x bytes, derived from y
  make_room,      ///< a = empty with room for x bytes
  make_constant,  ///< a = x bytes of immutable foreign memory
  drop,
  move,  ///< b = a
  clone,
  view,   ///< b = a[x, x + y), x and y taken modulo the length
  split,  ///< b = a[x, ...), x taken modulo the length
  join,   ///< a = a + b
  share,
  write,        ///< every byte of a from x on
  extend,       ///< a += x bytes derived from y
  extend_self,  ///< a += a
  resize,
  reserve,
  truncate,
  compact,
  count,
};

struct BytesCommand {
  BytesOperation operation = BytesOperation::make;
  std::uint8_t a = 0;
  std::uint8_t b = 1;
  std::uint16_t x = 0;
  std::uint16_t y = 0;
  bool owned = false;  ///< the policy of a split
};
using BytesCommands = std::vector<BytesCommand>;

[[nodiscard]] inline const char* name_of(BytesOperation operation) {
  static constexpr const char* names[] = {
      "make",        "make_room", "make_constant", "drop",     "move",   "clone",
      "view",        "split",     "join",          "share",    "write",  "extend",
      "extend_self", "resize",    "reserve",       "truncate", "compact"};
  return names[static_cast<std::size_t>(operation)];
}

inline std::ostream& operator<<(std::ostream& out, const BytesCommand& command) {
  return out << name_of(command.operation) << " a=" << int{command.a} << " b=" << int{command.b}
             << " x=" << command.x << " y=" << command.y << (command.owned ? " owned" : "");
}

}  // namespace assay::properties
