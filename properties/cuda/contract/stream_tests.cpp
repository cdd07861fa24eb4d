// Streams: order, waiting, the legacy default stream, handles.
#include <cstring>

#include "contract/groups.hpp"
#include "suite/run.hpp"

namespace assay::conformance {
namespace {

using enum Source;

constexpr std::size_t size = 4096;

/// The model answers a first query with "not ready" whatever there is; the second is the honest
/// one.
Status asked_twice(Run& run, abi::Stream stream) {
  (void)run.cu.cuStreamQuery(stream);
  return run.cu.cuStreamQuery(stream);
}

void life(Run& run) {
  abi::Stream stream = nullptr;
  run.code("cuStreamCreate", run.cu.cuStreamCreate(&stream, abi::stream_non_blocking));
  run.holds("a stream is given", stream != nullptr);
  run.code("query of an idle stream", run.cu.cuStreamQuery(stream));
  run.code("synchronise", run.cu.cuStreamSynchronize(stream));
  abi::Context context = nullptr;
  run.code("cuStreamGetCtx", run.cu.cuStreamGetCtx(stream, &context));
  run.holds("its context is the one it was made in", context == run.context);
  run.code("cuStreamDestroy", run.cu.cuStreamDestroy_v2(stream));
}

void query_pending(Run& run) {
  const abi::Stream stream = run.stream();
  Gate gate(run, stream);
  run.code("behind a closed gate", asked_twice(run, stream));
  gate.open();
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.code("after the wait", run.cu.cuStreamQuery(stream));
}

void in_order(Run& run) {
  const abi::Stream stream = run.stream();
  std::byte* const back = run.pinned(size);
  const DevicePointer address = run.device(size);
  for (const char byte : {'\x11', '\x22', '\x33'}) {
    run.must(run.cu.cuMemsetD8Async(address, static_cast<unsigned char>(byte), size, stream),
             "cuMemsetD8Async");
  }
  run.must(run.cu.cuMemcpyDtoHAsync_v2(back, address, size, stream), "cuMemcpyDtoHAsync");
  run.must(run.cu.cuMemsetD8Async(address, 0x44, size, stream), "cuMemsetD8Async");
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.holds("the copy came between the sets", back[0] == std::byte{0x33});
  run.holds("the last set came last", run.filled(address, 0x44, size));
}

void independent(Run& run) {
  const abi::Stream blocked = run.stream();
  const abi::Stream free = run.stream();
  const DevicePointer address = run.device(size);
  Gate gate(run, blocked);
  run.must(run.cu.cuMemsetD8Async(address, 0x11, size, free), "cuMemsetD8Async");
  run.code("the other stream synchronises", run.cu.cuStreamSynchronize(free));
  run.code("the gated one is still busy", asked_twice(run, blocked));
}

void destroyed_with_work(Run& run) {
  const abi::Stream stream = run.stream();
  std::byte* const target = run.pinned(size);
  const DevicePointer address = run.device(size);
  run.fill(address, 0x33, size);
  std::memset(target, 0x11, size);
  Gate gate(run, stream);
  run.must(run.cu.cuMemcpyDtoHAsync_v2(target, address, size, stream), "cuMemcpyDtoHAsync");
  run.code("cuStreamDestroy", run.cu.cuStreamDestroy_v2(stream));
  run.holds("it returned before the work was done", target[0] == std::byte{0x11});
  gate.open();
  run.wait();
  run.holds("the work was done", target[size - 1] == std::byte{0x33});
}

void first_query(Run& run) {
  const abi::Stream stream = run.stream();
  run.must(run.cu.cuMemsetD8Async(run.device(size), 0x11, size, stream), "cuMemsetD8Async");
  run.code("the first query", run.cu.cuStreamQuery(stream));
  run.code("the second", run.cu.cuStreamQuery(stream));
}

void default_waits_for_blocking(Run& run) {
  const abi::Stream blocking = run.stream(0);
  const DevicePointer address = run.device(size);
  Gate gate(run, blocking);
  run.must(run.cu.cuMemsetD8Async(address, 0x11, size, nullptr), "cuMemsetD8Async");
  run.code("the default stream behind a blocking one", asked_twice(run, nullptr));
  gate.open();
  run.code("it synchronises once that is done", run.cu.cuStreamSynchronize(nullptr));
}

void default_ignores_non_blocking(Run& run) {
  const abi::Stream other = run.stream();
  const DevicePointer address = run.device(size);
  Gate gate(run, other);
  run.must(run.cu.cuMemsetD8Async(address, 0x11, size, nullptr), "cuMemsetD8Async");
  run.code("the default stream beside a non-blocking one", run.cu.cuStreamSynchronize(nullptr));
  run.code("the non-blocking one is still busy", asked_twice(run, other));
}

void blocking_waits_for_default(Run& run) {
  const abi::Stream blocking = run.stream(0);
  const DevicePointer address = run.device(size);
  Gate gate(run, nullptr);
  run.must(run.cu.cuMemsetD8Async(address, 0x11, size, blocking), "cuMemsetD8Async");
  run.code("a blocking stream behind the default one", asked_twice(run, blocking));
  gate.open();
  run.code("it synchronises once that is done", run.cu.cuStreamSynchronize(blocking));
}

void context_waits_for_all(Run& run) {
  const abi::Stream stream = run.stream();
  std::byte* const target = run.pinned(size);
  const DevicePointer address = run.device(size);
  run.fill(address, 0x33, size);
  std::memset(target, 0, size);
  run.must(run.cu.cuMemcpyDtoHAsync_v2(target, address, size, stream), "cuMemcpyDtoHAsync");
  run.code("cuCtxSynchronize", run.cu.cuCtxSynchronize());
  run.holds("the work of every stream was done", target[0] == std::byte{0x33});
}

Status dead(Run& run, Status (*use)(Run&, abi::Stream)) {
  const abi::Stream stream = run.stream();
  run.must(run.cu.cuStreamDestroy_v2(stream), "cuStreamDestroy");
  return use(run, stream);
}

Tests handles() {
  const Needs undefined = model_only("the use of a dead handle is undefined");
  const std::vector<std::int64_t> codes = {invalid_handle, context_is_destroyed};
  return {
      answers(
          "stream.dead_query", "a destroyed stream cannot be asked", codes, hip,
          [](Run& run) {
            return dead(run, [](Run& r, abi::Stream s) { return r.cu.cuStreamQuery(s); });
          },
          undefined),
      answers(
          "stream.dead_synchronize", "nor waited for", codes, hip,
          [](Run& run) {
            return dead(run, [](Run& r, abi::Stream s) { return r.cu.cuStreamSynchronize(s); });
          },
          undefined),
      answers(
          "stream.dead_destroy", "nor destroyed again", codes, hip,
          [](Run& run) {
            return dead(run, [](Run& r, abi::Stream s) { return r.cu.cuStreamDestroy_v2(s); });
          },
          undefined),
      answers(
          "stream.never_valid", "a handle that was never given is refused",
          {invalid_handle, context_is_destroyed}, hip,
          [](Run& run) {
            static std::byte nobody[256];
            return run.cu.cuStreamQuery(reinterpret_cast<abi::Stream>(nobody));
          },
          model_only("a driver may follow a handle that it never gave")),
      answers("stream.destroy_null", "the default stream cannot be destroyed",
              {invalid_handle, invalid_value}, unsure,
              [](Run& run) { return run.cu.cuStreamDestroy_v2(nullptr); }),
  };
}

}  // namespace

Tests stream_tests() {
  const Needs gates = having(cuda::Feature::tests);
  Tests tests = {
      {"stream.life",
       "a stream is made, idle, and destroyed",
       {},
       {succeeds("cuStreamCreate", hdr), holds("a stream is given", hdr),
        succeeds("query of an idle stream", hdr), succeeds("synchronise", hdr),
        succeeds("cuStreamGetCtx", hdr), holds("its context is the one it was made in", hdr),
        succeeds("cuStreamDestroy", hdr)},
       life},
      answers("stream.blocking", "flags 0 make a blocking stream", {ok}, hdr,
              [](Run& run) {
                abi::Stream stream = nullptr;
                return run.cu.cuStreamCreate(&stream, 0);
              }),
      answers("stream.flags_unknown", "unknown flags are refused", {invalid_value}, hdr,
              [](Run& run) {
                abi::Stream stream = nullptr;
                return run.cu.cuStreamCreate(&stream, 0x40);
              }),
      answers("stream.priority", "a priority out of range is clamped, not refused", {ok}, hdr,
              [](Run& run) {
                abi::Stream stream = nullptr;
                return run.cu.cuStreamCreateWithPriority(&stream, abi::stream_non_blocking, -1000);
              }),
      answers("stream.priority_flags_unknown", "its flags are checked", {invalid_value}, hdr,
              [](Run& run) {
                abi::Stream stream = nullptr;
                return run.cu.cuStreamCreateWithPriority(&stream, 0x40, 0);
              }),
      answers(
          "stream.null_out", "cuStreamCreate needs somewhere to write", {invalid_value}, hdr,
          [](Run& run) { return run.cu.cuStreamCreate(nullptr, abi::stream_non_blocking); },
          null_out_pointer()),
      {"stream.query",
       "pending work is not ready, which is no error",
       gates,
       {code("behind a closed gate", {not_ready}, hdr), succeeds("after the wait", hdr)},
       query_pending},
      {"stream.first_query",
       "the model answers a first query as if the work took time",
       model_only("a driver's work may be done at once"),
       {code("the first query", {not_ready}, model), succeeds("the second", hdr)},
       first_query},
      {"stream.in_order",
       "work of one stream is done in its order",
       {},
       {holds("the copy came between the sets", hdr), holds("the last set came last", hdr)},
       in_order},
      {"stream.independent",
       "streams do not wait for each other",
       gates,
       {succeeds("the other stream synchronises", hdr),
        code("the gated one is still busy", {not_ready}, hdr)},
       independent},
      {"stream.destroyed_with_work",
       "a destroyed stream's work is finished without it",
       gates,
       {succeeds("cuStreamDestroy", hdr), holds("it returned before the work was done", hdr),
        holds("the work was done", hdr)},
       destroyed_with_work},
      {"stream.default_waits_for_blocking",
       "the default stream waits for blocking streams",
       gates,
       {code("the default stream behind a blocking one", {not_ready}, doc),
        succeeds("it synchronises once that is done", doc)},
       default_waits_for_blocking},
      {"stream.blocking_waits_for_default",
       "and they for it",
       gates,
       {code("a blocking stream behind the default one", {not_ready}, doc),
        succeeds("it synchronises once that is done", doc)},
       blocking_waits_for_default},
      {"stream.default_ignores_non_blocking",
       "but not for non-blocking ones",
       gates,
       {succeeds("the default stream beside a non-blocking one", doc),
        code("the non-blocking one is still busy", {not_ready}, doc)},
       default_ignores_non_blocking},
      {"stream.context_waits_for_all",
       "cuCtxSynchronize waits for every stream",
       {},
       {succeeds("cuCtxSynchronize", hdr), holds("the work of every stream was done", hdr)},
       context_waits_for_all},
  };
  for (Test& test : handles()) tests.push_back(std::move(test));
  return tests;
}

}  // namespace assay::conformance
