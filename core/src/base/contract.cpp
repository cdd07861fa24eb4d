#include "assay/base/contract.hpp"

#include <cstdio>
#include <cstdlib>

namespace assay::detail {

void contract_failed(const char* condition, const char* message, const char* file,
                     int line) noexcept {
  std::fprintf(stderr, "assay: contract broken at %s:%d: %s (%s)\n", file, line, message,
               condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace assay::detail
