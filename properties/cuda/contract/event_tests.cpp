// Events: marks in a stream's order.
#include <cmath>
#include <cstring>

#include "contract/groups.hpp"
#include "suite/run.hpp"

namespace assay::conformance {
namespace {

using enum Source;

constexpr std::size_t size = 4096;
constexpr unsigned timed = 0;

void record(Run& run, abi::Event event, abi::Stream stream) {
  run.must(run.cu.cuEventRecord(event, stream), "cuEventRecord");
}

void never_recorded(Run& run) {
  const abi::Event event = run.event();
  run.code("query", run.cu.cuEventQuery(event));
  run.code("synchronise", run.cu.cuEventSynchronize(event));
  const abi::Stream stream = run.stream();
  run.code("a stream that waits for it", run.cu.cuStreamWaitEvent(stream, event, 0));
  run.code("is not held up", run.cu.cuStreamSynchronize(stream));
}

void pending(Run& run) {
  const abi::Stream stream = run.stream();
  const abi::Event event = run.event();
  Gate gate(run, stream);
  run.code("cuEventRecord", run.cu.cuEventRecord(event, stream));
  run.code("query behind a closed gate", run.cu.cuEventQuery(event));
  gate.open();
  run.code("synchronise", run.cu.cuEventSynchronize(event));
  run.code("query after the wait", run.cu.cuEventQuery(event));
}

void orders_streams(Run& run) {
  const abi::Stream first = run.stream();
  const abi::Stream second = run.stream();
  const abi::Event event = run.event();
  std::byte* const target = run.pinned(size);
  const DevicePointer address = run.device(size);
  run.fill(address, 0x11, size);
  std::memset(target, 0, size);
  Gate gate(run, first);
  run.must(run.cu.cuMemsetD8Async(address, 0x22, size, first), "cuMemsetD8Async");
  record(run, event, first);
  run.code("cuStreamWaitEvent", run.cu.cuStreamWaitEvent(second, event, 0));
  run.must(run.cu.cuMemcpyDtoHAsync_v2(target, address, size, second), "cuMemcpyDtoHAsync");
  run.code("the second stream waits", run.cu.cuStreamQuery(second));
  run.holds("and has done nothing", target[0] == std::byte{0});
  gate.open();
  run.must(run.cu.cuStreamSynchronize(second), "cuStreamSynchronize");
  run.holds("then it reads what the first wrote", target[size - 1] == std::byte{0x22});
}

void wait_takes_the_record_at_the_call(Run& run) {
  const abi::Stream first = run.stream();
  const abi::Stream second = run.stream();
  const abi::Event event = run.event();
  record(run, event, first);
  run.must(run.cu.cuStreamWaitEvent(second, event, 0), "cuStreamWaitEvent");
  Gate gate(run, first);
  record(run, event, first);
  run.code("a later record does not hold up an earlier wait", run.cu.cuStreamSynchronize(second));
}

void recorded_again(Run& run) {
  const abi::Stream stream = run.stream();
  const abi::Event event = run.event();
  record(run, event, stream);
  run.must(run.cu.cuEventSynchronize(event), "cuEventSynchronize");
  Gate gate(run, stream);
  record(run, event, stream);
  run.code("query after the second record", run.cu.cuEventQuery(event));
  gate.open();
  run.code("synchronise", run.cu.cuEventSynchronize(event));
}

void elapsed(Run& run) {
  const abi::Stream stream = run.stream();
  const abi::Event start = run.event(timed);
  const abi::Event end = run.event(timed);
  const DevicePointer address = run.device(size);
  record(run, start, stream);
  run.must(run.cu.cuMemsetD8Async(address, 0x11, size, stream), "cuMemsetD8Async");
  record(run, end, stream);
  run.must(run.cu.cuEventSynchronize(end), "cuEventSynchronize");
  float milliseconds = -1;
  run.code("cuEventElapsedTime", run.cu.cuEventElapsedTime(&milliseconds, start, end));
  run.holds("it is a time, and not negative", std::isfinite(milliseconds) && milliseconds >= 0);
}

void elapsed_unfinished(Run& run) {
  const abi::Stream stream = run.stream();
  const abi::Event start = run.event(timed);
  const abi::Event end = run.event(timed);
  record(run, start, stream);
  Gate gate(run, stream);
  record(run, end, stream);
  float milliseconds = -1;
  run.code("cuEventElapsedTime", run.cu.cuEventElapsedTime(&milliseconds, start, end));
}

Status elapsed_between(Run& run, unsigned flags, bool record_both) {
  const abi::Stream stream = run.stream();
  const abi::Event start = run.event(flags);
  const abi::Event end = run.event(flags);
  record(run, start, stream);
  if (record_both) record(run, end, stream);
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  float milliseconds = -1;
  return run.cu.cuEventElapsedTime(&milliseconds, start, end);
}

Status other_contexts_stream(Run& run) {
  const abi::Event event = run.event();
  (void)run.other_context();
  const abi::Stream stream = run.stream();
  return run.cu.cuEventRecord(event, stream);
}

void destroyed_while_pending(Run& run) {
  const abi::Stream stream = run.stream();
  const abi::Event event = run.event();
  Gate gate(run, stream);
  record(run, event, stream);
  run.code("cuEventDestroy", run.cu.cuEventDestroy_v2(event));
  gate.open();
  run.code("its stream synchronises", run.cu.cuStreamSynchronize(stream));
}

Status dead(Run& run, Status (*use)(Run&, abi::Event)) {
  const abi::Event event = run.event();
  run.must(run.cu.cuEventDestroy_v2(event), "cuEventDestroy");
  return use(run, event);
}

Status create(Run& run, unsigned flags) {
  abi::Event event = nullptr;
  return run.cu.cuEventCreate(&event, flags);
}

Tests refusals() {
  const Needs undefined = model_only("the use of a dead handle is undefined");
  const std::vector<std::int64_t> codes = {invalid_handle, context_is_destroyed};
  return {
      answers("event.flags_unknown", "unknown flags are refused", {invalid_value}, hdr,
              [](Run& run) { return create(run, 0x40); }),
      answers("event.interprocess_timed", "an event for other processes keeps no time",
              {invalid_value}, hdr, [](Run& run) { return create(run, abi::event_interprocess); }),
      answers("event.interprocess", "and without time is taken", {ok}, hdr,
              [](Run& run) {
                return create(run, abi::event_interprocess | abi::event_disable_timing);
              }),
      answers("event.blocking_sync", "a wait may sleep", {ok}, hdr,
              [](Run& run) { return create(run, abi::event_blocking_sync); }),
      answers("event.elapsed_unrecorded", "no time without a record", {invalid_handle}, hdr,
              [](Run& run) { return elapsed_between(run, timed, false); }),
      answers("event.elapsed_untimed", "nor without timing", {invalid_handle}, hdr,
              [](Run& run) { return elapsed_between(run, abi::event_disable_timing, true); }),
      answers("event.wait_null", "no event is nothing to wait for", {invalid_handle}, hip,
              [](Run& run) { return run.cu.cuStreamWaitEvent(run.stream(), nullptr, 0); }),
      answers("event.wait_flags", "unknown flags of a wait are refused", {invalid_value}, hdr,
              [](Run& run) { return run.cu.cuStreamWaitEvent(run.stream(), run.event(), 0x40); }),
      answers("event.record_null", "no event cannot be recorded", {invalid_handle}, hip,
              [](Run& run) { return run.cu.cuEventRecord(nullptr, run.stream()); }),
      answers("event.other_context", "an event is recorded in streams of its own context",
              {invalid_handle}, hdr, other_contexts_stream, having(cuda::Feature::tests)),
      answers(
          "event.dead_query", "a destroyed event cannot be asked", codes, hip,
          [](Run& run) {
            return dead(run, [](Run& r, abi::Event e) { return r.cu.cuEventQuery(e); });
          },
          undefined),
      answers(
          "event.dead_record", "nor recorded", codes, hip,
          [](Run& run) {
            return dead(run, [](Run& r, abi::Event e) { return r.cu.cuEventRecord(e, nullptr); });
          },
          undefined),
      answers(
          "event.dead_destroy", "nor destroyed again", codes, hip,
          [](Run& run) {
            return dead(run, [](Run& r, abi::Event e) { return r.cu.cuEventDestroy_v2(e); });
          },
          undefined),
      answers(
          "event.null_out", "cuEventCreate needs somewhere to write", {invalid_value}, hdr,
          [](Run& run) { return run.cu.cuEventCreate(nullptr, 0); }, null_out_pointer()),
  };
}

}  // namespace

Tests event_tests() {
  const Needs gates = having(cuda::Feature::tests);
  Tests tests = {
      {"event.never_recorded",
       "an event that was never recorded holds up nobody",
       {},
       {succeeds("query", hdr), succeeds("synchronise", hdr),
        succeeds("a stream that waits for it", hdr), succeeds("is not held up", hdr)},
       never_recorded},
      {"event.pending",
       "an event is ready when the work before it is",
       gates,
       {succeeds("cuEventRecord", hdr), code("query behind a closed gate", {not_ready}, hdr),
        succeeds("synchronise", hdr), succeeds("query after the wait", hdr)},
       pending},
      {"event.orders_streams",
       "a wait orders one stream after another",
       gates,
       {succeeds("cuStreamWaitEvent", hdr), code("the second stream waits", {not_ready}, hdr),
        holds("and has done nothing", hdr), holds("then it reads what the first wrote", hdr)},
       orders_streams},
      {"event.wait_is_for_the_last_record",
       "a wait is for the record before it",
       gates,
       {succeeds("a later record does not hold up an earlier wait", hdr)},
       wait_takes_the_record_at_the_call},
      {"event.recorded_again",
       "a second record takes the first one's place",
       gates,
       {code("query after the second record", {not_ready}, hdr), succeeds("synchronise", hdr)},
       recorded_again},
      {"event.elapsed",
       "two recorded events have a time between them",
       {},
       {succeeds("cuEventElapsedTime", hdr), holds("it is a time, and not negative", hdr)},
       elapsed},
      {"event.elapsed_unfinished",
       "which is not ready before they are",
       gates,
       {code("cuEventElapsedTime", {not_ready}, hdr)},
       elapsed_unfinished},
      {"event.destroyed_while_pending",
       "an event may be destroyed before it is reached",
       gates,
       {succeeds("cuEventDestroy", hdr), succeeds("its stream synchronises", hdr)},
       destroyed_while_pending},
  };
  for (Test& test : refusals()) tests.push_back(std::move(test));
  return tests;
}

}  // namespace assay::conformance
