// Stream-ordered memory: what it outlives, and what the driver says of it.
#include "contract/groups.hpp"
#include "contract/pool.hpp"

namespace assay::conformance {
namespace {

using enum Source;

constexpr std::size_t size = page;

void outlives_pool(Run& run) {
  const abi::Stream stream = run.stream();
  const abi::MemPool pool = make_pool(run);
  const DevicePointer address = pooled_from(run, size, pool, stream);
  set(run, address, 0x55, stream);
  run.code("cuMemPoolDestroy", run.cu.cuMemPoolDestroy(pool));
  run.holds("the block holds what it held", run.filled(address, 0x55, size));
  set(run, address, 0x66, stream);
  run.holds("and takes more", run.filled(address, 0x66, size));
  run.code("its free", run.cu.cuMemFreeAsync(address, stream));
  run.code("cuStreamSynchronize", run.cu.cuStreamSynchronize(stream));
}

void pool_goes_with_last(Run& run) {
  const abi::Stream stream = run.stream();
  const std::uint64_t before = run.model->live_objects(assay_model_pool);
  const abi::MemPool pool = make_pool(run);
  const DevicePointer address = pooled_from(run, size, pool, stream);
  run.must(run.cu.cuMemPoolDestroy(pool), "cuMemPoolDestroy");
  run.holds("a block keeps its pool", run.model->live_objects(assay_model_pool) == before + 1);
  free_async(run, address, stream);
  synchronize(run, stream);
  run.holds("the last free ends it", run.model->live_objects(assay_model_pool) == before);
}

void outlives_context(Run& run) {
  const abi::Context other = run.other_context();
  const abi::Stream there = run.stream();
  const DevicePointer address = pooled(run, size, there);
  set(run, address, 0x77, there);
  synchronize(run, there);
  run.must(run.cu.cuCtxDestroy_v2(other), "cuCtxDestroy");
  run.must(run.cu.cuCtxSetCurrent(run.context), "cuCtxSetCurrent");
  run.holds("the block holds what it held", run.filled(address, 0x77, size));
  const abi::Stream here = run.stream();
  run.code("its free", run.cu.cuMemFreeAsync(address, here));
  run.code("cuStreamSynchronize", run.cu.cuStreamSynchronize(here));
}

void without_context(Run& run) {
  const abi::Stream stream = run.stream();
  run.must(run.cu.cuCtxSetCurrent(nullptr), "cuCtxSetCurrent");
  DevicePointer address = 0;
  run.code("cuMemAllocAsync", run.cu.cuMemAllocAsync(&address, size, stream));
  if (address == 0) return;
  run.code("cuMemFreeAsync", run.cu.cuMemFreeAsync(address, stream));
}

void free_waits_for_nothing(Run& run) {
  const abi::Stream stream = run.stream();
  const abi::Stream busy = run.stream();
  const abi::Event event = run.event();
  const DevicePointer address = pooled(run, size, stream);
  synchronize(run, stream);
  Gate gate(run, busy);
  run.must(run.cu.cuEventRecord(event, busy), "cuEventRecord");
  run.code("cuMemFree", run.cu.cuMemFree_v2(address));
  (void)run.cu.cuEventQuery(event);
  run.code("another stream's work is still pending", run.cu.cuEventQuery(event));
}

void not_zero(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer address = pooled(run, 4096, stream);
  run.holds("fresh memory is not zero", !run.filled(address, 0, 4096));
}

void host_touch(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer address = pooled(run, size, stream);
  synchronize(run, stream);
  run.signal("host read", read_at(host(address)));
  run.signal("host write", write_at(host(address) + size / 2));
}

void attributes(Run& run) {
  const abi::Stream stream = run.stream();
  const abi::MemPool pool = make_pool(run);
  const DevicePointer address = pooled_from(run, size, pool, stream);
  synchronize(run, stream);
  const auto ask = [&](auto value, abi::PointerAttribute which, DevicePointer of) {
    run.must(run.cu.cuPointerGetAttribute(&value, which, of), "cuPointerGetAttribute");
    return value;
  };
  run.value("memory type", ask(0u, abi::PointerAttribute::memory_type, address));
  run.value("managed", ask(0u, abi::PointerAttribute::is_managed, address));
  run.value("ordinal", ask(-7, abi::PointerAttribute::device_ordinal, address));
  run.holds("its pool",
            ask(abi::MemPool{}, abi::PointerAttribute::mempool_handle, address + 5) == pool);
  run.holds("other memory has none",
            ask(pool, abi::PointerAttribute::mempool_handle, run.device(size)) == nullptr);
}

}  // namespace

Tests pooled_life_tests() {
  return {
      {"pooled.outlives_pool",
       "a destroyed pool's blocks live until they are freed",
       pools(),
       {succeeds("cuMemPoolDestroy", hdr), holds("the block holds what it held", hdr),
        holds("and takes more", hdr), succeeds("its free", hdr),
        succeeds("cuStreamSynchronize", hdr)},
       outlives_pool},
      {"pooled.pool_goes_with_last",
       "the model counts a destroyed pool until its last block is free",
       pools() + model_only("a driver counts nothing"),
       {holds("a block keeps its pool", hdr), holds("the last free ends it", hdr)},
       pool_goes_with_last},
      {"pooled.outlives_context",
       "a block does not end with the context in which it was allocated",
       pools() + having(cuda::Feature::tests),
       {holds("the block holds what it held", hdr), succeeds("its free", hdr),
        succeeds("cuStreamSynchronize", hdr)},
       outlives_context},
      {"pooled.without_context",
       "a stream of one's own is enough, no context need be current",
       pools(),
       {succeeds("cuMemAllocAsync", unsure), succeeds("cuMemFreeAsync", unsure)},
       without_context},
      {"pooled.free_waits_for_nothing",
       "cuMemFree of a block does not wait for the device",
       pools() + having(cuda::Feature::tests),
       {succeeds("cuMemFree", hdr),
        code("another stream's work is still pending", {not_ready}, hdr)},
       free_waits_for_nothing},
      {"pooled.fresh_contents",
       "the model fills fresh blocks, so that nobody takes them for zero",
       pools() + model_only("a driver promises nothing about fresh memory"),
       {holds("fresh memory is not zero", model)},
       not_zero},
      {"pooled.host_touch",
       "the host cannot reach a block",
       pools() + without(DeviceAttribute::pageable_memory_access_uses_host_page_tables),
       {faults("host read", doc), faults("host write", doc)},
       host_touch},
      {"pooled.attributes",
       "a block is device memory, and knows its pool",
       pools(),
       {value("memory type", {2}, hdr), value("managed", {0}, hdr), value("ordinal", {0}, hdr),
        holds("its pool", hdr), holds("other memory has none", hdr)},
       attributes},
  };
}

}  // namespace assay::conformance
