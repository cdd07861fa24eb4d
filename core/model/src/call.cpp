#include "call.hpp"

#include <unistd.h>

#include <atomic>
#include <utility>

#include "faults.hpp"
#include "process.hpp"

namespace assay::cuda::model {

namespace {

/// Asks on purpose whether there is a context: no mistake.
bool asks_for_context(Function function) {
  return function == Function::cuCtxGetDevice;
}

constinit std::atomic<bool> told_late{false};

}  // namespace

Call::Call(Function function, Needs needs, const void* caller) noexcept
    : site_{name_of(function), 0, caller},
      outer_(std::exchange(this_thread().call, &site_)),
      status_(count_call(function, site_.call)) {
  if (status_ == Status::success) status_ = judge(function, needs);
}

Status Call::judge(Function function, Needs needs) noexcept {
  if (needs == Needs::anytime) return Status::success;
  if (!initialised()) return answer(Rule::not_initialised, Status::not_initialized);
  if (in_forked_child()) return refuse_forked_child();
  if (shutting_down()) return refuse_late();

  context_ = current_context();
  if (needs != Needs::initialised) {
    Status sticky = poisoned_all();
    if (sticky == Status::success && context_ != nullptr) {
      sticky = context_->sticky.load(std::memory_order_acquire);
    }
    if (sticky != Status::success) return refuse_poisoned(sticky);
  }
  if (this_thread().in_host_function) return refuse_in_host_function();
  if (needs != Needs::context) return Status::success;
  if (context_ == nullptr) return refuse_without_context(function);
  if (!context_->alive.load(std::memory_order_acquire)) {
    return refuse(Rule::context_destroyed, Status::context_is_destroyed,
                  "uses what is current here: " + describe(*context_));
  }
  return Status::success;
}

// Wrappers with static objects meet this in numbers: the first is told.
Status Call::refuse_late() const noexcept {
  if (told_late.exchange(true)) return answer(Rule::shutting_down, Status::deinitialized);
  return refuse(Rule::shutting_down, Status::deinitialized,
                "comes after the driver's exit handler, which " + describe(initialiser()) +
                    " had registered: an object outlives the driver");
}

// The error was an answer before this call, and the program went on.
Status Call::refuse_poisoned(Status sticky) const noexcept {
  const bool faulted = context_ != nullptr && context_->faulted.load(std::memory_order_acquire);
  if (!faulted || context_->blamed.exchange(true)) return answer(Rule::poisoned, sticky);
  return refuse(Rule::poisoned, sticky,
                "comes after the fault of " + describe(context_->faulty) + ", which " +
                    describe(context_->surfaced) + " met: every call on the context answers " +
                    std::to_string(static_cast<unsigned>(sticky)));
}

Status Call::refuse_in_host_function() const noexcept {
  const ThreadState& thread = this_thread();
  std::string text = "within a host function";
  if (thread.host_function != nullptr) text += " of " + describe(*thread.host_function);
  if (thread.waits_for_itself) text += ", and would wait for the stream that it runs in: for ever";
  return refuse(Rule::call_in_host_function, Status::not_permitted, text);
}

Status Call::refuse_without_context(Function function) const noexcept {
  if (asks_for_context(function)) {
    return answer(Rule::no_current_context, Status::invalid_context);
  }
  return refuse(Rule::no_current_context, Status::invalid_context, describe_lack_of_context());
}

Status refuse_forked_child() noexcept {
  return refuse(Rule::forked_child, Status::not_initialized,
                "in process " + std::to_string(getpid()) + ", a forked child of process " +
                    std::to_string(initialiser_process()) + ", where " + describe(initialiser()) +
                    " initialised the driver");
}

std::string describe_lack_of_context() {
  return "on thread " + std::to_string(thread_id()) + ", which has no context current; " +
         describe_live_contexts();
}

}  // namespace assay::cuda::model
