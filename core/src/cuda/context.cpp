#include "assay/cuda/context.hpp"

#include <array>
#include <cstdlib>
#include <mutex>
#include <new>

namespace assay::cuda {
namespace {

using abi::Status;

constexpr std::size_t devices_max = 64;

/// The contexts of of_device. Never destroyed, since threads may outlive the statics; emptied at
/// exit, before the driver's own handlers, which were registered earlier, run.
struct Registry {
  std::mutex mutex;
  std::array<Ref<PrimaryContext>, devices_max> contexts;

  static Registry* get() noexcept {
    static Registry* const registry = make();
    return registry;
  }

 private:
  static Registry* make() noexcept {
    auto* const registry = new (std::nothrow) Registry;
    // Without room for the handler (never seen) the contexts end with the process.
    if (registry != nullptr) std::atexit([] { get()->clear(); });
    return registry;
  }
  void clear() noexcept {
    for (Ref<PrimaryContext>& context : contexts) {
      Ref<PrimaryContext> gone;  // destroyed outside the lock: its destructor calls the driver
      {
        const std::lock_guard lock(mutex);
        gone = std::exchange(context, {});
      }
    }
  }
};

/// Gives a retain back, trying once more if the driver refuses for a passing reason.
void release(const Driver& driver, int ordinal) noexcept {
  const auto give_back = driver.table().cuDevicePrimaryCtxRelease_v2;
  const Status status = give_back(ordinal);
  if (status != Status::success && !ends_context(status)) give_back(ordinal);
}

}  // namespace

Result<Ref<PrimaryContext>> PrimaryContext::retain(Ref<Driver> driver, int ordinal) noexcept {
  if (driver->forked()) {
    return driver->error(Status::not_initialized, "cuDevicePrimaryCtxRetain");
  }
  ASSAY_TRY(DeviceFacts facts, driver->device_facts(ordinal));
  const abi::DriverTable& table = driver->table();
  abi::Context handle = nullptr;
  Status status = table.cuDevicePrimaryCtxRetain(&handle, ordinal);
  if (status != Status::success) return driver->error(status, "cuDevicePrimaryCtxRetain");
  unsigned long long id = 0;
  if (driver->has(Feature::context_id)) status = table.cuCtxGetId(handle, &id);
  if (status != Status::success) {
    release(*driver, ordinal);
    return driver->error(status, "cuCtxGetId");
  }
  auto* const context = new (std::nothrow) PrimaryContext(driver, handle, id, std::move(facts));
  if (context == nullptr) {
    release(*driver, ordinal);
    return Error::make(ErrorCode::out_of_memory, "retain a context");
  }
  return Ref<PrimaryContext>::adopt(context);
}

Result<Ref<PrimaryContext>> PrimaryContext::of_device(int ordinal) noexcept {
  ASSAY_TRY(Ref<Driver> driver, Driver::instance());
  Registry* const registry = Registry::get();
  if (registry == nullptr) return Error::make(ErrorCode::out_of_memory, "retain a context");
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= devices_max) {
    return Error::make(ErrorCode::invalid_argument, "device ordinal", "",
                       static_cast<std::uint64_t>(ordinal));
  }
  Ref<PrimaryContext> lost;  // destroyed after the lock is given back
  const std::lock_guard lock(registry->mutex);
  Ref<PrimaryContext>& slot = registry->contexts[static_cast<std::size_t>(ordinal)];
  if (slot) {
    slot->mark_lost(slot->state());
    if (slot->lost()) lost = std::exchange(slot, {});
  }
  if (!slot) {
    ASSAY_TRY(slot, retain(std::move(driver), ordinal));
  }
  return slot;
}

Status PrimaryContext::state() const noexcept {
  if (driver_->has(Feature::context_id)) {
    unsigned long long id = 0;
    const Status status = table().cuCtxGetId(handle_, &id);
    return status == Status::success && id != id_ ? Status::context_is_destroyed : status;
  }
  unsigned flags = 0;
  int active = 0;
  const Status status = table().cuDevicePrimaryCtxGetState(ordinal(), &flags, &active);
  return status == Status::success && active == 0 ? Status::context_is_destroyed : status;
}

void PrimaryContext::mark_lost(Status status) noexcept {
  if (!ends_context(status)) return;
  Status alive = Status::success;  // the first reason is kept
  lost_by_.compare_exchange_strong(alive, status, std::memory_order_acq_rel);
}

Result<void> PrimaryContext::check(Status status, const char* function,
                                   const char* backing) noexcept {
  if (status == Status::success) [[likely]] {
    return {};
  }
  Error error = driver_->error(status, function, backing);
  const bool of_handle =
      status == Status::invalid_context || status == Status::context_is_destroyed;
  if (of_handle && state() == Status::success) {
    error.code = ErrorCode::driver_error;  // some handle is dead, but not the context
  } else {
    mark_lost(status);
  }
  return error;
}

Error PrimaryContext::lost_error() const noexcept {
  Error error = driver_->error(lost_by(), "make a context current");
  error.code = ErrorCode::context_lost;
  error.retryable = false;
  return error;
}

PrimaryContext::~PrimaryContext() {
  // In a child the driver cannot be called. A poisoned context answers nothing any more, and during
  // shutdown nobody is left to tell. A reset, however, does not release: each retain is still to be
  // given back, "even after resetting the device" [hdr].
  const Status lost = lost_by();
  const bool answers = lost == Status::success || lost == Status::context_is_destroyed;
  if (!driver_->forked() && answers) release(*driver_, ordinal());
}

Result<Current> Current::of(PrimaryContext& context) noexcept {
  if (context.lost()) return context.lost_error();
  if (context.driver().forked()) {
    Error error = context.driver().error(Status::not_initialized, "make a context current");
    error.code = ErrorCode::context_lost;
    return error;
  }
  if (const Status state = context.state(); state != Status::success) {
    context.mark_lost(state);
    return context.driver().error(state, "make a context current");
  }
  ASSAY_TRY_VOID(
      context.check(context.table().cuCtxPushCurrent_v2(context.handle()), "cuCtxPushCurrent"));
  return Current(context);
}

Current::~Current() {
  if (context_ == nullptr) return;
  const auto pop = context_->table().cuCtxPopCurrent_v2;
  abi::Context popped = nullptr;
  const Status status = pop(&popped);
  if (status != Status::success && !ends_context(status)) pop(&popped);
}

}  // namespace assay::cuda
