// Contexts, and what each thread has current.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "assay/cuda/abi/types.hpp"
#include "site.hpp"

namespace assay::cuda::model {

using namespace abi;

/// One life of a context. Records are never freed, so that a thread's stack may point at a dead
/// one; a primary context that is born again is a new record under the old handle value.
///
/// **Threads** `alive` and `sticky` from any thread; the rest is constant, or under the lock of
/// contexts.cpp.
struct ContextRecord {
  Context handle = nullptr;
  std::uint64_t id = 0;  ///< never reused
  Device device = 0;
  bool primary = false;
  unsigned flags = 0;
  std::atomic<bool> alive{true};
  std::atomic<Status> sticky{Status::success};  ///< what every later call answers
  Site created;
  Site ended;                  ///< the call that ended it. Written before `alive` is false
  std::atomic<int> thread{0};  ///< that made it current last
  // Why it is poisoned, if by a fault of its work: written before `faulted`.
  Site faulty;    ///< the work
  Site surfaced;  ///< the call that ran it, whose answer it was
  std::atomic<bool> faulted{false};
  std::atomic<bool> blamed{false};  ///< a call after that one has been diagnosed
};

/// What the model keeps of a thread. Trivially destructible: calls may come while the thread ends.
struct ThreadState {
  static constexpr std::size_t stack_max = 256;
  std::array<ContextRecord*, stack_max> stack{};
  std::size_t depth = 0;
  bool in_host_function = false;  ///< set by the stream engine on its thread for host functions
  const Site* host_function = nullptr;  ///< the launch of the one that runs
  Stream host_stream = nullptr;         ///< in which it runs
  bool waits_for_itself = false;        ///< a call of that one waits for that stream
  const Site* call = nullptr;           ///< the exported function that runs
  int id = 0;                           ///< the system's number of the thread; 0: not asked yet
};
[[nodiscard]] ThreadState& this_thread() noexcept;
[[nodiscard]] int thread_id() noexcept;

/// "context 3, made by cuCtxCreate_v2 (call 4, ...)", and what ended it.
[[nodiscard]] std::string describe(const ContextRecord& context);
/// Which contexts are live, and where they are current.
[[nodiscard]] std::string describe_live_contexts();
/// The last context that had this handle, alive or not; null if none ever had.
[[nodiscard]] const ContextRecord* last_life(Context handle) noexcept;

/// The record on top of this thread's stack, alive or not; null if there is none.
[[nodiscard]] ContextRecord* current_context() noexcept;

/// The live record of a handle value, or null.
[[nodiscard]] ContextRecord* find_context(Context handle) noexcept;

/// Does a live context exist on the device?
[[nodiscard]] bool device_in_use(Device device) noexcept;

/// Every later call on the context answers `code`, as after an asynchronous fault.
void poison(ContextRecord& context, Status code) noexcept;
/// The same for every context, those to come too; success lifts it.
void poison_all(Status code) noexcept;
[[nodiscard]] Status poisoned_all() noexcept;

/// Makes a context and its record, or counts one more retain of the primary one.
ContextRecord* create_context(Device device, unsigned flags, const Site& site);
ContextRecord* retain_primary(Device device, const Site& site);
/// 201 if nothing is retained; the last release ends the context.
Status release_primary(Device device) noexcept;
/// Ends the primary context, however often it is retained; retains stay counted [hdr: releases
/// after a reset are safe].
void reset_primary(Device device) noexcept;
/// Ends a context: its streams' work is dropped, its memory is freed, its record is dead.
void end_context(ContextRecord& context) noexcept;

struct PrimaryState {
  unsigned flags = 0;
  bool active = false;
};
[[nodiscard]] PrimaryState primary_state(Device device) noexcept;
void set_primary_flags(Device device, unsigned flags) noexcept;

/// Was this ever the handle of a context?
[[nodiscard]] bool was_context(Context handle) noexcept;

[[nodiscard]] std::uint64_t live_contexts() noexcept;
[[nodiscard]] std::vector<const ContextRecord*> live_context_list();

}  // namespace assay::cuda::model
