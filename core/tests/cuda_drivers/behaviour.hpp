// What a test may ask of one of these libraries, behind the symbol `assay_test_driver`.
#pragma once

#include <cstdint>

struct AssayTestDriver {
  std::uint32_t inits;             ///< calls of cuInit
  std::uint32_t lookups;           ///< calls of cuGetProcAddress, either of them
  std::uint32_t lookups_too_new;   ///< of a version above the driver's own
  std::uint32_t lookups_no_flag;   ///< without the legacy-stream flag
  std::uint32_t lookups_unpinned;  ///< of a version that is no row's of this base name
  std::uint32_t attributes_asked;
  // The last advice and prefetch: by which ABI, and where.
  std::uint32_t advice_abi;
  std::int32_t advice_where;
  std::uint32_t advice_type;
};
