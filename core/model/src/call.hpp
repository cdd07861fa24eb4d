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
  ~Call() { this_thread().call = outer_; }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  [[nodiscard]] Status status() const noexcept { return status_; }
  [[nodiscard]] const Site& site() const noexcept { return site_; }
  /// Pre: Needs::context and a status of success.
  [[nodiscard]] ContextRecord& context() const noexcept { return *context_; }

 private:
  Status judge(Function function, Needs needs) noexcept;
  /// The refusals of mistakes, in words.
  Status refuse_late() const noexcept;
  Status refuse_poisoned(Status sticky) const noexcept;
  Status refuse_in_host_function() const noexcept;
  Status refuse_without_context(Function function) const noexcept;

  Site site_;
  const Site* outer_;  ///< of this thread before: null, but within a diagnosis of its own
  ContextRecord* context_ = nullptr;
  Status status_;
};

/// Of a call that waits, while it is judged: within a host function it would wait for that one.
class SelfWait {
 public:
  explicit SelfWait(bool waits) noexcept { this_thread().waits_for_itself = waits; }
  ~SelfWait() { this_thread().waits_for_itself = false; }
  SelfWait(const SelfWait&) = delete;
  SelfWait& operator=(const SelfWait&) = delete;
};

/// 3, for a call in a forked child of a process that initialised the driver.
Status refuse_forked_child() noexcept;

/// "on thread 7, which has no context current; ..."
[[nodiscard]] std::string describe_lack_of_context();

/// Begins an exported function: `ASSAY_MODEL_CALL(cuMemFree_v2, context);` declares `call`.
#define ASSAY_MODEL_CALL(function, needs)                                         \
  const Call call(Function::function, Needs::needs, __builtin_return_address(0)); \
  if (call.status() != Status::success) return call.status()

}  // namespace assay::cuda::model
