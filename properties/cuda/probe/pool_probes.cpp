// Probes of stream-ordered pools and of memory shared between processes.
#include "contract/pool.hpp"
#include "probe/probe.hpp"

namespace assay::conformance {
namespace {

using abi::MemPoolAttribute;

std::int64_t pool_bytes(Run& run, abi::MemPool pool, MemPoolAttribute which) {
  return static_cast<std::int64_t>(pool_value(run, pool, which));
}

/// True, and told as absent or skipped, if driver or device has no pools.
bool no_pools(Run& run) {
  if (ASSAY_ABSENT(run, cuMemPoolCreate)) return true;
  if (!run.session.facts.has(DeviceAttribute::memory_pools_supported)) {
    run.skip("needs memory_pools_supported = 1");
  }
  return false;
}

void p13(Run& run) {
  if (no_pools(run)) return;
  const abi::Stream stream = run.stream();
  DevicePointer memory = 0;
  run.code("cuMemAllocAsync of size 0", run.cu.cuMemAllocAsync(&memory, 0, stream));
  run.code("cuMemFreeAsync of cuMemAlloc memory", run.cu.cuMemFreeAsync(run.device(page), stream));
  if (run.session.facts.has(DeviceAttribute::managed_memory)) {
    run.code("cuMemFreeAsync of managed memory", run.cu.cuMemFreeAsync(run.managed(page), stream));
  }
  abi::MemPool pool = default_pool(run);
  for (const std::size_t bytes : {std::size_t{1}, MiB, 33 * MiB}) {
    const std::string step = std::to_string(bytes) + " B";
    answer(step, run.cu.cuMemAllocAsync(&memory, bytes, stream));
    answer_value(step + ": used", pool_bytes(run, pool, MemPoolAttribute::used_mem_current));
    answer_value(step + ": reserved",
                 pool_bytes(run, pool, MemPoolAttribute::reserved_mem_current));
    answer(step + ": free", run.cu.cuMemFreeAsync(memory, stream));
  }
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.value("reserved after a wait", pool_bytes(run, pool, MemPoolAttribute::reserved_mem_current));
  run.code("cuMemPoolTrimTo", run.cu.cuMemPoolTrimTo(pool, 0));
  run.value("reserved after a trim", pool_bytes(run, pool, MemPoolAttribute::reserved_mem_current));
}

void p14(Run& run) {
  if (no_pools(run)) return;
  const abi::Stream stream = run.stream();
  abi::MemPool pool = nullptr;
  const abi::MemPoolProps properties = pool_of_device(64 * MiB);
  run.code("cuMemPoolCreate with maxSize 64 MiB", run.cu.cuMemPoolCreate(&pool, &properties));
  if (pool == nullptr) return;
  DevicePointer first = 0;
  DevicePointer second = 0;
  run.code("64 MiB", run.cu.cuMemAllocFromPoolAsync(&first, 64 * MiB, pool, stream));
  run.code("one byte more", run.cu.cuMemAllocFromPoolAsync(&second, 1, pool, stream));
}

void p15(Run& run) {
  if (no_pools(run)) return;
  const abi::Stream stream = run.stream();
  run.must(run.cu.cuCtxSetCurrent(nullptr), "cuCtxSetCurrent");
  DevicePointer memory = 0;
  run.code("cuMemAllocAsync on a stream without a context",
           run.cu.cuMemAllocAsync(&memory, page, stream));
  run.code("on the NULL stream", run.cu.cuMemAllocAsync(&memory, page, nullptr));
}

void p25(Run& run) {
  if (!ASSAY_ABSENT(run, cuIpcGetMemHandle) && !ASSAY_ABSENT(run, cuIpcOpenMemHandle_v2)) {
    constexpr unsigned lazy_peer_access = 1;
    abi::IpcMemHandle handle{};
    run.code("cuIpcGetMemHandle", run.cu.cuIpcGetMemHandle(&handle, run.device(2 * MiB)));
    DevicePointer opened = 0;
    run.code("opened by its own process",
             run.cu.cuIpcOpenMemHandle_v2(&opened, handle, lazy_peer_access));
  }
  if (no_pools(run)) return;
  abi::MemPool pool = make_pool(run);
  const abi::AccessDesc to_host{{abi::LocationType::host, 0}, abi::AccessFlags::read_write};
  run.code("host access to a pool", run.cu.cuMemPoolSetAccess(pool, &to_host, 1));
}

}  // namespace

std::vector<Probe> pool_probes() {
  using enum Start;
  return {
      {"P13", "pool memory: size 0, frees of other memory, used and reserved", current, p13},
      {"P14", "a pool one byte past its maxSize", current, p14},
      {"P15", "cuMemAllocAsync on a stream without a context", current, p15},
      {"P25", "an IPC handle in its own process; host access to a pool", current, p25},
  };
}

}  // namespace assay::conformance
