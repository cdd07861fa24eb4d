// What advice, prefetch and device work have done to managed pages.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "memory.hpp"

namespace assay::cuda::model {

/// Of one page. Processors are bits: 0 the host, 1 + n device n.
struct PagePolicy {
  bool read_mostly = false;
  Location preferred{LocationType::none, 0};
  Location last_prefetch{LocationType::none, 0};  ///< as requested, done or not
  std::uint32_t accessed_by = 0;
  std::uint32_t resident = 0;  ///< several bits: read-only copies

  bool operator==(const PagePolicy& other) const noexcept;
};

[[nodiscard]] constexpr std::uint32_t processor_bit(Device device) noexcept {
  return std::uint32_t{1} << (device + 1);  // device_cpu is -1
}
[[nodiscard]] std::uint32_t processor_bit(Location location) noexcept;

/// Runs of pages with one policy, rounded outward from the range. Pages never advised are default.
struct PageRun {
  std::uint64_t first = 0;  ///< number of the first page
  std::uint64_t pages = 0;
  PagePolicy policy;
};
[[nodiscard]] std::vector<PageRun> page_runs(Range range);

/// Applies `change` to the policy of every page that the range touches.
void change_pages(Range range, const std::function<void(PagePolicy&)>& change);

/// Forgets the pages that lie wholly in the range.
void forget_pages(Range range);

/// Bytes of the range on pages that the device (-1: the host) holds.
[[nodiscard]] std::uint64_t resident_bytes(Range range, Device device);

/// Advice as the driver's rules state it; arguments are checked before.
void apply_advice(Range range, Advise advice, Location location);
/// The destination that attribute LAST_PREFETCH shows from now on.
void note_prefetch_request(Range range, Location destination);

}  // namespace assay::cuda::model
