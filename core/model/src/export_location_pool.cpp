// Default and current pools by location and type of memory (13.0).
#include "call.hpp"
#include "hidden.hpp"
#include "pool.hpp"
#include "pool_checks.hpp"

namespace assay::cuda::model {

namespace {

Status check_place(const Location* wanted, AllocationType type, Location& location) {
  if (wanted == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if (type != AllocationType::pinned && type != AllocationType::managed) {
    return answer(Rule::pool_type, Status::invalid_value);
  }
  location = *wanted;
  const Status bad = check_pool_location(location, type, Status::invalid_device);
  return bad != Status::success ? bad : check_pools_supported();
}

}  // namespace

extern "C" {

Status implement_cuMemGetDefaultMemPool(MemPool* out, Location* wanted, AllocationType type) {
  ASSAY_MODEL_CALL(cuMemGetDefaultMemPool, sound);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  Location location{};
  if (const Status bad = check_place(wanted, type, location); bad != Status::success) return bad;
  *out = default_pool(location, type)->handle;
  return Status::success;
}

Status implement_cuMemGetMemPool(MemPool* out, Location* wanted, AllocationType type) {
  ASSAY_MODEL_CALL(cuMemGetMemPool, sound);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  Location location{};
  if (const Status bad = check_place(wanted, type, location); bad != Status::success) return bad;
  *out = current_pool(location, type)->handle;
  return Status::success;
}

Status implement_cuMemSetMemPool(Location* wanted, AllocationType type, MemPool handle) {
  ASSAY_MODEL_CALL(cuMemSetMemPool, sound);
  Location location{};
  if (const Status bad = check_place(wanted, type, location); bad != Status::success) return bad;
  const PoolPointer pool = find_pool(handle);
  if (pool == nullptr) return answer(Rule::pool_unknown, Status::invalid_value);
  if (pool->type != type || pool->location.type != location.type ||
      pool->location.id != location.id) {
    return answer(Rule::pool_not_local, Status::invalid_value);
  }
  set_current_pool(pool);
  return Status::success;
}

ASSAY_MODEL_HIDDEN_BELOW(13000, cuMemGetDefaultMemPool)
ASSAY_MODEL_HIDDEN_BELOW(13000, cuMemGetMemPool)
ASSAY_MODEL_HIDDEN_BELOW(13000, cuMemSetMemPool)

}  // extern "C"

}  // namespace assay::cuda::model
