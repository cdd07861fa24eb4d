// Probes of contexts, device, pinned and registered memory, pointers and copies.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "contract/advice.hpp"
#include "probe/probe.hpp"

namespace assay::conformance {
namespace {

using abi::LocationType;
using abi::PointerAttribute;
using Attribute = DeviceAttribute;

constexpr abi::Location device_0{LocationType::device, 0};

void p1(Run& run) {
  const DevicePointer address = run.device(page);
  run.signal("host read of cuMemAlloc memory", read_at(host(address)));
  run.signal("host write", write_at(host(address)));
}

void p8(Run& run) {
  run.note("memory regime: " + std::string(cuda::name_of(run.session.facts.regime)));
  std::byte* const memory = run.pageable(MiB);
  run.code("advice on malloc memory",
           advise(run, address_of(memory), MiB, abi::Advise::set_preferred_location, device_0));
  run.code("prefetch of malloc memory",
           prefetch(run, address_of(memory), MiB, device_0, run.stream()));
}

void p9(Run& run) {
  if (!run.session.facts.has(Attribute::managed_memory)) run.skip("needs managed memory");
  const DevicePointer first = run.managed(4 * KiB);
  const DevicePointer second = run.managed(4 * KiB);
  run.value("distance of two 4 KiB allocations",
            static_cast<std::int64_t>(second) - static_cast<std::int64_t>(first));
  run.code("READ_MOSTLY on one",
           advise(run, first, 4 * KiB, abi::Advise::set_read_mostly, device_0));
  int shown = -77;
  run.code("read on the other",
           run.cu.cuMemRangeGetAttribute(&shown, sizeof shown, abi::RangeAttribute::read_mostly,
                                         second, 4 * KiB));
  run.value("it shows", shown);
}

void p10(Run& run) {
  const DevicePointer first = run.device(page);
  const DevicePointer second = run.device(page);
  run.must(run.cu.cuCtxSetCurrent(nullptr), "cuCtxSetCurrent");
  run.code("cuMemFree with no context current", run.cu.cuMemFree_v2(first));
  if (ASSAY_ABSENT(run, cuCtxCreate_v2)) return;
  (void)run.other_context();
  run.code("cuMemFree with another current", run.cu.cuMemFree_v2(second));
}

void p11(Run& run) {
  if (ASSAY_ABSENT(run, cuCtxDestroy_v2)) return;
  run.code("cuCtxDestroy of a primary context", run.cu.cuCtxDestroy_v2(run.context));
  DevicePointer address = 0;
  run.code("cuMemAlloc afterwards", run.cu.cuMemAlloc_v2(&address, 4096));
}

void p12(Run& run) {
  if (ASSAY_ABSENT(run, cuDevicePrimaryCtxReset_v2)) return;
  unsigned long long before = 0;
  unsigned long long after = 0;
  if (run.cu.cuCtxGetId != nullptr) (void)run.cu.cuCtxGetId(run.context, &before);
  run.code("cuDevicePrimaryCtxReset", run.cu.cuDevicePrimaryCtxReset_v2(0));
  DevicePointer address = 0;
  run.code("cuMemAlloc under the stale context", run.cu.cuMemAlloc_v2(&address, 4096));
  abi::Context again = nullptr;
  run.code("cuDevicePrimaryCtxRetain", run.cu.cuDevicePrimaryCtxRetain(&again, 0));
  run.holds("the handle value is the same", again == run.context);
  if (ASSAY_ABSENT(run, cuCtxGetId)) return;
  run.code("cuCtxGetId", run.cu.cuCtxGetId(again, &after));
  run.holds("the id is the same", before == after);
}

/// Is the call still waiting after 2 s, with work on the memory behind a closed gate?
template <class Free>
void blocks(Run& run, const char* step, DevicePointer memory, const Free& release) {
  const abi::Stream stream = run.stream();
  Gate gate(run, stream);
  run.must(run.cu.cuMemsetD8Async(memory, 1, 64, stream), "cuMemsetD8Async");
  TwoSeconds watchdog(run);
  const Status status = release();
  run.holds(step, watchdog.passed());
  answer(std::string(step) + ": code", status);
  gate.open();
  (void)run.cu.cuStreamSynchronize(stream);
}

void p16(Run& run) {
  if (ASSAY_ABSENT(run, cuStreamWaitValue32_v2)) return;
  const DevicePointer device = run.device(page);
  blocks(run, "cuMemFree of device memory waits", device,
         [&] { return run.cu.cuMemFree_v2(device); });
  if (run.session.facts.has(Attribute::managed_memory)) {
    const DevicePointer managed = run.managed(page);
    blocks(run, "cuMemFree of managed memory waits", managed,
           [&] { return run.cu.cuMemFree_v2(managed); });
  }
  std::byte* const pinned = run.pinned(page);
  blocks(run, "cuMemFreeHost waits", address_of(pinned),
         [&] { return run.cu.cuMemFreeHost(pinned); });
  std::byte* const registered = run.registered(page);
  DevicePointer at = 0;
  run.must(run.cu.cuMemHostGetDevicePointer_v2(&at, registered, 0), "cuMemHostGetDevicePointer");
  blocks(run, "cuMemHostUnregister waits", at,
         [&] { return run.cu.cuMemHostUnregister(registered); });
  const DevicePointer other = run.device(page);
  const abi::Stream idle = run.stream();
  blocks(run, "cuStreamDestroy of an idle stream waits", other,
         [&] { return run.cu.cuStreamDestroy_v2(idle); });
}

void p17(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer memory = run.device(2 * page);
  run.must(run.cu.cuStreamDestroy_v2(stream), "cuStreamDestroy");
  run.code("cuStreamQuery", run.cu.cuStreamQuery(stream));
  run.code("cuMemcpyDtoDAsync", run.cu.cuMemcpyDtoDAsync_v2(memory, memory + page, 64, stream));
  if (run.session.facts.has(Attribute::concurrent_managed_access)) {
    run.code("cuMemPrefetchAsync", prefetch(run, run.managed(page), page, device_0, stream));
  }
  if (ASSAY_ABSENT(run, cuMemFreeAsync)) return;
  run.code("cuMemFreeAsync", run.cu.cuMemFreeAsync(memory, stream));
}

void p18(Run& run) {
  run.code("no context and size 0", [&] {
    DevicePointer address = 0;
    return run.cu.cuMemAlloc_v2(&address, 0);
  }());
  run.code("no context and an unknown pointer", run.cu.cuMemFree_v2(0x1000));
  run.must(run.cu.cuCtxSetCurrent([&] {
    abi::Context context = nullptr;
    run.must(run.cu.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    return context;
  }()),
           "cuCtxSetCurrent");
  run.code("bad device and bad pointer",
           advise(run, 0x1000, page, abi::Advise::set_accessed_by, {LocationType::device, 99}));
  run.code("bad attribute and bad device", [&] {
    int value = 0;
    return run.cu.cuDeviceGetAttribute(&value, static_cast<Attribute>(100'000), 99);
  }());
  run.code("size 0 and bad flags", [&] {
    DevicePointer address = 0;
    return run.cu.cuMemAllocManaged(&address, 0, 77);
  }());
}

void p21(Run& run) {
  void* const read_only = ::mmap(nullptr, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  run.code("read-only pages", run.cu.cuMemHostRegister_v2(read_only, page, 0));
  const int file = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  void* const of_file = ::mmap(nullptr, page, PROT_READ, MAP_PRIVATE, file, 0);
  run.code("pages of a file, read-only", run.cu.cuMemHostRegister_v2(of_file, page, 0));
  run.code("the same with READ_ONLY",
           run.cu.cuMemHostRegister_v2(of_file, page, abi::host_register_read_only));
  ::close(file);
  const rlimit limit{64 * KiB, 64 * KiB};
  answer_value("setrlimit of the lock limit to 64 KiB", ::setrlimit(RLIMIT_MEMLOCK, &limit));
  run.code("16 MiB beyond the lock limit",
           run.cu.cuMemHostRegister_v2(run.pageable(16 * MiB), 16 * MiB, 0));
}

void golden(Run& run, const std::string& kind, DevicePointer address) {
  constexpr unsigned p2p_tokens = 5;
  for (unsigned each = 1; each <= 20; ++each) {
    if (each == p2p_tokens) continue;  // wants a structure of its own
    std::uint64_t words[4] = {};
    const Status status =
        run.cu.cuPointerGetAttribute(words, static_cast<PointerAttribute>(each), address);
    answer(fmt::format("{}: attribute {}", kind, each), status);
    if (status != Status::success) continue;
    // Addresses differ from run to run: said as what they are.
    const std::string step = fmt::format("{}: value {}", kind, each);
    if (words[0] == address) {
      run.note(step + " is the address");
    } else if (words[0] == address_of(run.context)) {
      run.note(step + " is the context");
    } else {
      answer_value(step, static_cast<std::int64_t>(words[0]));
    }
  }
}

void p22(Run& run) {
  golden(run, "device", run.device(page));
  if (run.session.facts.has(Attribute::managed_memory)) golden(run, "managed", run.managed(page));
  golden(run, "pinned", address_of(run.pinned(page)));
  if (run.session.facts.has(Attribute::host_register_supported)) {
    golden(run, "registered", address_of(run.registered(page)));
  }
  golden(run, "pageable", address_of(run.pageable(page)));
}

void p23(Run& run) {
  run.code("HtoD of size 0, null pointers", run.cu.cuMemcpyHtoD_v2(0, nullptr, 0));
  run.code("DtoH of size 0, null pointers", run.cu.cuMemcpyDtoH_v2(nullptr, 0, 0));
  run.code("DtoD of size 0, null pointers", run.cu.cuMemcpyDtoD_v2(0, 0, 0));
  const DevicePointer memory = run.device(page);
  run.fill(memory, 1, page);
  run.code("overlapping DtoD", run.cu.cuMemcpyDtoD_v2(memory + 64, memory, page / 2));
  run.code("cuCtxSynchronize", run.cu.cuCtxSynchronize());
}

}  // namespace

std::vector<Probe> memory_probes() {
  using enum Start;
  return {
      {"P1", "host read of cuMemAlloc memory: which signal", current, p1},
      {"P8", "advice and prefetch on malloc memory", current, p8},
      {"P9", "two 4 KiB managed allocations: does advice on one show on the other", current, p9},
      {"P10", "cuMemFree with no context current, and with another", current, p10},
      {"P11", "cuCtxDestroy of a primary context", current, p11},
      {"P12", "a stale context after a reset: code, handle value, id", current, p12},
      {"P16", "does a free wait for work behind a closed gate", current, p16},
      {"P17", "a destroyed stream in query, copy, prefetch and FreeAsync", current, p17},
      {"P18", "which of two defects is reported", initialised, p18},
      {"P21", "cuMemHostRegister of read-only, file-mapped and too many pages", current, p21},
      {"P22", "pointer attributes of every kind of memory", current, p22},
      {"P23", "copies of size 0 with null pointers, and an overlapping one", current, p23},
  };
}

}  // namespace assay::conformance
