// Host equivalents of assay's kernels (assay/cuda/abi/kernels.hpp says what each does).
#pragma once

#include <array>
#include <cstdint>

#include "kernel_modules.hpp"
#include "stream_access.hpp"

namespace assay::cuda::model {

/// No kernel has more parameters.
using KernelArguments = std::array<std::uint64_t, 5>;

[[nodiscard]] Operation make_kernel(KernelIndex kernel, const KernelArguments& arguments,
                                    Running running);

}  // namespace assay::cuda::model
