// PrimaryContext: a device's primary context, retained and made current for a scope at a time.
#pragma once

#include <atomic>
#include <cstdint>

#include "assay/cuda/driver.hpp"

namespace assay::cuda {

/// A retained primary context.
///
/// A reset or the last release elsewhere in the process ends the context and may give the same
/// handle value to the next one, so `Current` compares the context's id (12.0; without ids, that
/// the context is still active) before it makes it current.
///
/// **Invariants** one retain for each object, released once, on whatever thread destroys it. A
/// lost or poisoned context is dropped: no further call, no abort.
/// **Threads** safe from any thread.
class PrimaryContext final : public Counted {
 public:
  /// Retains the device's context, creating it if need be. **Errors** invalid_argument for an
  /// ordinal that is not there, out_of_memory, driver_error. **Cost** the first use of a device
  /// creates its context (0.1 to 1 s on real hardware).
  [[nodiscard]] static Result<Ref<PrimaryContext>> retain(Ref<Driver> driver, int ordinal) noexcept;
  using Counted::retain;

  /// The context of the device in the process's driver, one object per device, made at first use.
  [[nodiscard]] static Result<Ref<PrimaryContext>> of_device(int ordinal) noexcept;

  [[nodiscard]] Driver& driver() const noexcept { return *driver_; }
  [[nodiscard]] const abi::DriverTable& table() const noexcept { return driver_->table(); }
  [[nodiscard]] int ordinal() const noexcept { return ordinal_; }
  [[nodiscard]] const DeviceFacts& facts() const noexcept { return facts_; }
  [[nodiscard]] abi::Context handle() const noexcept { return handle_; }

  /// True once the context is known to be gone or to answer a sticky error.
  [[nodiscard]] bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  /// Looks at the status of any call made under this context, remembers a sticky or fatal one, and
  /// makes the Error of a failed one.
  Result<void> check(abi::Status status, const char* function, const char* backing = "") noexcept;

 private:
  PrimaryContext(Ref<Driver> driver, int ordinal, abi::Context handle, std::uint64_t id,
                 DeviceFacts facts) noexcept;
  ~PrimaryContext() override;

  friend class Current;
  Ref<Driver> driver_;
  DeviceFacts facts_;
  abi::Context handle_;
  std::uint64_t id_;  ///< of cuCtxGetId, 0 where the driver has none
  int ordinal_;
  std::atomic<bool> lost_{false};
};

/// Makes a context current on this thread until the end of the scope.
///
///     ASSAY_TRY(cuda::Current current, cuda::Current::of(*context));
///
/// **Cost** a push and a pop, and one id query (12.0+).
class [[nodiscard]] Current {
 public:
  /// **Errors** context_lost if the context is gone, poisoned, or was reborn.
  [[nodiscard]] static Result<Current> of(PrimaryContext& context) noexcept;

  Current(Current&& other) noexcept;
  Current& operator=(Current&&) = delete;
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  ~Current();

 private:
  explicit Current(PrimaryContext& context) noexcept : context_(&context) {}
  PrimaryContext* context_;
};

}  // namespace assay::cuda
