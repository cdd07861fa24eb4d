// Property: the parts of a split, joined in any order that keeps neighbours together, are the
// value as it was: same bytes, same address, same room, and not one byte copied.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bytes_ops.hpp"

namespace assay::properties {

struct SplitCase {
  std::uint16_t size = 0;
  std::uint16_t room = 0;
  bool shared = false;
  bool owned_policy = false;
  std::vector<std::uint16_t> cuts;    ///< each cuts the last part, where it falls
  std::vector<std::uint16_t> merges;  ///< each joins one pair of neighbours
};

template <class Ops>
std::string split_joins_back(const SplitCase& given) {
  const auto backing = CheckingBacking::make();
  const auto home = Home::make(backing).value();
  const auto content = test::counting(given.size);
  Bytes whole = Bytes::with_capacity(std::size_t{given.size} + given.room, *home).value();
  if (!whole.extend(content)) return "extend failed";
  if (given.shared && !whole.shared()) return "shared failed";
  const auto* const data = whole.data();
  const std::size_t capacity = whole.capacity();
  const std::uint64_t copied = payload_bytes_copied();
  const std::uint64_t allocations = backing->allocations;

  std::vector<Bytes> parts;
  parts.push_back(std::move(whole));
  for (const std::uint16_t cut : given.cuts) {
    const std::size_t offset = cut % (parts.back().len() + 1);
    const bool owned = given.owned_policy && parts.size() == 1;  // the rest is exclusive then
    auto right = Ops::split(parts.back(), offset, owned ? SplitPolicy::owned : SplitPolicy::shared);
    if (!right) return "split failed";
    parts.push_back(std::move(right).value());
  }
  std::size_t position = 0;
  for (const Bytes& part : parts) {
    for (const std::byte byte : part) {
      if (position >= content.size() || byte != content[position++]) return "a part is wrong";
    }
  }
  if (position != content.size()) return "bytes are missing";

  for (std::size_t i = 0; parts.size() > 1; ++i) {
    const std::size_t pick = given.merges.empty() ? 0 : given.merges[i % given.merges.size()];
    const std::size_t left = pick % (parts.size() - 1);
    const auto joined = Ops::join(parts[left], parts[left + 1]);
    if (!joined) return fmt::format("join of neighbours: {}", name_of(joined.error().code));
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(left) + 1);
  }
  const Bytes& again = parts.front();
  if (!std::ranges::equal(again.span(), content)) return "content changed";
  if (given.size != 0 && again.data() != data) return "the address changed";
  const bool stays_shared = given.shared && (!given.owned_policy || given.cuts.empty());
  if (given.size != 0 && again.is_shared() != stays_shared) return "the mode changed";
  if (!given.shared && given.size != 0 && again.capacity() != capacity) return "room was lost";
  if (payload_bytes_copied() != copied) return "bytes were copied";
  if (backing->allocations != allocations) return "a block was allocated";
  return "";
}

}  // namespace assay::properties
