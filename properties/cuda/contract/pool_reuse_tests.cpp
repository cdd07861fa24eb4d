// Pools: from which frees an allocation may take. A pool of a largest size shows it: a block that
// fills it leaves nothing else to take from.
#include "contract/groups.hpp"
#include "contract/pool.hpp"

namespace assay::conformance {
namespace {

using enum Source;
using abi::MemPoolAttribute;

constexpr std::size_t size = 32 * MiB;

struct Reuse {
  bool events, opportunistic, internal;
};

/// A pool that one block fills.
abi::MemPool small_pool(Run& run, Reuse reuse) {
  const abi::MemPool pool = make_pool(run, size);
  const auto set = [&](MemPoolAttribute which, bool on) {
    int value = on ? 1 : 0;
    run.must(run.cu.cuMemPoolSetAttribute(pool, which, &value), "cuMemPoolSetAttribute");
  };
  set(MemPoolAttribute::reuse_follow_event_dependencies, reuse.events);
  set(MemPoolAttribute::reuse_allow_opportunistic, reuse.opportunistic);
  set(MemPoolAttribute::reuse_allow_internal_dependencies, reuse.internal);
  keep_everything(run, pool);
  return pool;
}

Status again(Run& run, abi::MemPool pool, abi::Stream stream) {
  DevicePointer address = 0;
  return run.cu.cuMemAllocFromPoolAsync(&address, size, pool, stream);
}

void fill_and_free(Run& run, abi::MemPool pool, abi::Stream stream) {
  free_async(run, pooled_from(run, size, pool, stream), stream);
}

void same_stream(Run& run) {
  const abi::Stream stream = run.stream();
  const abi::MemPool pool = small_pool(run, {false, false, false});
  fill_and_free(run, pool, stream);
  run.code("in the stream of the free", again(run, pool, stream));
}

void follows_events(Run& run) {
  const abi::Stream first = run.stream();
  const abi::Stream second = run.stream();
  const abi::MemPool pool = small_pool(run, {true, false, false});
  Gate gate(run, first);
  fill_and_free(run, pool, first);
  run.code("in a stream that does not wait", again(run, pool, second));
  order(run, first, second);
  run.code("in one that waits for the free", again(run, pool, second));
}

void nothing_allowed(Run& run) {
  const abi::Stream first = run.stream();
  const abi::Stream second = run.stream();
  const abi::MemPool pool = small_pool(run, {false, false, false});
  Gate gate(run, first);
  fill_and_free(run, pool, first);
  order(run, first, second);
  run.code("in one that waits for the free", again(run, pool, second));
}

void opportunistic(Run& run) {
  const abi::Stream first = run.stream();
  const abi::Stream second = run.stream();
  const abi::MemPool pool = small_pool(run, {false, true, false});
  const abi::Event event = run.event();
  Gate gate(run, first);
  fill_and_free(run, pool, first);
  run.must(run.cu.cuEventRecord(event, first), "cuEventRecord");
  run.code("before the free is done", again(run, pool, second));
  gate.open();
  run.must(run.cu.cuEventSynchronize(event), "cuEventSynchronize");
  run.code("after it is", again(run, pool, second));
}

void internal(Run& run) {
  const abi::Stream first = run.stream();
  const abi::Stream second = run.stream();
  const abi::MemPool pool = small_pool(run, {false, false, true});
  Gate gate(run, first);
  fill_and_free(run, pool, first);
  run.code("before the free is done", again(run, pool, second));
  (void)run.cu.cuStreamQuery(second);
  run.code("the stream waits for it", run.cu.cuStreamQuery(second));
  gate.open();
  run.code("and goes on then", run.cu.cuStreamSynchronize(second));
}

}  // namespace

Tests pool_reuse_tests() {
  const Needs sized = pools() + since(12020) + having(cuda::Feature::tests) +
                      model_only("a driver may reuse less, and rounds what a pool holds");
  return {
      {"pool_reuse.same_stream",
       "a stream reuses what it freed",
       sized,
       {succeeds("in the stream of the free", hdr)},
       same_stream},
      {"pool_reuse.follows_events",
       "and what another freed, if it waits for the free by an event and that is allowed",
       sized,
       {code("in a stream that does not wait", {out_of_memory}, hdr),
        succeeds("in one that waits for the free", hdr)},
       follows_events},
      {"pool_reuse.nothing_allowed",
       "but not where it is not",
       sized,
       {code("in one that waits for the free", {out_of_memory}, hdr)},
       nothing_allowed},
      {"pool_reuse.opportunistic",
       "a free that is done is reused, if that is allowed",
       sized,
       {code("before the free is done", {out_of_memory}, hdr), succeeds("after it is", hdr)},
       opportunistic},
      {"pool_reuse.internal",
       "a stream is made to wait for a free, if that is allowed",
       sized,
       {succeeds("before the free is done", hdr), code("the stream waits for it", {not_ready}, hdr),
        succeeds("and goes on then", hdr)},
       internal},
  };
}

}  // namespace assay::conformance
