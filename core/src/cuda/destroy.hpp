// How destructors call the driver.
#pragma once

#include "assay/cuda/context.hpp"

namespace assay::cuda::detail {

/// Makes a destroying call under its context, once more if the driver refuses for a passing reason.
/// A lost context took its objects along; in a forked child and during shutdown nothing is done.
template <class Call>
void destroy_under(PrimaryContext& context, Call call) noexcept {
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (context.lost() || context.driver().forked()) return;
    const auto current = Current::of(context);
    if (current && context.check(call(), "destroy")) return;
  }
}

}  // namespace assay::cuda::detail
