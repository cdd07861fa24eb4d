// Findings about allocators of others that were understood by experiment.
#include <array>

#include "cell.hpp"

namespace assay::properties {
namespace {

struct KnownFinding {
  std::string_view subject;
  std::string_view property;
  std::string_view explanation;
};

constexpr std::string_view pmr_pools =
    "libstdc++ chooses a pool by max(size, alignment) alone, and its block sizes (24, 48, "
    "80, ...) need not be multiples of the alignment: allocate(17, 1) and then allocate(17, 16) "
    "show it without assay";

constexpr std::array known = {
    KnownFinding{"pmr_unsynchronized", "address_alignment", pmr_pools},
    KnownFinding{"pmr_synchronized", "address_alignment", pmr_pools},
    KnownFinding{"mimalloc", "address_alignment",
                 "mimalloc 2.0 takes a fast path where size equals alignment and misses: "
                 "aligned_alloc(256, 256) in a fresh process is off by 128 without assay "
                 "(microsoft/mimalloc#700)"},
};

}  // namespace

std::string_view known_finding(std::string_view subject, std::string_view property) noexcept {
  for (const KnownFinding& finding : known) {
    if (finding.subject == subject && finding.property == property) return finding.explanation;
  }
  return {};
}

}  // namespace assay::properties
