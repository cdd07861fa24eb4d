// Pools: what they hold, what they keep, and the largest size.
#include "contract/groups.hpp"
#include "contract/pool.hpp"

namespace assay::conformance {
namespace {

using enum Source;
using abi::MemPoolAttribute;

std::uint64_t used(Run& run, abi::MemPool pool) {
  return pool_value(run, pool, MemPoolAttribute::used_mem_current);
}
std::uint64_t reserved(Run& run, abi::MemPool pool) {
  return pool_value(run, pool, MemPoolAttribute::reserved_mem_current);
}

/// A block that came and went, whose end the host has seen.
void use_once(Run& run, abi::MemPool pool, std::size_t size) {
  const abi::Stream stream = run.stream();
  const DevicePointer address = pooled_from(run, size, pool, stream);
  free_async(run, address, stream);
  synchronize(run, stream);
}

void accounts(Run& run) {
  const abi::Stream stream = run.stream();
  const abi::MemPool pool = make_pool(run);
  const DevicePointer first = pooled_from(run, MiB + 1, pool, stream);
  const std::uint64_t one = used(run, pool);
  run.holds("in use is what was asked for, or more", one >= MiB + 1);
  const DevicePointer second = pooled_from(run, 12, pool, stream);
  run.holds("a second block is added", used(run, pool) >= one + 12);
  run.holds("reserved is what is in use, or more", reserved(run, pool) >= used(run, pool));
  run.holds("no mark is below what there is",
            pool_value(run, pool, MemPoolAttribute::used_mem_high) >= used(run, pool) &&
                pool_value(run, pool, MemPoolAttribute::reserved_mem_high) >= reserved(run, pool));
  free_async(run, first, stream);
  synchronize(run, stream);
  run.holds("a free takes its own", used(run, pool) >= 12 && used(run, pool) < one);
  free_async(run, second, stream);
  synchronize(run, stream);
  run.value("in use at the end", static_cast<std::int64_t>(used(run, pool)));
  run.holds("the mark stays", pool_value(run, pool, MemPoolAttribute::used_mem_high) >= MiB + 13);
}

void free_in_its_turn(Run& run) {
  const abi::Stream stream = run.stream();
  const abi::MemPool pool = make_pool(run);
  const DevicePointer address = pooled_from(run, MiB, pool, stream);
  synchronize(run, stream);
  Gate gate(run, stream);
  free_async(run, address, stream);
  run.holds("what is in use, before the free had its turn, backs it", reserved(run, pool) >= MiB);
  gate.open();
  synchronize(run, stream);
  run.value("in use after the wait", static_cast<std::int64_t>(used(run, pool)));
}

void threshold_keeps(Run& run) {
  const abi::MemPool pool = make_pool(run);
  keep_everything(run, pool);
  use_once(run, pool, 4 * MiB);
  const std::uint64_t kept = reserved(run, pool);
  run.holds("a synchronise leaves what the threshold allows", kept >= 4 * MiB);
  run.code("a trim to that", run.cu.cuMemPoolTrimTo(pool, kept));
  run.holds("releases nothing", reserved(run, pool) == kept);
  run.code("a trim to less", run.cu.cuMemPoolTrimTo(pool, 1));
  run.holds("keeps that", reserved(run, pool) >= 1);
  run.code("a trim to nothing", run.cu.cuMemPoolTrimTo(pool, 0));
  run.value("reserved", static_cast<std::int64_t>(reserved(run, pool)));
}

void threshold_zero(Run& run) {
  const abi::MemPool pool = make_pool(run);
  use_once(run, pool, 4 * MiB);
  run.value("reserved after a synchronise", static_cast<std::int64_t>(reserved(run, pool)));
}

void threshold_is_no_cap(Run& run) {
  const abi::Stream stream = run.stream();
  const abi::MemPool pool = make_pool(run);
  std::uint64_t threshold = MiB;
  run.must(run.cu.cuMemPoolSetAttribute(pool, MemPoolAttribute::release_threshold, &threshold),
           "cuMemPoolSetAttribute");
  DevicePointer address = 0;
  run.code("a block beyond the threshold",
           run.cu.cuMemAllocFromPoolAsync(&address, 8 * MiB, pool, stream));
}

void trim_spares_blocks(Run& run) {
  const abi::Stream stream = run.stream();
  const abi::MemPool pool = make_pool(run);
  const DevicePointer address = pooled_from(run, page, pool, stream);
  run.must(run.cu.cuMemsetD8Async(address, 0x5A, page, stream), "cuMemsetD8Async");
  synchronize(run, stream);
  const std::uint64_t before = used(run, pool);
  run.code("cuMemPoolTrimTo", run.cu.cuMemPoolTrimTo(pool, 0));
  run.holds("in use is what was", used(run, pool) == before && reserved(run, pool) >= before);
  run.holds("the block holds what it held", run.filled(address, 0x5A, page));
}

void trim_spares_pending(Run& run) {
  const abi::Stream stream = run.stream();
  const abi::MemPool pool = make_pool(run);
  std::byte* const target = run.pinned(page);
  const DevicePointer address = pooled_from(run, page, pool, stream);
  run.must(run.cu.cuMemsetD8Async(address, 0x5A, page, stream), "cuMemsetD8Async");
  Gate gate(run, stream);
  run.must(run.cu.cuMemcpyDtoHAsync_v2(target, address, page, stream), "cuMemcpyDtoHAsync");
  free_async(run, address, stream);
  run.code("cuMemPoolTrimTo", run.cu.cuMemPoolTrimTo(pool, 0));
  gate.open();
  run.code("the work before the free", run.cu.cuStreamSynchronize(stream));
  run.holds("met its block", target[0] == std::byte{0x5A} && target[page - 1] == std::byte{0x5A});
}

void max_size(Run& run) {
  const abi::Stream stream = run.stream();
  const abi::MemPool pool = make_pool(run, 32 * MiB);
  DevicePointer first = 0;
  DevicePointer second = 77;
  run.code("a block within it", run.cu.cuMemAllocFromPoolAsync(&first, 16 * MiB, pool, stream));
  run.code("one that passes it alone",
           run.cu.cuMemAllocFromPoolAsync(&second, 64 * MiB, pool, stream));
  run.code("one that passes it with the first",
           run.cu.cuMemAllocFromPoolAsync(&second, 24 * MiB, pool, stream));
  run.holds("the address is untouched", second == 77);
  free_async(run, first, stream);
  synchronize(run, stream);
  run.code("which fits once the first is gone",
           run.cu.cuMemAllocFromPoolAsync(&second, 24 * MiB, pool, stream));
  run.code("another pool is not concerned",
           run.cu.cuMemAllocFromPoolAsync(&first, 16 * MiB, make_pool(run), stream));
}

void capacity(Run& run) {
  const abi::Stream stream = run.stream();
  const abi::MemPool pool = make_pool(run);
  run.model->set_capacity(48 * MiB);
  DevicePointer first = 0;
  DevicePointer second = 0;
  run.code("within the capacity", run.cu.cuMemAllocFromPoolAsync(&first, 40 * MiB, pool, stream));
  run.code("beyond it", run.cu.cuMemAllocFromPoolAsync(&second, 40 * MiB, pool, stream));
  run.code("so is device memory", run.cu.cuMemAlloc_v2(&second, 40 * MiB));
  free_async(run, first, stream);
  synchronize(run, stream);
  run.code("device memory after the free", run.cu.cuMemAlloc_v2(&second, 40 * MiB));
}

Tests trims() {
  return {
      {"pool.trim_spares_blocks",
       "a trim releases nothing that backs a block",
       pools(),
       {succeeds("cuMemPoolTrimTo", hdr), holds("in use is what was", hdr),
        holds("the block holds what it held", hdr)},
       trim_spares_blocks},
      {"pool.trim_spares_pending",
       "nor what work before a pending free still needs",
       pools() + having(cuda::Feature::tests),
       {succeeds("cuMemPoolTrimTo", hdr), succeeds("the work before the free", hdr),
        holds("met its block", hdr)},
       trim_spares_pending},
      answers(
          "pool.trim_null", "a trim is of a pool", {invalid_value}, hdr,
          [](Run& run) { return run.cu.cuMemPoolTrimTo(nullptr, 0); }, pools()),
      answers(
          "pool.trim_dead", "that is not destroyed", {invalid_value}, hdr,
          [](Run& run) {
            const abi::MemPool pool = make_pool(run);
            run.must(run.cu.cuMemPoolDestroy(pool), "cuMemPoolDestroy");
            return run.cu.cuMemPoolTrimTo(pool, 0);
          },
          pools() + model_only("the use of a destroyed pool is undefined")),
  };
}

}  // namespace

Tests pool_size_tests() {
  Tests tests = {
      {"pool.accounts",
       "used is what live blocks were asked for, reserved what backs them",
       pools(),
       {holds("in use is what was asked for, or more", hdr), holds("a second block is added", hdr),
        holds("reserved is what is in use, or more", hdr),
        holds("no mark is below what there is", hdr), holds("a free takes its own", hdr),
        value("in use at the end", {0}, hdr), holds("the mark stays", hdr)},
       accounts},
      {"pool.free_in_its_turn",
       "memory is given back no earlier than its free has its turn",
       pools() + having(cuda::Feature::tests),
       {holds("what is in use, before the free had its turn, backs it", hdr),
        value("in use after the wait", {0}, hdr)},
       free_in_its_turn},
      {"pool.threshold_keeps",
       "the release threshold is kept at a synchronise, and a trim releases it",
       pools(),
       {holds("a synchronise leaves what the threshold allows", hdr),
        succeeds("a trim to that", hdr), holds("releases nothing", hdr),
        succeeds("a trim to less", hdr), holds("keeps that", hdr),
        succeeds("a trim to nothing", hdr), value("reserved", {0}, unsure)},
       threshold_keeps},
      {"pool.threshold_zero",
       "with a threshold of 0 a synchronise releases what is free",
       pools(),
       {value("reserved after a synchronise", {0}, unsure)},
       threshold_zero},
      {"pool.threshold_is_no_cap",
       "the threshold limits nothing",
       pools(),
       {succeeds("a block beyond the threshold", hdr)},
       threshold_is_no_cap},
      {"pool.max_size",
       "the largest size does",
       pools() + since(12020),
       {succeeds("a block within it", hdr), code("one that passes it alone", {out_of_memory}, hdr),
        code("one that passes it with the first", {out_of_memory}, hdr),
        holds("the address is untouched", hdr),
        succeeds("which fits once the first is gone", unsure),
        succeeds("another pool is not concerned", hdr)},
       max_size},
      {"pool.capacity",
       "the model's pools share the device's capacity with its other memory",
       pools() + model_only("the true limit of a device is not known"),
       {succeeds("within the capacity", model), code("beyond it", {out_of_memory}, hdr),
        code("so is device memory", {out_of_memory}, hdr),
        succeeds("device memory after the free", model)},
       capacity},
  };
  for (Test& test : trims()) tests.push_back(std::move(test));
  return tests;
}

}  // namespace assay::conformance
