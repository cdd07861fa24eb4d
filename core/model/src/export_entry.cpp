// cuGetProcAddress by both ABIs, and the hiding of symbols that the profile's driver is too old
// for.
#include <cstring>

#include "call.hpp"
#include "hidden.hpp"
#include "profile.hpp"

namespace assay::cuda::model {

namespace {

struct Row {
  const char* base;
  int version;
  void* address;
};

/// The address that a table row gives: of an export, or of the function behind a hidden one.
template <class Signature>
void* address_of(Signature* function) {
  return reinterpret_cast<void*>(function);
}

// Exports that older profiles hide stand here under the name of their implementation.
#define cuGetProcAddress_v2 implement_cuGetProcAddress_v2
#define cuCtxGetId implement_cuCtxGetId
#define cuMemAdvise_v2 implement_cuMemAdvise_v2
#define cuMemPrefetchAsync_v2 implement_cuMemPrefetchAsync_v2
#define cuMemGetDefaultMemPool implement_cuMemGetDefaultMemPool
#define cuMemGetMemPool implement_cuMemGetMemPool
#define cuMemSetMemPool implement_cuMemSetMemPool
#define cuMemPrefetchBatchAsync implement_cuMemPrefetchBatchAsync
#define cuMemDiscardBatchAsync implement_cuMemDiscardBatchAsync
#define cuMemDiscardAndPrefetchBatchAsync implement_cuMemDiscardAndPrefetchBatchAsync
#define ASSAY_DRIVER_FUNCTION(symbol, base, version, need, parameters) \
  ASSAY_MODEL_HAS_##need({#base, version, address_of(symbol)}, )
const Row rows[] = {
#include "assay/cuda/abi/driver_functions.def"
};
#undef ASSAY_DRIVER_FUNCTION
#undef cuMemSetMemPool
#undef cuMemGetMemPool
#undef cuMemGetDefaultMemPool
#undef cuMemDiscardAndPrefetchBatchAsync
#undef cuMemDiscardBatchAsync
#undef cuMemPrefetchBatchAsync
#undef cuMemPrefetchAsync_v2
#undef cuMemAdvise_v2
#undef cuCtxGetId
#undef cuGetProcAddress_v2

constexpr std::uint64_t flags_known = 3;  // LEGACY_STREAM 1, PER_THREAD_DEFAULT_STREAM 2
constexpr std::uint64_t flag_per_thread = 2;

Status look_up(const char* base, void** out, int version, std::uint64_t flags,
               ProcAddressResult& result) {
  const Profile& driver = profile();
  if (base == nullptr || out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if (version > driver.driver_version) {
    return answer(Rule::proc_version_too_new, Status::invalid_value);
  }
  if ((flags & ~flags_known) != 0 || flags == flags_known) {
    return answer(Rule::proc_flags, Status::invalid_value);
  }
  *out = nullptr;
  result = ProcAddressResult::symbol_not_found;
  if (flags == flag_per_thread) return answer(Rule::proc_per_thread, Status::success);

  int newest = 0;
  for (const Row& row : rows) {
    if (std::strcmp(row.base, base) != 0 || row.version > driver.driver_version) continue;
    if (row.version > version) {
      if (*out == nullptr) result = ProcAddressResult::version_not_sufficient;
    } else if (row.version > newest) {
      newest = row.version;
      *out = row.address;
      result = ProcAddressResult::success;
    }
  }
  return *out == nullptr ? answer(Rule::proc_unknown, Status::success) : Status::success;
}

}  // namespace

extern "C" {

Status cuGetProcAddress(const char* base, void** out, int version, std::uint64_t flags) {
  ASSAY_MODEL_CALL(cuGetProcAddress, anytime);
  ProcAddressResult ignored{};
  return look_up(base, out, version, flags, ignored);
}

Status implement_cuGetProcAddress_v2(const char* base, void** out, int version, std::uint64_t flags,
                                     ProcAddressResult* result) {
  ASSAY_MODEL_CALL(cuGetProcAddress_v2, anytime);
  ProcAddressResult found{};
  const Status status = look_up(base, out, version, flags, found);
  if (status == Status::success && result != nullptr) *result = found;
  return status;
}

Status implement_cuCtxGetId(Context handle, unsigned long long* out) {
  ASSAY_MODEL_CALL(cuCtxGetId, initialised);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  const ContextRecord* context = handle == nullptr ? current_context() : find_context(handle);
  if (context != nullptr && context->alive.load(std::memory_order_acquire)) {
    *out = context->id;
    return Status::success;
  }
  if (context != nullptr || was_context(handle)) {
    return answer(Rule::handle_of_destroyed_context, Status::context_is_destroyed);
  }
  return answer(handle == nullptr ? Rule::no_current_context : Rule::context_handle,
                Status::invalid_context);
}

ASSAY_MODEL_HIDDEN_BELOW(12000, cuGetProcAddress_v2)
ASSAY_MODEL_HIDDEN_BELOW(12000, cuCtxGetId)

}  // extern "C"

}  // namespace assay::cuda::model
