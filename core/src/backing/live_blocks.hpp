// What every destructor of a backing asks: are all of its blocks back?
#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdio>

#include "assay/base/contract.hpp"

namespace assay::detail {

/// Contract: no block is out. Names the backing, the count and the bytes.
inline void check_none_live(const char* id, std::uint64_t blocks, std::uint64_t bytes) noexcept {
  if (blocks == 0) return;
  char message[160];
  std::snprintf(message, sizeof message,
                "%s destroyed with live blocks: %" PRIu64 " blocks, %" PRIu64 " bytes", id, blocks,
                bytes);
  contract_failed("no live blocks", message, __FILE__, __LINE__);
}

}  // namespace assay::detail
