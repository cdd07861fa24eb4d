// What a stream holds: operations, each with the memory it reads and writes.
#pragma once

#include <functional>
#include <vector>

#include "memory.hpp"
#include "site.hpp"

namespace assay::cuda::model {

/// Do the ranges have a byte in common?
[[nodiscard]] constexpr bool share(Range a, Range b) noexcept {
  return a.size != 0 && b.size != 0 && overlap(a, b);
}

/// One piece of work. Runs once, after the earlier work of its stream, as late as possible.
struct Operation {
  const char* name = "";     ///< static text: what diagnoses call it
  std::vector<Range> reads;  ///< device-visible or host ranges, by their host address
  std::vector<Range> writes;
  /// Does the work, with no lock of the engine held. Anything but success is a fault of the device
  /// and poisons the context. Empty: a mark in the stream.
  std::function<Status()> run;
  Site site;  ///< the call that enqueued it
  /// A gate: the operation starts once this is true. Called under the engine's lock, often: it only
  /// looks. Empty: it may start at once.
  std::function<bool()> ready;
  Range gate;  ///< what `ready` looks at: an operation that writes here may open the gate
  bool device_work = false;    ///< keeps the device busy, where host and device exclude each other
  bool host_function = false;  ///< runs code of the program: on the engine's own thread for that
  bool sync_form = false;      ///< of a call without a stream, whose end the program never sees
  bool reaches_host = false;   ///< its effect is outside the context, which may end before it runs
};

/// Work that is not done.
struct PendingWork {
  const char* name = "";
  Site site;
};

}  // namespace assay::cuda::model
