// The stream engine, as contexts, memory and the exported functions call it: one scheduler for the
// process, and what surrounds it.
//
// **Locks** the engine's locks are taken before that of memory.cpp and never while it is held; no
// function here is called under the lock of contexts.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "context.hpp"
#include "memory.hpp"
#include "site.hpp"
#include "stream_operation.hpp"
#include "stream_scheduler.hpp"

namespace assay::cuda::model {

/// The process's scheduler. Never destroyed: work may be pending while the process ends.
[[nodiscard]] StreamScheduler& scheduler() noexcept;

/// The queue of `stream` for a thread whose current context is `current`; null is the legacy
/// default stream of `current`. Errors: 400 never valid, 709 destroyed, 201 null without a context,
/// and the sticky code of the stream's context.
[[nodiscard]] Status find_queue(Stream stream, ContextRecord* current,
                                QueuePointer& queue) noexcept;

/// May that thread use `stream`? Errors: those of find_queue.
[[nodiscard]] Status check_stream(Stream stream, ContextRecord* current) noexcept;

/// Errors: those of find_queue.
Status enqueue(Stream stream, ContextRecord* current, Operation operation) noexcept;

/// Runs all work of the stream, or of every stream of the context, and waits for it. Errors: the
/// sticky code of a context that the work poisoned.
Status synchronize(Stream stream, ContextRecord* current) noexcept;
Status synchronize_context(ContextRecord& context) noexcept;

/// Unfinished work that touches the range: the first found.
[[nodiscard]] std::optional<PendingWork> pending_work(Range range) noexcept;
/// Runs and waits for all unfinished work that touches the range (work behind a closed gate too:
/// it waits until the gate opens).
void wait_for_range(Range range) noexcept;
/// The same for what calls without a stream, such as cuMemcpyHtoD, have left to do: no mistake of
/// a program that frees the memory then.
void finish_sync_forms(Range range) noexcept;

/// The context is destroyed (it is no longer alive): what its streams still hold is dropped, and
/// its streams, events and modules are dead handles from now on.
void end_streams_of(ContextRecord& context) noexcept;

/// Lets every closed gate (cuStreamWaitValue32, a spinning kernel) pass.
void open_all_gates() noexcept;

/// The process ends: nothing pending starts any more, and nobody waits for it.
void stop_streams() noexcept;

/// Where host and device exclude each other: opens and closes managed memory to the host, after
/// what the device is busy with, or which memory there is, has changed.
void refresh_host_access() noexcept;

/// The host is about to read the range: diagnosed, and true, if unfinished work writes it.
bool host_reads_early(Range range) noexcept;

/// What keeps the device busy, as far as the host has seen: "the work of cuLaunchKernel (call 7,
/// ...) has not been waited for". For diagnoses.
[[nodiscard]] std::string describe_busy();

/// A managed allocation is associated with a stream, the host, or nothing in particular (GLOBAL).
void attach(Allocation& allocation, unsigned flags, Stream stream) noexcept;

/// May work of `stream` use it? Not if it is attached to the host, or to another stream.
[[nodiscard]] bool may_use(const Allocation& allocation, Stream stream) noexcept;

[[nodiscard]] std::uint64_t live_streams() noexcept;
[[nodiscard]] std::uint64_t live_events() noexcept;
[[nodiscard]] std::uint64_t live_modules() noexcept;
/// One line for each live stream, event and module, with the site that made it: for the report.
[[nodiscard]] std::vector<std::string> live_stream_objects();

}  // namespace assay::cuda::model
