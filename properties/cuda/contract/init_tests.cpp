// The driver before, at and after its life in a process: cuInit, lookup by name, errors, fork,
// exit.
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contract/groups.hpp"
#include "suite/observation.hpp"
#include "suite/run.hpp"

namespace assay::conformance {
namespace {

using enum Source;

Test too_early(const char* id, const char* states, Call call) {
  return answers(id, states, {not_initialized}, lup, call, from(Start::unloaded));
}

void usable_before(Run& run) {
  int version = 0;
  run.code("cuDriverGetVersion", run.cu.cuDriverGetVersion(&version));
  run.holds("the version is 11.0 or newer", version >= 11000);
  const char* name = nullptr;
  run.code("cuGetErrorName", run.cu.cuGetErrorName(Status::out_of_memory, &name));
  run.holds("the name is CUDA_ERROR_OUT_OF_MEMORY",
            name != nullptr && std::strcmp(name, "CUDA_ERROR_OUT_OF_MEMORY") == 0);
}

void untouched_before(Run& run) {
  int count = 77;
  run.code("cuDeviceGetCount", run.cu.cuDeviceGetCount(&count));
  run.holds("the count is untouched", count == 77);
  DevicePointer address = 77;
  run.code("cuMemAlloc", run.cu.cuMemAlloc_v2(&address, 4096));
  run.holds("the address is untouched", address == 77);
}

void error_names(Run& run) {
  constexpr std::pair<Status, const char*> names[] = {
      {Status::success, "CUDA_SUCCESS"},
      {Status::invalid_value, "CUDA_ERROR_INVALID_VALUE"},
      {Status::not_initialized, "CUDA_ERROR_NOT_INITIALIZED"},
      {Status::invalid_device, "CUDA_ERROR_INVALID_DEVICE"},
      {Status::invalid_context, "CUDA_ERROR_INVALID_CONTEXT"},
      {Status::invalid_handle, "CUDA_ERROR_INVALID_HANDLE"},
      {Status::not_ready, "CUDA_ERROR_NOT_READY"},
      {Status::context_is_destroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
      {Status::host_memory_already_registered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
      {Status::not_supported, "CUDA_ERROR_NOT_SUPPORTED"},
  };
  bool all = true;
  bool texts = true;
  for (const auto& [status, expected] : names) {
    const char* name = nullptr;
    run.must(run.cu.cuGetErrorName(status, &name), "cuGetErrorName");
    if (name == nullptr || std::strcmp(name, expected) != 0) {
      all = false;
      run.note(std::string("instead of ") + expected + ": " + (name != nullptr ? name : "null"));
    }
    const char* text = nullptr;
    run.must(run.cu.cuGetErrorString(status, &text), "cuGetErrorString");
    texts = texts && text != nullptr && *text != '\0';
  }
  run.holds("names are those of cuda.h", all);
  run.holds("each code has a text", texts);
}

void error_unknown(Run& run) {
  const char* name = "before";
  run.code("cuGetErrorName", run.cu.cuGetErrorName(static_cast<Status>(123456), &name));
  run.holds("the name is null", name == nullptr);
  const char* text = "before";
  run.code("cuGetErrorString", run.cu.cuGetErrorString(static_cast<Status>(123456), &text));
  run.holds("the text is null", text == nullptr);
}

using abi::ProcAddressResult;

struct Found {
  Status status;
  void* pointer;
  ProcAddressResult result;
};

Found ask(Run& run, const char* name, int version) {
  Found found{Status::unknown, &found, ProcAddressResult::success};
  found.status = run.cu.cuGetProcAddress_v2(name, &found.pointer, version,
                                            abi::proc_address_legacy_stream, &found.result);
  return found;
}

Needs second_lookup() {
  return from(Start::unloaded) + since(12000);
}

void lookup_known(Run& run) {
  const Found found = ask(run, "cuDriverGetVersion", 2020);
  run.code("cuGetProcAddress", found.status);
  run.value("symbol status", static_cast<std::int64_t>(found.result));
  run.holds("a pointer is given", found.pointer != nullptr);
  if (found.pointer == nullptr) return;
  int version = 0;
  const auto call = reinterpret_cast<Status (*)(int*)>(found.pointer);
  run.code("the function found", call(&version));
  run.holds("it is that function", version == run.session.version);
}

void lookup_unknown(Run& run) {
  const Found found = ask(run, "cuNoSuchFunction", 12000);
  run.code("cuGetProcAddress", found.status);
  run.value("symbol status", static_cast<std::int64_t>(found.result));
  run.holds("the pointer is null", found.pointer == nullptr);
}

void lookup_too_early(Run& run) {
  const Found found = ask(run, "cuLaunchHostFunc", 9000);
  run.code("cuGetProcAddress", found.status);
  run.value("symbol status", static_cast<std::int64_t>(found.result));
  run.holds("the pointer is null", found.pointer == nullptr);
}

void lookup_by_version(Run& run) {
  const Found older = ask(run, "cuMemAdvise", 8000);
  const Found newer = ask(run, "cuMemAdvise", 12020);
  run.code("cuGetProcAddress at 8.0", older.status);
  run.code("cuGetProcAddress at 12.2", newer.status);
  run.holds("they are two functions",
            older.pointer != nullptr && newer.pointer != nullptr && older.pointer != newer.pointer);
}

Status lookup_beyond_driver(Run& run) {
  return ask(run, "cuInit", run.session.version + 1000).status;
}

void first_lookup(Run& run) {
  if (run.cu.cuGetProcAddress == nullptr) run.skip("needs cuGetProcAddress of 11.3");
  void* pointer = nullptr;
  run.code("cuGetProcAddress",
           run.cu.cuGetProcAddress("cuMemAlloc", &pointer, 3020, abi::proc_address_legacy_stream));
  run.holds("a pointer is given", pointer != nullptr);
}

void first_lookup_unknown(Run& run) {
  if (run.cu.cuGetProcAddress == nullptr) run.skip("needs cuGetProcAddress of 11.3");
  void* pointer = &pointer;
  run.code("cuGetProcAddress", run.cu.cuGetProcAddress("cuNoSuchFunction", &pointer, 11030,
                                                       abi::proc_address_legacy_stream));
  run.holds("the pointer is null", pointer == nullptr);
}

/// What the call gives in a forked child; -1 if the child did not come back in time.
int in_forked_child(Status (*call)(Run&), Run& run) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::alarm(5);
    const auto status = static_cast<unsigned>(call(run));
    ::_exit(status < 250 ? static_cast<int>(status) : 251);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void after_fork(Run& run) {
  run.value("cuMemAlloc in the child", in_forked_child(
                                           [](Run& child) {
                                             DevicePointer address = 0;
                                             return child.cu.cuMemAlloc_v2(&address, 4096);
                                           },
                                           run));
  run.value("cuDeviceGetCount in the child", in_forked_child(
                                                 [](Run& child) {
                                                   int count = 0;
                                                   return child.cu.cuDeviceGetCount(&count);
                                                 },
                                                 run));
  DevicePointer address = 0;
  run.code("cuMemAlloc in the parent, afterwards", run.cu.cuMemAlloc_v2(&address, 4096));
}

abi::DriverTable at_end;

void at_exit(Run& run) {
  at_end = run.cu;
  at_process_end([] {
    DevicePointer address = 0;
    say({Expectation::Kind::code, "cuMemAlloc at the end of the process",
         static_cast<std::int64_t>(at_end.cuMemAlloc_v2(&address, 4096))});
  });
}

Tests before_init() {
  return {
      too_early("init.early_device_get", "before cuInit: cuDeviceGet",
                [](Run& run) {
                  abi::Device device = 0;
                  return run.cu.cuDeviceGet(&device, 0);
                }),
      too_early("init.early_attribute", "before cuInit: cuDeviceGetAttribute",
                [](Run& run) {
                  int value = 0;
                  return run.cu.cuDeviceGetAttribute(&value, DeviceAttribute::managed_memory, 0);
                }),
      too_early("init.early_retain", "before cuInit: cuDevicePrimaryCtxRetain",
                [](Run& run) {
                  abi::Context context = nullptr;
                  return run.cu.cuDevicePrimaryCtxRetain(&context, 0);
                }),
      too_early("init.early_get_current", "before cuInit: cuCtxGetCurrent",
                [](Run& run) {
                  abi::Context context = nullptr;
                  return run.cu.cuCtxGetCurrent(&context);
                }),
      too_early("init.early_pop_current", "before cuInit: cuCtxPopCurrent",
                [](Run& run) {
                  abi::Context context = nullptr;
                  return run.cu.cuCtxPopCurrent_v2(&context);
                }),
      too_early("init.early_get_info", "before cuInit: cuMemGetInfo",
                [](Run& run) {
                  std::size_t free = 0;
                  std::size_t total = 0;
                  return run.cu.cuMemGetInfo_v2(&free, &total);
                }),
      too_early("init.early_managed", "before cuInit: cuMemAllocManaged",
                [](Run& run) {
                  DevicePointer address = 0;
                  return run.cu.cuMemAllocManaged(&address, 4096, abi::mem_attach_global);
                }),
      too_early("init.early_pinned", "before cuInit: cuMemHostAlloc",
                [](Run& run) {
                  void* address = nullptr;
                  return run.cu.cuMemHostAlloc(&address, 4096, 0);
                }),
      too_early("init.early_stream", "before cuInit: cuStreamCreate",
                [](Run& run) {
                  abi::Stream stream = nullptr;
                  return run.cu.cuStreamCreate(&stream, abi::stream_non_blocking);
                }),
      too_early("init.early_event", "before cuInit: cuEventCreate",
                [](Run& run) {
                  abi::Event event = nullptr;
                  return run.cu.cuEventCreate(&event, 0);
                }),
  };
}

Tests lookups() {
  return {
      {"init.lookup_known",
       "cuGetProcAddress gives a function by its base name, before cuInit",
       second_lookup(),
       {succeeds("cuGetProcAddress", hdr), value("symbol status", {0}, hdr),
        holds("a pointer is given", hdr), succeeds("the function found", hdr),
        holds("it is that function", hdr)},
       lookup_known},
      {"init.lookup_unknown",
       "an unknown symbol is success with a null pointer",
       second_lookup(),
       {code("cuGetProcAddress", {ok, not_found}, hdr), value("symbol status", {1}, hdr),
        holds("the pointer is null", hdr)},
       lookup_unknown},
      {"init.lookup_version_not_sufficient",
       "a version before the symbol's first gives a null pointer",
       second_lookup(),
       {code("cuGetProcAddress", {ok, not_found}, hdr), value("symbol status", {2}, hdr),
        holds("the pointer is null", hdr)},
       lookup_too_early},
      {"init.lookup_by_version",
       "the version chooses the ABI: cuMemAdvise of 8.0 and of 12.2 are two functions",
       second_lookup() + since(12020),
       {succeeds("cuGetProcAddress at 8.0", hdr), succeeds("cuGetProcAddress at 12.2", hdr),
        holds("they are two functions", hdr)},
       lookup_by_version},
      answers("init.lookup_beyond_driver", "a version beyond the driver's is refused",
              {invalid_value}, hdr, lookup_beyond_driver, second_lookup()),
      {"init.lookup_per_thread",
       "the model has no variants for per-thread default streams",
       second_lookup() + model_only("a driver has them"),
       {succeeds("cuGetProcAddress", model), holds("the pointer is null", model)},
       [](Run& run) {
         void* pointer = &pointer;
         ProcAddressResult result{};
         run.code("cuGetProcAddress",
                  run.cu.cuGetProcAddress_v2("cuMemcpy", &pointer, 7000, 2, &result));
         run.holds("the pointer is null", pointer == nullptr);
       }},
      answers(
          "init.lookup_flags", "unknown flags of a lookup are refused", {invalid_value}, hdr,
          [](Run& run) {
            void* pointer = nullptr;
            ProcAddressResult result{};
            return run.cu.cuGetProcAddress_v2("cuInit", &pointer, 2000, 0x100, &result);
          },
          second_lookup()),
      {"init.first_lookup",
       "cuGetProcAddress of 11.3, four arguments, stays exported beside the one of 12.0",
       from(Start::unloaded),
       {succeeds("cuGetProcAddress", hdr), holds("a pointer is given", hdr)},
       first_lookup},
      {"init.first_lookup_unknown",
       "the lookup of 11.3 gives a null pointer for an unknown symbol",
       from(Start::unloaded),
       {code("cuGetProcAddress", {ok, not_found}, unsure), holds("the pointer is null", hdr)},
       first_lookup_unknown},
  };
}

}  // namespace

Tests init_tests() {
  Tests tests = {
      answers(
          "init.flags", "cuInit takes no flags", {invalid_value}, hdr,
          [](Run& run) { return run.cu.cuInit(1); }, from(Start::unloaded)),
      answers(
          "init.first", "cuInit(0) succeeds where a device is", {ok}, hdr,
          [](Run& run) { return run.cu.cuInit(0); }, from(Start::unloaded)),
      answers(
          "init.again", "cuInit may be repeated", {ok}, hdr,
          [](Run& run) { return run.cu.cuInit(0); }, from(Start::initialised)),
      {"init.usable_before",
       "version and error texts work before cuInit",
       from(Start::unloaded),
       {succeeds("cuDriverGetVersion", hdr), holds("the version is 11.0 or newer", hdr),
        succeeds("cuGetErrorName", lup), holds("the name is CUDA_ERROR_OUT_OF_MEMORY", hdr)},
       usable_before},
      {"init.early_out_untouched",
       "before cuInit a refused call leaves its out-parameter alone",
       from(Start::unloaded),
       {code("cuDeviceGetCount", {not_initialized}, lup), holds("the count is untouched", lup),
        code("cuMemAlloc", {not_initialized}, lup), holds("the address is untouched", lup)},
       untouched_before},
      {"init.error_names",
       "every code has its name and a text",
       from(Start::initialised),
       {holds("names are those of cuda.h", hdr), holds("each code has a text", hdr)},
       error_names},
      {"init.error_unknown",
       "an unknown code has neither name nor text",
       from(Start::initialised),
       {code("cuGetErrorName", {invalid_value}, lup), holds("the name is null", lup),
        code("cuGetErrorString", {invalid_value}, lup), holds("the text is null", lup)},
       error_unknown},
      answers(
          "init.null_version", "cuDriverGetVersion needs somewhere to write", {invalid_value}, hdr,
          [](Run& run) { return run.cu.cuDriverGetVersion(nullptr); },
          from(Start::initialised) + null_out_pointer()),
      {"init.fork",
       "a forked child cannot use the driver, and its parent still can",
       {},
       {value("cuMemAlloc in the child", {not_initialized}, doc),
        value("cuDeviceGetCount in the child", {not_initialized}, doc),
        succeeds("cuMemAlloc in the parent, afterwards", doc)},
       after_fork},
      {"init.end_of_process",
       "once the driver has shut down, calls say so and do no harm",
       {},
       {code("cuMemAlloc at the end of the process", {deinitialized}, hdr)},
       at_exit},
  };
  for (Test& test : before_init()) tests.push_back(std::move(test));
  for (Test& test : lookups()) tests.push_back(std::move(test));
  return tests;
}

}  // namespace assay::conformance
