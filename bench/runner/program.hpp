// A benchmark program: to the outside a Google Benchmark program, inside one process a subject.
#pragma once

#include "rows.hpp"

namespace assay::bench {

/// `main` of a benchmark program that offers these subjects and families. Never throws.
int bench_main(int argc, char** argv, const Offer& offer) noexcept;

}  // namespace assay::bench
