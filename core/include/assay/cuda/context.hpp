// PrimaryContext: a device's primary context, retained and made current for a scope at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "assay/cuda/driver.hpp"

namespace assay::cuda {

/// A retained primary context.
///
/// A reset or the last release elsewhere in the process ends the context and may give the same
/// handle value to the next one, so `Current` compares the context's id (12.0; without ids, that
/// the context is still active) before it makes it current.
///
/// **Invariants** one retain for each object, released once, on whatever thread destroys it: after
/// a reset too, which releases nothing [hdr]. A poisoned context is dropped: no further call, no
/// abort; so is one in a forked child.
/// **Threads** safe from any thread.
class PrimaryContext final : public Counted {
 public:
  /// Retains the device's context, creating it if need be. **Errors** invalid_argument for an
  /// ordinal that is not there, out_of_memory, driver_error. **Cost** the first use of a device
  /// creates its context (0.1 to 1 s on real hardware).
  [[nodiscard]] static Result<Ref<PrimaryContext>> retain(Ref<Driver> driver, int ordinal) noexcept;
  using Counted::retain;

  /// The context of the device in the process's driver: one object per device, made at first use
  /// and kept until the process ends. One that was lost is given up and retained anew.
  [[nodiscard]] static Result<Ref<PrimaryContext>> of_device(int ordinal) noexcept;

  [[nodiscard]] Driver& driver() const noexcept { return *driver_; }
  [[nodiscard]] const abi::DriverTable& table() const noexcept { return driver_->table(); }
  [[nodiscard]] int ordinal() const noexcept { return facts_.ordinal; }
  [[nodiscard]] const DeviceFacts& facts() const noexcept { return facts_; }
  [[nodiscard]] abi::Context handle() const noexcept { return handle_; }

  /// True once the context is known to be gone or to answer a sticky error.
  [[nodiscard]] bool lost() const noexcept { return lost_by() != abi::Status::success; }
  /// The first status that told so, else success.
  [[nodiscard]] abi::Status lost_by() const noexcept {
    return lost_by_.load(std::memory_order_acquire);
  }
  /// Looks at the status of any call made under this context, remembers a sticky or fatal one, and
  /// makes the Error of a failed one. 201 and 709, which a dead stream gives too, count only if the
  /// context is indeed gone. `function` and `backing` are static text. **Cost** none for success.
  Result<void> check(abi::Status status, const char* function, const char* backing = "") noexcept;

 private:
  PrimaryContext(Ref<Driver> driver, abi::Context handle, std::uint64_t id,
                 DeviceFacts facts) noexcept
      : driver_(std::move(driver)), facts_(std::move(facts)), handle_(handle), id_(id) {}
  ~PrimaryContext() override;

  /// success while the handle is that of the context that was retained; 709 if it ended and the
  /// handle may be another's; else what the driver answered.
  [[nodiscard]] abi::Status state() const noexcept;
  void mark_lost(abi::Status status) noexcept;
  Error lost_error() const noexcept;

  friend class Current;
  Ref<Driver> driver_;
  DeviceFacts facts_;
  abi::Context handle_;
  std::uint64_t id_;  ///< of cuCtxGetId, 0 where the driver has none
  std::atomic<abi::Status> lost_by_{abi::Status::success};
};

/// Makes a context current on this thread until the end of the scope.
///
///     ASSAY_TRY(cuda::Current current, cuda::Current::of(*context));
///
/// **Pre** the context outlives the scope, and what the scope pushes it pops. **Cost** a push and a
/// pop, and one query of the id (12.0+) or the state.
class [[nodiscard]] Current {
 public:
  /// **Errors** context_lost if the context is gone, poisoned, or was reborn, or in a forked child.
  [[nodiscard]] static Result<Current> of(PrimaryContext& context) noexcept;

  Current(Current&& other) noexcept : context_(std::exchange(other.context_, nullptr)) {}
  Current& operator=(Current&&) = delete;
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  ~Current();

 private:
  explicit Current(PrimaryContext& context) noexcept : context_(&context) {}
  PrimaryContext* context_;
};

}  // namespace assay::cuda
