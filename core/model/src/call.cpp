#include "call.hpp"

#include "faults.hpp"
#include "process.hpp"

namespace assay::cuda::model {

Call::Call(Function function, Needs needs, const void* caller) noexcept
    : site_{name_of(function), 0, caller}, status_(count_call(function, site_.call)) {
  if (status_ == Status::success) status_ = judge(needs);
}

Status Call::judge(Needs needs) noexcept {
  if (needs == Needs::anytime) return Status::success;
  if (!initialised()) return answer(Rule::not_initialised, Status::not_initialized);
  if (in_forked_child()) return answer(Rule::forked_child, Status::not_initialized);
  if (shutting_down()) return answer(Rule::shutting_down, Status::deinitialized);

  context_ = current_context();
  if (needs != Needs::initialised) {
    Status sticky = poisoned_all();
    if (sticky == Status::success && context_ != nullptr) {
      sticky = context_->sticky.load(std::memory_order_acquire);
    }
    if (sticky != Status::success) return answer(Rule::poisoned, sticky);
  }
  if (this_thread().in_host_function) {
    diagnose(Rule::call_in_host_function, describe(site_) + " within a host function");
    return answer(Rule::call_in_host_function, Status::not_permitted);
  }
  if (needs != Needs::context) return Status::success;
  if (context_ == nullptr) return answer(Rule::no_current_context, Status::invalid_context);
  if (!context_->alive.load(std::memory_order_acquire)) {
    return answer(Rule::context_destroyed, Status::context_is_destroyed);
  }
  return Status::success;
}

}  // namespace assay::cuda::model
