// The stream engine, as contexts and memory call it. Owned by stream_engine.cpp.
//
// **Locks** the engine's lock is taken before that of memory.cpp and never while it is held; no
// function here is called under the lock of contexts.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "context.hpp"
#include "memory.hpp"
#include "site.hpp"

namespace assay::cuda::model {

/// One piece of work. Runs once, after the earlier work of its stream, as late as possible.
struct Operation {
  const char* name = "";     ///< static text: what diagnoses call it
  std::vector<Range> reads;  ///< device-visible or host ranges
  std::vector<Range> writes;
  std::function<Status()> run;  ///< anything but success poisons the context with it
  Site site;                    ///< the call that enqueued it
};

/// Work that is not done.
struct PendingWork {
  const char* name = "";
  Site site;
};

/// May `stream` be used by a thread whose current context is `current`? Null is the legacy default
/// stream of `current`. Errors: 400 never valid, 709 destroyed, 201 null without a context.
[[nodiscard]] Status check_stream(Stream stream, ContextRecord* current) noexcept;

/// Errors: those of check_stream.
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

/// The context is destroyed (it is no longer alive): what its streams still hold is dropped, and
/// its streams, events and modules are dead handles from now on.
void end_streams_of(ContextRecord& context) noexcept;

/// Lets every closed gate (cuStreamWaitValue32) pass.
void open_all_gates() noexcept;

[[nodiscard]] std::uint64_t live_streams() noexcept;
[[nodiscard]] std::uint64_t live_events() noexcept;
[[nodiscard]] std::uint64_t live_modules() noexcept;
/// One line for each live stream, event and module, with the site that made it: for the report.
[[nodiscard]] std::vector<std::string> live_stream_objects();

}  // namespace assay::cuda::model
