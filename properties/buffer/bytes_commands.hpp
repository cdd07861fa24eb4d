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
  make_vector,    ///< a = an adopted vector of x elements
  make_lazy,      ///< a = y bytes from x on of a watched source out of the host's reach
  make_file,      ///< a = y bytes from x on of a file, read on demand
  make_mapped,    ///< a = the same, mapped
  make_device,    ///< a = x bytes of device memory, frozen
  last_make = make_device,
  drop,
  move,  ///< b = a
  clone,
  view,   ///< b = a[x, x + y), x and y taken modulo the length
  split,  ///< b = a[x, ...), x taken modulo the length
  join,   ///< a = a + b
  share,
  read,
  read_no_copy,
  copy_into,    ///< y bytes of a from x on
  read_chunks,  ///< all of a, x bytes at a time
  equals,       ///< a and b
  hash,
  format,
  write,  ///< every byte of a from x on
  write_no_copy,
  extend,       ///< a += x bytes derived from y
  extend_self,  ///< a += a
  resize,
  reserve,
  truncate,
  compact,
  into_vec,    ///< a = the vector that a was adopted from, adopted again
  into_owned,  ///< a = the elements that a was turned into, as foreign memory
  detach,      ///< a = the buffer that a was turned into, frozen
  spoil_file,  ///< y tells how
  count,
};

struct BytesCommand {
  BytesOperation operation = BytesOperation::make;
  std::uint8_t a = 0;
  std::uint8_t b = 1;
  std::uint16_t x = 0;
  std::uint16_t y = 0;
  bool flag = false;  ///< split: owned; into_vec and into_owned: as another type
};
using BytesCommands = std::vector<BytesCommand>;

[[nodiscard]] inline const char* name_of(BytesOperation operation) {
  static constexpr const char* names[] = {
      "make",        "make_room",   "make_constant", "make_vector", "make_lazy",    "make_file",
      "make_map",    "make_device", "drop",          "move",        "clone",        "view",
      "split",       "join",        "share",         "read",        "read_no_copy", "copy_into",
      "read_chunks", "equals",      "hash",          "format",      "write",        "write_no_copy",
      "extend",      "extend_self", "resize",        "reserve",     "truncate",     "compact",
      "into_vec",    "into_owned",  "detach",        "spoil_file"};
  static_assert(std::size(names) == static_cast<std::size_t>(BytesOperation::count));
  return names[static_cast<std::size_t>(operation)];
}

inline std::ostream& operator<<(std::ostream& out, const BytesCommand& command) {
  return out << name_of(command.operation) << " a=" << int{command.a} << " b=" << int{command.b}
             << " x=" << command.x << " y=" << command.y << (command.flag ? " flag" : "");
}

}  // namespace assay::properties
