// Host functions: cuLaunchHostFunc.
#include <atomic>
#include <cstring>

#include "contract/groups.hpp"
#include "suite/run.hpp"

namespace assay::conformance {
namespace {

using enum Source;

constexpr std::size_t size = 4096;

std::atomic<int> calls{0};
std::atomic<Status> inner{Status::unknown};
std::byte* seen_at = nullptr;
std::atomic<unsigned> seen_byte{0};
const abi::DriverTable* table = nullptr;

void called(Run& run) {
  const abi::Stream stream = run.stream();
  static int argument = 0;
  run.code("cuLaunchHostFunc",
           run.cu.cuLaunchHostFunc(
               stream, [](void* user) { *static_cast<int*>(user) = 42; }, &argument));
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.value("what it stored", argument);
}

void in_order(Run& run) {
  const abi::Stream stream = run.stream();
  seen_at = run.pinned(size);
  std::memset(seen_at, 0x11, size);
  const DevicePointer address = run.device(size);
  run.fill(address, 0x22, size);
  run.must(run.cu.cuMemcpyDtoHAsync_v2(seen_at, address, size, stream), "cuMemcpyDtoHAsync");
  run.must(
      run.cu.cuLaunchHostFunc(
          stream, [](void*) { seen_byte = std::to_integer<unsigned>(seen_at[size - 1]); }, nullptr),
      "cuLaunchHostFunc");
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.value("it sees the work before it", seen_byte.load());
}

void waits_for_its_turn(Run& run) {
  const abi::Stream stream = run.stream();
  calls = 0;
  Gate gate(run, stream);
  run.must(run.cu.cuLaunchHostFunc(stream, [](void*) { ++calls; }, nullptr), "cuLaunchHostFunc");
  run.code("cuStreamQuery", run.cu.cuStreamQuery(stream));
  run.value("calls behind a closed gate", calls.load());
  gate.open();
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.value("calls after the wait", calls.load());
}

void holds_up_its_stream(Run& run) {
  static std::atomic<bool> go{false};
  const abi::Stream stream = run.stream();
  const abi::Stream other = run.stream();
  run.must(run.cu.cuLaunchHostFunc(
               stream,
               [](void*) {
                 while (!go) {
                 }
               },
               nullptr),
           "cuLaunchHostFunc");
  const Status busy = run.cu.cuStreamQuery(stream);
  const Status free = run.cu.cuStreamSynchronize(other);
  go = true;
  run.code("its stream while it runs", busy);
  run.code("another stream meanwhile", free);
  run.code("its stream afterwards", run.cu.cuStreamSynchronize(stream));
}

void calls_the_driver(Run& run) {
  const abi::Stream stream = run.stream();
  table = &run.cu;
  run.must(run.cu.cuLaunchHostFunc(
               stream,
               [](void*) {
                 DevicePointer address = 0;
                 inner = table->cuMemAlloc_v2(&address, size);
               },
               nullptr),
           "cuLaunchHostFunc");
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.code("cuMemAlloc within it", inner.load());
}

}  // namespace

Tests host_function_tests() {
  const Needs gates = having(cuda::Feature::tests);
  return {
      {"host_function.called",
       "the function is called with its argument",
       {},
       {succeeds("cuLaunchHostFunc", hdr), value("what it stored", {42}, hdr)},
       called},
      {"host_function.in_order",
       "after the work before it",
       {},
       {value("it sees the work before it", {0x22}, hdr)},
       in_order},
      {"host_function.waits_for_its_turn",
       "and not earlier",
       gates,
       {code("cuStreamQuery", {not_ready}, hdr), value("calls behind a closed gate", {0}, hdr),
        value("calls after the wait", {1}, hdr)},
       waits_for_its_turn},
      {"host_function.holds_up_its_stream",
       "while it runs its stream waits, and others do not",
       {},
       {code("its stream while it runs", {not_ready}, hdr),
        succeeds("another stream meanwhile", hdr), succeeds("its stream afterwards", hdr)},
       holds_up_its_stream},
      {"host_function.calls_the_driver",
       "it must not call the driver",
       {},
       {code("cuMemAlloc within it", {not_permitted}, hdr)},
       calls_the_driver},
      answers("host_function.null", "no function cannot be called", {invalid_value}, hdr,
              [](Run& run) { return run.cu.cuLaunchHostFunc(run.stream(), nullptr, nullptr); }),
      answers(
          "host_function.dead_stream", "a destroyed stream calls nobody",
          {invalid_handle, context_is_destroyed}, hip,
          [](Run& run) {
            const abi::Stream stream = run.stream();
            run.must(run.cu.cuStreamDestroy_v2(stream), "cuStreamDestroy");
            return run.cu.cuLaunchHostFunc(stream, [](void*) {}, nullptr);
          },
          model_only("the use of a dead handle is undefined")),
  };
}

}  // namespace assay::conformance
