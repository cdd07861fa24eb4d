// Call: what every exported function does first.
#pragma once

#include <cstdint>
#include <string>

#include "context.hpp"
#include "exports.hpp"
#include "rules.hpp"
#include "site.hpp"

namespace assay::cuda::model {

enum class Needs : std::uint8_t {
  anytime,      ///< also before cuInit, in a forked child and while the process ends
  initialised,  ///< cuInit in this process
  sound,        ///< that, and no poison: of the model, or of what is current if anything is
  context,      ///< a live context, current on this thread
};

/// Counts the call, then refuses it in the model's one fixed order: injected fault, not initialised
/// (3, also in a forked child), shutting down (4), poisoned (its sticky code), within a host
/// function (800), no current context (201) or a destroyed one (709). Arguments come after.
class [[nodiscard]] Call {
 public:
  Call(Function function, Needs needs, const void* caller) noexcept;

  [[nodiscard]] Status status() const noexcept { return status_; }
  [[nodiscard]] const Site& site() const noexcept { return site_; }
  /// Pre: Needs::context and a status of success.
  [[nodiscard]] ContextRecord& context() const noexcept { return *context_; }

 private:
  Status judge(Needs needs) noexcept;

  Site site_;
  ContextRecord* context_ = nullptr;
  Status status_;
};

/// Begins an exported function: `ASSAY_MODEL_CALL(cuMemFree_v2, context);` declares `call`.
#define ASSAY_MODEL_CALL(function, needs)                                         \
  const Call call(Function::function, Needs::needs, __builtin_return_address(0)); \
  if (call.status() != Status::success) return call.status()

}  // namespace assay::cuda::model
