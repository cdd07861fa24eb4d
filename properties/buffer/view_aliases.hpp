// Property: a view is a window on the very same bytes, at any depth, and outlives its parent; a
// write to it is seen by nobody else.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bytes_ops.hpp"

namespace assay::properties {

struct ViewCase {
  std::uint16_t size = 1;
  std::vector<std::pair<std::uint16_t, std::uint16_t>> windows;  ///< each a view of the last
  bool foreign = false;                                          ///< on immutable foreign memory
};

template <class Ops>
std::string view_aliases(const ViewCase& given) {
  const auto backing = CheckingBacking::make();
  const auto home = Home::make(backing).value();
  const auto content = test::counting(given.size);
  Bytes parent = given.foreign
                     ? Bytes::from_external(ExternalMemory::constant(content), *home).value()
                     : Bytes::from_span(content, *home).value();
  if (!Ops::share(parent)) return "shared failed";
  const Bytes witness = Ops::clone(parent).value();
  std::size_t offset = 0;
  for (const auto& [a, b] : given.windows) {
    const std::size_t start = a % (parent.len() + 1);
    const std::size_t end = start + b % (parent.len() - start + 1);
    const std::uint64_t copied = payload_bytes_copied();
    auto view = Ops::view(parent, start, end);
    if (!view) return "view failed";
    if (payload_bytes_copied() != copied) return "a view copied bytes";
    parent = std::move(view).value();  // the value that was viewed is gone
    offset += start;
    if (parent.len() != end - start) return "a view has another length";
    if (!parent.is_empty() && parent.data() != witness.data() + offset) return "no alias";
  }
  const std::vector<std::byte> seen(parent.begin(), parent.end());
  const std::size_t len = parent.len();
  auto written = Ops::write(parent);
  if (!written) return "write failed";
  for (std::byte& byte : written.value()) byte = std::byte{0};
  if (!std::equal(seen.begin(), seen.end(), witness.data() + offset)) {
    return "a write through the view reached its parent";
  }
  for (std::size_t i = 0; i < len; ++i) {
    if (seen[i] != content[offset + i]) return "a view shows other bytes";
  }
  return "";
}

}  // namespace assay::properties
