// Every function that the model exports, declared from the driver's table, so that a definition
// with other parameters does not compile; and the same list as an enum.
#pragma once

#include <cstddef>
#include <cstdint>

#include "assay/cuda/abi/types.hpp"

// The rows that the model has: those of features that it does not model are absent, as in an old
// driver.
#define ASSAY_MODEL_HAS_required(...) __VA_ARGS__
#define ASSAY_MODEL_HAS_entry(...) __VA_ARGS__
#define ASSAY_MODEL_HAS_uuid(...) __VA_ARGS__
#define ASSAY_MODEL_HAS_pci_bus_id(...) __VA_ARGS__
#define ASSAY_MODEL_HAS_context_id(...) __VA_ARGS__
#define ASSAY_MODEL_HAS_advise_by_ordinal(...) __VA_ARGS__
#define ASSAY_MODEL_HAS_advise_by_location(...) __VA_ARGS__
#define ASSAY_MODEL_HAS_tests(...) __VA_ARGS__
#define ASSAY_MODEL_HAS_pools(...) __VA_ARGS__
#define ASSAY_MODEL_HAS_location_pools(...) __VA_ARGS__
#define ASSAY_MODEL_HAS_virtual_memory(...) __VA_ARGS__
#define ASSAY_MODEL_HAS_batches(...) __VA_ARGS__
#define ASSAY_MODEL_HAS_ipc(...)

namespace assay::cuda::model {

using namespace abi;

extern "C" {
#define ASSAY_DRIVER_FUNCTION(symbol, base, version, need, parameters) \
  ASSAY_MODEL_HAS_##need([[gnu::visibility("default")]] Status symbol parameters;)
#include "assay/cuda/abi/driver_functions.def"
#undef ASSAY_DRIVER_FUNCTION
}

enum class Function : std::uint16_t {
#define ASSAY_DRIVER_FUNCTION(symbol, base, version, need, parameters) \
  ASSAY_MODEL_HAS_##need(symbol, )
#include "assay/cuda/abi/driver_functions.def"
#undef ASSAY_DRIVER_FUNCTION
  count
};

inline constexpr std::size_t function_count = static_cast<std::size_t>(Function::count);

[[nodiscard]] const char* name_of(Function function) noexcept;

}  // namespace assay::cuda::model
