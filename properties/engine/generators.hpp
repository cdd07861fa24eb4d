// Generators: random sizes, alignments and command lists, biased to where allocators break.
#pragma once

#include <rapidcheck.h>

#include "property.hpp"

namespace assay::properties {

/// How often each phrase appears in a list. A phrase is a command, or a few that belong together.
struct Mix {
  std::size_t length = 150;  ///< phrases
  std::size_t allocate = 6;
  std::size_t allocate_and_fill = 0;
  std::size_t free = 4;
  std::size_t check_and_free = 0;
  std::size_t check = 0;
  std::size_t fill = 1;
  std::size_t resize = 1;
  std::size_t large = 0;  ///< allocate 64 KiB to 8 MiB, past what pools keep; never filled
  bool zero = false;      ///< some allocations and resizes ask for zeros
};

/// Sizes from 1 B, mostly up to 32 KiB (filling and faulting dominate beyond), with every edge:
/// 1, powers of two and page sizes, each also one less and one more.
rc::Gen<std::uint64_t> sizes();

/// Powers of two from 1 to 1 MiB, mostly small.
rc::Gen<std::uint64_t> alignments();

/// Command lists of that mix. Most requests of a list come from a palette of a few, so that
/// freed blocks are asked for again.
rc::Gen<Commands> command_lists(const Mix& mix);

/// Commands by hand.
[[nodiscard]] Command allocate(std::uint16_t slot, std::uint64_t size, std::uint64_t alignment);
[[nodiscard]] Command free_slot(std::uint16_t slot);
[[nodiscard]] Command resize(std::uint16_t slot, std::uint64_t size);
[[nodiscard]] Command fill(std::uint16_t slot);
[[nodiscard]] Command check(std::uint16_t slot);

/// Appends a check of every slot.
void check_all(Commands& commands);

/// The list that `seed` gives: equal on every machine.
[[nodiscard]] Commands generate(const Property& property, std::uint64_t seed);

}  // namespace assay::properties
