// Stream-ordered memory: allocation and free in the order of streams, and what is in it.
#include <algorithm>
#include <array>
#include <cstring>

#include "contract/blocks.hpp"
#include "contract/groups.hpp"
#include "contract/pool.hpp"

namespace assay::conformance {
namespace {

using enum Source;

constexpr std::size_t size = page;

void read_back(Run& run, std::byte* target, DevicePointer address, abi::Stream stream) {
  run.must(run.cu.cuMemcpyDtoHAsync_v2(target, address, size, stream), "cuMemcpyDtoHAsync");
}
bool all_are(const std::byte* bytes, unsigned char byte) {
  return std::all_of(bytes, bytes + size, [&](std::byte each) { return each == std::byte{byte}; });
}

void allocate(Run& run) {
  const abi::Stream stream = run.stream();
  Blocks at{};
  for (std::size_t i = 0; i < at.size(); ++i) at[i] = pooled(run, block_sizes[i], stream);
  judge_blocks(run, at);
  for (const DevicePointer each : at) free_async(run, each, stream);
  run.code("all are freed", run.cu.cuStreamSynchronize(stream));
}

void too_big(Run& run) {
  const abi::Stream stream = run.stream();
  DevicePointer address = 77;
  run.code("cuMemAllocAsync", run.cu.cuMemAllocAsync(&address, std::size_t{1} << 60, stream));
  run.holds("the address is untouched", address == 77);
  run.code("a small one afterwards", run.cu.cuMemAllocAsync(&address, 4096, stream));
}

void one_stream(Run& run) {
  const abi::Stream stream = run.stream();
  std::byte* const first = run.pinned(size);
  std::byte* const second = run.pinned(size);
  for (const auto& [target, byte] : {std::pair{first, '\x11'}, std::pair{second, '\x22'}}) {
    const DevicePointer address = pooled(run, size, stream);
    set(run, address, static_cast<unsigned char>(byte), stream);
    read_back(run, target, address, stream);
    free_async(run, address, stream);
  }
  run.code("cuStreamSynchronize", run.cu.cuStreamSynchronize(stream));
  run.holds("the first block held its bytes", all_are(first, 0x11));
  run.holds("the second its own", all_are(second, 0x22));
}

void given_at_once(Run& run) {
  const abi::Stream stream = run.stream();
  std::byte* const target = run.pinned(size);
  Gate gate(run, stream);
  DevicePointer address = 0;
  run.code("cuMemAllocAsync", run.cu.cuMemAllocAsync(&address, size, stream));
  run.holds("the address is there", address != 0);
  set(run, address, 0x33, stream);
  read_back(run, target, address, stream);
  run.code("cuMemFreeAsync", run.cu.cuMemFreeAsync(address, stream));
  (void)run.cu.cuStreamQuery(stream);
  run.code("the stream has not come so far", run.cu.cuStreamQuery(stream));
  gate.open();
  run.code("then it has", run.cu.cuStreamSynchronize(stream));
  run.holds("the work on it was done", all_are(target, 0x33));
}

void used_elsewhere(Run& run) {
  const abi::Stream first = run.stream();
  const abi::Stream second = run.stream();
  std::byte* const target = run.pinned(size);
  std::memset(target, 0, size);
  Gate gate(run, first);
  const DevicePointer address = pooled(run, size, first);
  set(run, address, 0x44, first);
  order(run, first, second);
  read_back(run, target, address, second);
  free_async(run, address, second);
  gate.open();
  run.code("cuStreamSynchronize", run.cu.cuStreamSynchronize(second));
  run.holds("the second stream read what the first wrote", all_are(target, 0x44));
  run.code("the first stream", run.cu.cuStreamSynchronize(first));
}

/// Free on one stream, allocation on another that waits for it: the same memory or another.
void reused_after_event(Run& run) {
  const abi::Stream first = run.stream();
  const abi::Stream second = run.stream();
  std::byte* const before = run.pinned(size);
  std::byte* const after = run.pinned(size);
  const DevicePointer address = pooled(run, size, first);
  set(run, address, 0x11, first);
  read_back(run, before, address, first);
  free_async(run, address, first);
  order(run, first, second);
  const DevicePointer next = pooled(run, size, second);
  set(run, next, 0x22, second);
  read_back(run, after, next, second);
  free_async(run, next, second);
  run.code("cuStreamSynchronize", run.cu.cuStreamSynchronize(second));
  run.holds("the first block held its bytes", all_are(before, 0x11));
  run.holds("the next its own", all_are(after, 0x22));
}

/// No order between the streams: the allocator must see to it that they do not meet.
void never_shared(Run& run) {
  const abi::Stream first = run.stream();
  const abi::Stream second = run.stream();
  std::byte* const before = run.pinned(size);
  std::byte* const after = run.pinned(size);
  const DevicePointer address = pooled(run, size, first);
  set(run, address, 0x11, first);
  Gate gate(run, first);
  read_back(run, before, address, first);
  free_async(run, address, first);
  const DevicePointer next = pooled(run, size, second);
  set(run, next, 0x22, second);
  read_back(run, after, next, second);
  (void)run.cu.cuStreamQuery(second);
  (void)run.cu.cuStreamQuery(second);  // lets the work run that can, and waits for none
  gate.open();
  run.code("the first stream", run.cu.cuStreamSynchronize(first));
  run.code("the second", run.cu.cuStreamSynchronize(second));
  run.holds("the first block held its bytes", all_are(before, 0x11));
  run.holds("the other its own", all_are(after, 0x22));
}

Status free_async_of(Run& run, DevicePointer address) {
  return run.cu.cuMemFreeAsync(address, run.stream());
}

DevicePointer freed(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer address = pooled(run, size, stream);
  free_async(run, address, stream);
  synchronize(run, stream);
  return address;
}

Tests refused_allocations() {
  const auto refused = std::vector<std::int64_t>{invalid_value};
  const Needs absent =
      having(cuda::Feature::pools) + without(DeviceAttribute::memory_pools_supported);
  const auto dead = std::vector<std::int64_t>{invalid_handle, context_is_destroyed};
  const Needs undefined = pools() + model_only("the use of a dead handle is undefined");
  return {
      answers(
          "pooled.size_zero", "size 0 is refused", refused, unsure,
          [](Run& run) {
            DevicePointer address = 0;
            return run.cu.cuMemAllocAsync(&address, 0, run.stream());
          },
          pools()),
      answers(
          "pooled.null_out", "an allocation needs somewhere to write", refused, hdr,
          [](Run& run) { return run.cu.cuMemAllocAsync(nullptr, size, run.stream()); },
          pools() + null_out_pointer()),
      answers(
          "pooled.null_out_from_pool", "from a pool too", refused, hdr,
          [](Run& run) {
            return run.cu.cuMemAllocFromPoolAsync(nullptr, size, make_pool(run), run.stream());
          },
          pools() + null_out_pointer()),
      answers(
          "pooled.null_pool", "which is one", refused, hdr,
          [](Run& run) {
            DevicePointer address = 0;
            return run.cu.cuMemAllocFromPoolAsync(&address, size, nullptr, run.stream());
          },
          pools()),
      answers(
          "pooled.dead_pool", "and not destroyed", refused, hdr,
          [](Run& run) {
            const abi::MemPool pool = make_pool(run);
            run.must(run.cu.cuMemPoolDestroy(pool), "cuMemPoolDestroy");
            DevicePointer address = 0;
            return run.cu.cuMemAllocFromPoolAsync(&address, size, pool, run.stream());
          },
          pools() + model_only("the use of a destroyed pool is undefined")),
      answers(
          "pooled.bad_stream", "a stream is one that was given", {invalid_handle}, hip,
          [](Run& run) {
            DevicePointer address = 0;
            return run.cu.cuMemAllocAsync(&address, size, reinterpret_cast<abi::Stream>(-1));
          },
          pools()),
      answers(
          "pooled.dead_stream", "and not destroyed", dead, hip,
          [](Run& run) {
            const abi::Stream stream = run.stream();
            run.must(run.cu.cuStreamDestroy_v2(stream), "cuStreamDestroy");
            DevicePointer address = 0;
            return run.cu.cuMemAllocAsync(&address, size, stream);
          },
          undefined),
      answers(
          "pooled.no_context", "the default stream is a context's", {invalid_context}, hdr,
          [](Run& run) {
            DevicePointer address = 0;
            return run.cu.cuMemAllocAsync(&address, size, nullptr);
          },
          pools() + from(Start::initialised)),
      answers(
          "pooled.unsupported", "a device without pools gives no such memory", {not_supported}, hdr,
          [](Run& run) {
            DevicePointer address = 0;
            return run.cu.cuMemAllocAsync(&address, size, run.stream());
          },
          absent),
  };
}

Tests frees() {
  const auto refused = std::vector<std::int64_t>{invalid_value};
  return {
      answers(
          "pooled.free_null", "no address is none to free", refused, hip,
          [](Run& run) { return free_async_of(run, 0); }, pools()),
      answers(
          "pooled.free_twice", "memory is freed once", refused, hdr,
          [](Run& run) { return free_async_of(run, freed(run)); }, pools()),
      answers(
          "pooled.free_twice_by_cuMemFree", "by either function", refused, hdr,
          [](Run& run) { return run.cu.cuMemFree_v2(freed(run)); }, pools()),
      answers(
          "pooled.free_interior", "by its base alone", refused, unsure,
          [](Run& run) { return free_async_of(run, pooled(run, size, run.stream()) + 256); },
          pools()),
      answers(
          "pooled.free_unknown", "and if it is somebody's", refused, unsure,
          [](Run& run) { return free_async_of(run, address_of(run.pageable(page))); }, pools()),
      answers(
          "pooled.free_device", "memory of cuMemAlloc is not the pools'", refused, unsure,
          [](Run& run) { return free_async_of(run, run.device(size)); }, pools()),
      answers(
          "pooled.free_managed", "nor is managed memory", refused, unsure,
          [](Run& run) { return free_async_of(run, run.managed(size)); },
          pools() + with(DeviceAttribute::managed_memory)),
      answers(
          "pooled.free_bad_stream", "a free is on a stream that was given", {invalid_handle}, hip,
          [](Run& run) {
            const DevicePointer address = pooled(run, size, run.stream());
            return run.cu.cuMemFreeAsync(address, reinterpret_cast<abi::Stream>(-1));
          },
          pools()),
      answers(
          "pooled.free_dead_stream", "and was not destroyed, be it the allocation's own",
          {invalid_handle, context_is_destroyed}, iss,
          [](Run& run) {
            const abi::Stream stream = run.stream();
            const DevicePointer address = pooled(run, size, stream);
            synchronize(run, stream);
            run.must(run.cu.cuStreamDestroy_v2(stream), "cuStreamDestroy");
            return run.cu.cuMemFreeAsync(address, stream);
          },
          pools() + model_only("the use of a dead handle is undefined")),
      answers(
          "pooled.free_no_context", "the default stream is a context's", {invalid_context}, hdr,
          [](Run& run) {
            const DevicePointer address = pooled(run, size, nullptr);
            run.must(run.cu.cuCtxSetCurrent(nullptr), "cuCtxSetCurrent");
            return run.cu.cuMemFreeAsync(address, nullptr);
          },
          pools()),
      answers(
          "pooled.free_by_cuMemFree", "cuMemFree takes such memory too", {ok}, hdr,
          [](Run& run) {
            const abi::Stream stream = run.stream();
            const DevicePointer address = pooled(run, size, stream);
            synchronize(run, stream);
            return run.cu.cuMemFree_v2(address);
          },
          pools()),
      answers(
          "pooled.free_by_cuMemFreeHost", "cuMemFreeHost does not", refused, hip,
          [](Run& run) {
            const abi::Stream stream = run.stream();
            const DevicePointer address = pooled(run, size, stream);
            synchronize(run, stream);
            return run.cu.cuMemFreeHost(host(address));
          },
          pools()),
  };
}

}  // namespace

Tests pooled_tests() {
  const Needs gates = pools() + having(cuda::Feature::tests);
  Tests tests = {
      {"pooled.allocate",
       "blocks are aligned, apart and freed by their base",
       pools(),
       {holds("addresses are multiples of 256", doc), holds("no two overlap", hdr),
        holds("none is null", hdr), succeeds("all are freed", hdr)},
       allocate},
      {"pooled.too_big",
       "more than the device has is out of memory, and the context lives on",
       pools(),
       {code("cuMemAllocAsync", {out_of_memory}, hdr), holds("the address is untouched", hdr),
        succeeds("a small one afterwards", hdr)},
       too_big},
      {"pooled.one_stream",
       "allocation, work and free follow each other on a stream, with no wait between",
       pools(),
       {succeeds("cuStreamSynchronize", hdr), holds("the first block held its bytes", hdr),
        holds("the second its own", hdr)},
       one_stream},
      {"pooled.given_at_once",
       "the address is given before the stream comes to the allocation",
       gates,
       {succeeds("cuMemAllocAsync", hdr), holds("the address is there", hdr),
        succeeds("cuMemFreeAsync", hdr), code("the stream has not come so far", {not_ready}, hdr),
        succeeds("then it has", hdr), holds("the work on it was done", hdr)},
       given_at_once},
      {"pooled.used_elsewhere",
       "another stream that waits for the allocation may use and free it",
       gates,
       {succeeds("cuStreamSynchronize", hdr),
        holds("the second stream read what the first wrote", hdr),
        succeeds("the first stream", hdr)},
       used_elsewhere},
      {"pooled.reused_after_event",
       "a stream that waits for a free may get the memory, in which nothing is mixed",
       pools(),
       {succeeds("cuStreamSynchronize", hdr), holds("the first block held its bytes", hdr),
        holds("the next its own", hdr)},
       reused_after_event},
      {"pooled.never_shared",
       "nor is it where no order is between free and allocation",
       gates,
       {succeeds("the first stream", hdr), succeeds("the second", hdr),
        holds("the first block held its bytes", hdr), holds("the other its own", hdr)},
       never_shared},
  };
  for (Test& test : refused_allocations()) tests.push_back(std::move(test));
  for (Test& test : frees()) tests.push_back(std::move(test));
  return tests;
}

}  // namespace assay::conformance
