// Contexts: retained, current, lost, created.
#include "contract/groups.hpp"
#include "suite/run.hpp"

namespace assay::conformance {
namespace {

using enum Source;

abi::Context current(Run& run) {
  abi::Context context = nullptr;
  run.must(run.cu.cuCtxGetCurrent(&context), "cuCtxGetCurrent");
  return context;
}

abi::Context retained(Run& run) {
  abi::Context context = nullptr;
  run.must(run.cu.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
  return context;
}

int active(Run& run) {
  unsigned flags = 0;
  int state = -1;
  run.must(run.cu.cuDevicePrimaryCtxGetState(0, &flags, &state), "cuDevicePrimaryCtxGetState");
  return state;
}

Status allocate(Run& run) {
  DevicePointer address = 0;
  return run.cu.cuMemAlloc_v2(&address, 4096);
}

void retain(Run& run) {
  run.value("active before", active(run));
  abi::Context first = nullptr;
  run.code("cuDevicePrimaryCtxRetain", run.cu.cuDevicePrimaryCtxRetain(&first, 0));
  run.holds("a context is given", first != nullptr);
  run.holds("it is not made current", current(run) == nullptr);
  run.value("active after", active(run));
  run.holds("a second retain gives the same", retained(run) == first);
}

void release(Run& run) {
  (void)retained(run);
  (void)retained(run);
  run.code("first release", run.cu.cuDevicePrimaryCtxRelease_v2(0));
  run.value("active between", active(run));
  run.code("last release", run.cu.cuDevicePrimaryCtxRelease_v2(0));
  run.value("active after", active(run));
  run.code("one release more", run.cu.cuDevicePrimaryCtxRelease_v2(0));
}

void push_and_pop(Run& run) {
  const abi::Context context = retained(run);
  run.code("push", run.cu.cuCtxPushCurrent_v2(context));
  run.holds("it is current", current(run) == context);
  abi::Context popped = nullptr;
  run.code("pop", run.cu.cuCtxPopCurrent_v2(&popped));
  run.holds("the pop gives it back", popped == context);
  run.holds("none is current", current(run) == nullptr);
}

Status pop_empty(Run& run) {
  abi::Context popped = nullptr;
  return run.cu.cuCtxPopCurrent_v2(&popped);
}

void set_null(Run& run) {
  const abi::Context context = retained(run);
  run.must(run.cu.cuCtxPushCurrent_v2(context), "push");
  run.must(run.cu.cuCtxPushCurrent_v2(context), "push again");
  run.code("set null", run.cu.cuCtxSetCurrent(nullptr));
  run.holds("the one below is current", current(run) == context);
  run.code("set null again", run.cu.cuCtxSetCurrent(nullptr));
  run.holds("none is current", current(run) == nullptr);
  run.code("set null on an empty stack", run.cu.cuCtxSetCurrent(nullptr));
}

void set_replaces(Run& run) {
  const abi::Context other = run.other_context();
  run.code("set", run.cu.cuCtxSetCurrent(run.context));
  run.holds("it is current", current(run) == run.context);
  abi::Context popped = nullptr;
  run.must(run.cu.cuCtxPopCurrent_v2(&popped), "pop");
  run.holds("it replaced the top", popped == run.context && current(run) != other);
}

void per_thread(Run& run) {
  abi::Context there = run.context;
  Status status = Status::unknown;
  on_other_thread([&] {
    there = current(run);
    status = allocate(run);
  });
  run.holds("none is current on another thread", there == nullptr);
  run.code("cuMemAlloc there", status);
  on_other_thread([&] {
    status = run.cu.cuCtxPushCurrent_v2(run.context);
    if (status == Status::success) status = allocate(run);
  });
  run.code("cuMemAlloc there under the context", status);
}

void device_of(Run& run) {
  abi::Device device = -7;
  run.code("cuCtxGetDevice", run.cu.cuCtxGetDevice(&device));
  run.value("device", device);
}

void ids(Run& run) {
  unsigned long long first = 0;
  run.code("cuCtxGetId", run.cu.cuCtxGetId(run.context, &first));
  unsigned long long of_current = 0;
  run.code("cuCtxGetId of the current one", run.cu.cuCtxGetId(nullptr, &of_current));
  run.holds("they are the same", first == of_current);
  const abi::Context other = run.other_context();
  unsigned long long second = 0;
  run.must(run.cu.cuCtxGetId(other, &second), "cuCtxGetId of another");
  run.holds("another context has another id", first != second);
}

void after_reset(Run& run) {
  const DevicePointer address = run.device(4096);
  run.code("reset", run.cu.cuDevicePrimaryCtxReset_v2(0));
  run.code("cuMemAlloc", allocate(run));
  run.code("cuMemFree of what it held", run.cu.cuMemFree_v2(address));
}

void after_release(Run& run) {
  run.must(run.cu.cuDevicePrimaryCtxRelease_v2(0), "last release");
  run.code("cuMemAlloc", allocate(run));
}

void reborn(Run& run) {
  unsigned long long first = 0;
  run.must(run.cu.cuCtxGetId(run.context, &first), "cuCtxGetId");
  const DevicePointer address = run.device(4096);
  run.must(run.cu.cuDevicePrimaryCtxRelease_v2(0), "last release");
  abi::Context again = nullptr;
  run.code("retain again", run.cu.cuDevicePrimaryCtxRetain(&again, 0));
  run.must(run.cu.cuCtxSetCurrent(again), "cuCtxSetCurrent");
  run.note(again == run.context ? "the handle value is the same" : "the handle value is new");
  unsigned long long second = 0;
  run.must(run.cu.cuCtxGetId(again, &second), "cuCtxGetId of the new one");
  run.holds("its id is new", first != second);
  run.code("cuMemAlloc", allocate(run));
  run.code("cuMemFree of the old one's memory", run.cu.cuMemFree_v2(address));
}

void reborn_handle(Run& run) {
  run.must(run.cu.cuDevicePrimaryCtxRelease_v2(0), "last release");
  run.holds("the handle value is the same", retained(run) == run.context);
}

void created(Run& run) {
  abi::Context context = nullptr;
  run.code("create", run.cu.cuCtxCreate_v2(&context, 0, 0));
  run.holds("it is current at once", context != nullptr && current(run) == context);
  const DevicePointer address = run.device(4096);
  run.code("destroy", run.cu.cuCtxDestroy_v2(context));
  run.must(run.cu.cuCtxSetCurrent(run.context), "cuCtxSetCurrent");
  DevicePointer base = 0;
  run.code("cuMemGetAddressRange of what it held",
           run.cu.cuMemGetAddressRange_v2(&base, nullptr, address));
}

void destroyed_pops(Run& run) {
  const abi::Context context = run.other_context();
  run.must(run.cu.cuCtxDestroy_v2(context), "destroy");
  run.holds("the context below is current", current(run) == run.context);
}

void flags(Run& run) {
  constexpr unsigned blocking_sync = 4;
  run.code("cuDevicePrimaryCtxSetFlags", run.cu.cuDevicePrimaryCtxSetFlags_v2(0, blocking_sync));
  unsigned seen = 0;
  int state = -1;
  run.must(run.cu.cuDevicePrimaryCtxGetState(0, &seen, &state), "cuDevicePrimaryCtxGetState");
  run.holds("they are read back", (seen & 7u) == blocking_sync);
}

Test none_current(const char* id, const char* states, Call call) {
  return answers(id, states, {invalid_context}, hdr, call, from(Start::initialised));
}

Tests without_current() {
  return {
      none_current("context.none_alloc", "without a current context: cuMemAlloc", allocate),
      none_current("context.none_get_info", "without a current context: cuMemGetInfo",
                   [](Run& run) {
                     std::size_t free = 0;
                     std::size_t total = 0;
                     return run.cu.cuMemGetInfo_v2(&free, &total);
                   }),
      none_current("context.none_managed", "without a current context: cuMemAllocManaged",
                   [](Run& run) {
                     DevicePointer address = 0;
                     return run.cu.cuMemAllocManaged(&address, 4096, abi::mem_attach_global);
                   }),
      none_current("context.none_pinned", "without a current context: cuMemHostAlloc",
                   [](Run& run) {
                     void* address = nullptr;
                     return run.cu.cuMemHostAlloc(&address, 4096, 0);
                   }),
      none_current(
          "context.none_register", "without a current context: cuMemHostRegister",
          [](Run& run) { return run.cu.cuMemHostRegister_v2(run.pageable(page), page, 0); }),
      none_current("context.none_stream", "without a current context: cuStreamCreate",
                   [](Run& run) {
                     abi::Stream stream = nullptr;
                     return run.cu.cuStreamCreate(&stream, abi::stream_non_blocking);
                   }),
      none_current("context.none_event", "without a current context: cuEventCreate",
                   [](Run& run) {
                     abi::Event event = nullptr;
                     return run.cu.cuEventCreate(&event, 0);
                   }),
      none_current("context.none_synchronize", "without a current context: cuCtxSynchronize",
                   [](Run& run) { return run.cu.cuCtxSynchronize(); }),
      none_current("context.none_device", "without a current context: cuCtxGetDevice",
                   [](Run& run) {
                     abi::Device device = 0;
                     return run.cu.cuCtxGetDevice(&device);
                   }),
      none_current("context.none_pop", "cuCtxPopCurrent on an empty stack", pop_empty),
      none_current("context.none_release", "a release without a retain",
                   [](Run& run) { return run.cu.cuDevicePrimaryCtxRelease_v2(0); }),
  };
}

Tests created_ones() {
  const Needs own = having(cuda::Feature::tests);
  return {
      {"context.created",
       "a created context is current at once, and destroying it frees what it holds",
       own,
       {succeeds("create", hdr), holds("it is current at once", hdr), succeeds("destroy", hdr),
        code("cuMemGetAddressRange of what it held", {invalid_value, not_found}, hdr)},
       created},
      {"context.destroyed_pops",
       "a current context that is destroyed is popped",
       own,
       {holds("the context below is current", hdr)},
       destroyed_pops},
      answers(
          "context.destroyed_again", "a destroyed context cannot be destroyed",
          {invalid_value, invalid_context, context_is_destroyed}, unsure,
          [](Run& run) {
            const abi::Context context = run.other_context();
            run.must(run.cu.cuCtxDestroy_v2(context), "destroy");
            return run.cu.cuCtxDestroy_v2(context);
          },
          own + model_only("the use of a dead context is undefined")),
      answers(
          "context.destroy_null", "no context cannot be destroyed",
          {invalid_value, invalid_context}, hdr,
          [](Run& run) { return run.cu.cuCtxDestroy_v2(nullptr); }, own),
      answers(
          "context.destroy_primary", "a primary context is not destroyed but released",
          {invalid_value, invalid_context}, unsure,
          [](Run& run) { return run.cu.cuCtxDestroy_v2(run.context); }, own),
      answers(
          "context.create_bad_device", "a context on a device that is not there", {invalid_device},
          hdr,
          [](Run& run) {
            int count = 0;
            run.must(run.cu.cuDeviceGetCount(&count), "cuDeviceGetCount");
            abi::Context context = nullptr;
            return run.cu.cuCtxCreate_v2(&context, 0, count);
          },
          from(Start::initialised) + own),
      {"context.set_replaces",
       "cuCtxSetCurrent replaces the top of the stack",
       own,
       {succeeds("set", hdr), holds("it is current", hdr), holds("it replaced the top", hdr)},
       set_replaces},
  };
}

Tests lost_ones() {
  return {
      {"context.reset",
       "a context that was reset under its thread is gone",
       having(cuda::Feature::tests),
       {succeeds("reset", hdr), code("cuMemAlloc", {context_is_destroyed}, lup),
        code("cuMemFree of what it held", {context_is_destroyed, invalid_value}, lup)},
       after_reset},
      {"context.released",
       "a context whose last retain was released under its thread is gone",
       {},
       {code("cuMemAlloc", {context_is_destroyed}, lup)},
       after_release},
      {"context.reborn",
       "a context retained after the last release is another one, whatever its handle",
       having(cuda::Feature::context_id),
       {succeeds("retain again", hdr), holds("its id is new", lup), succeeds("cuMemAlloc", lup),
        code("cuMemFree of the old one's memory", {invalid_value}, hdr)},
       reborn},
      {"context.reborn_handle",
       "the model gives a reborn context the old handle value, on purpose",
       model_only("a driver may do either"),
       {holds("the handle value is the same", model)},
       reborn_handle},
  };
}

}  // namespace

Tests context_tests() {
  const Needs early = from(Start::initialised);
  Tests tests = {
      {"context.retain",
       "a retain creates the context and does not make it current",
       early,
       {value("active before", {0}, hdr), succeeds("cuDevicePrimaryCtxRetain", hdr),
        holds("a context is given", hdr), holds("it is not made current", hdr),
        value("active after", {1}, hdr), holds("a second retain gives the same", hdr)},
       retain},
      {"context.release",
       "retains are counted; the last release ends the context",
       early,
       {succeeds("first release", hdr), value("active between", {1}, hdr),
        succeeds("last release", hdr), value("active after", {0}, hdr),
        code("one release more", {invalid_context}, hdr)},
       release},
      {"context.push_and_pop",
       "push makes current, pop gives back and restores",
       early,
       {succeeds("push", hdr), holds("it is current", hdr), succeeds("pop", hdr),
        holds("the pop gives it back", hdr), holds("none is current", hdr)},
       push_and_pop},
      {"context.set_null",
       "cuCtxSetCurrent of null pops the top, and does nothing on an empty stack",
       early,
       {succeeds("set null", hdr), holds("the one below is current", hdr),
        succeeds("set null again", hdr), holds("none is current", hdr),
        succeeds("set null on an empty stack", hdr)},
       set_null},
      answers(
          "context.push_null", "null cannot be pushed", {invalid_value, invalid_context}, unsure,
          [](Run& run) { return run.cu.cuCtxPushCurrent_v2(nullptr); }, early),
      {"context.per_thread",
       "a context is current on one thread only, and may be current on several",
       {},
       {holds("none is current on another thread", hdr),
        code("cuMemAlloc there", {invalid_context}, hdr),
        succeeds("cuMemAlloc there under the context", hdr)},
       per_thread},
      {"context.device",
       "a context knows its device",
       {},
       {succeeds("cuCtxGetDevice", hdr), value("device", {0}, hdr)},
       device_of},
      answers("context.synchronize", "an idle context synchronises", {ok}, hdr,
              [](Run& run) { return run.cu.cuCtxSynchronize(); }),
      {"context.ids",
       "contexts have ids",
       having(cuda::Feature::context_id) + having(cuda::Feature::tests),
       {succeeds("cuCtxGetId", hdr), succeeds("cuCtxGetId of the current one", hdr),
        holds("they are the same", hdr), holds("another context has another id", hdr)},
       ids},
      {"context.flags",
       "flags of a primary context are read back",
       early + having(cuda::Feature::tests),
       {succeeds("cuDevicePrimaryCtxSetFlags", hdr), holds("they are read back", hdr)},
       flags},
      answers(
          "context.flags_unknown", "unknown flags are refused", {invalid_value}, hdr,
          [](Run& run) { return run.cu.cuDevicePrimaryCtxSetFlags_v2(0, 0x40000000u); },
          early + having(cuda::Feature::tests)),
      answers(
          "context.stack_full", "the model's stack of contexts has an end", {out_of_memory}, model,
          [](Run& run) {
            Status status = Status::success;
            for (int i = 0; i < 1000 && status == Status::success; ++i) {
              status = run.cu.cuCtxPushCurrent_v2(run.context);
            }
            return status;
          },
          model_only("nobody says how many contexts a stack holds")),
      answers(
          "context.null_get_current", "cuCtxGetCurrent needs somewhere to write", {invalid_value},
          hdr, [](Run& run) { return run.cu.cuCtxGetCurrent(nullptr); }, null_out_pointer()),
  };
  for (Test& test : without_current()) tests.push_back(std::move(test));
  for (Test& test : created_ones()) tests.push_back(std::move(test));
  for (Test& test : lost_ones()) tests.push_back(std::move(test));
  return tests;
}

}  // namespace assay::conformance
