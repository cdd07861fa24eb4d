// What every kind of free has in common.
#pragma once

#include "memory.hpp"
#include "rules.hpp"

namespace assay::cuda::model {

/// Diagnoses unfinished work on the memory, and waits for it where the profile's driver does.
void settle_before_free(const Allocation& allocation, const Site& site) noexcept;

/// The same without waiting: whether there was such work.
bool diagnose_work_in_flight(const Allocation& allocation, const Site& site) noexcept;

/// Answers 1 to a free of an address that cannot be freed so, and says why.
Status refuse_free(std::uint64_t address, const Site& site) noexcept;

}  // namespace assay::cuda::model
