// Sets: cuMemsetD8, D16, D32 and their asynchronous forms.
#include <cstring>
#include <vector>

#include "contract/groups.hpp"
#include "suite/run.hpp"

namespace assay::conformance {
namespace {

using enum Source;

constexpr std::size_t size = 4096;

template <class T>
std::vector<T> read_back(Run& run, DevicePointer address, std::size_t count) {
  run.wait();
  std::vector<T> values(count);
  run.must(run.cu.cuMemcpyDtoH_v2(values.data(), address, count * sizeof(T)), "cuMemcpyDtoH");
  return values;
}

void values(Run& run) {
  const DevicePointer address = run.device(size);
  run.code("D8", run.cu.cuMemsetD8_v2(address, 0xA5, size));
  run.holds("bytes",
            read_back<unsigned char>(run, address, size) == std::vector<unsigned char>(size, 0xA5));
  run.code("D16", run.cu.cuMemsetD16_v2(address, 0xB1C2, size / 2));
  run.holds("pairs", read_back<unsigned short>(run, address, size / 2) ==
                         std::vector<unsigned short>(size / 2, 0xB1C2));
  run.code("D32", run.cu.cuMemsetD32_v2(address, 0xD1E2F3A4u, size / 4));
  run.holds("words", read_back<unsigned>(run, address, size / 4) ==
                         std::vector<unsigned>(size / 4, 0xD1E2F3A4u));
}

void values_async(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer address = run.device(size);
  run.code("D8", run.cu.cuMemsetD8Async(address, 0xA5, size, stream));
  run.code("D16", run.cu.cuMemsetD16Async(address, 0xB1C2, 8, stream));
  run.code("D32", run.cu.cuMemsetD32Async(address + 16, 0xD1E2F3A4u, 4, stream));
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  const auto bytes = read_back<unsigned char>(run, address, size);
  run.holds("bytes", bytes[32] == 0xA5 && bytes[size - 1] == 0xA5);
  run.holds("pairs", bytes[0] == 0xC2 && bytes[1] == 0xB1 && bytes[15] == 0xB1);
  run.holds("words", bytes[16] == 0xA4 && bytes[19] == 0xD1 && bytes[31] == 0xD1);
}

void inner_range(Run& run) {
  const DevicePointer address = run.device(size);
  run.fill(address, 0x11, size);
  run.must(run.cu.cuMemsetD8_v2(address + 100, 0x22, 50), "cuMemsetD8");
  const auto bytes = read_back<unsigned char>(run, address, size);
  run.holds("the range is set", bytes[100] == 0x22 && bytes[149] == 0x22);
  run.holds("its neighbours are as before", bytes[99] == 0x11 && bytes[150] == 0x11);
}

void managed_is_done(Run& run) {
  const DevicePointer address = run.managed(page);
  std::memset(host(address), 0x11, page);
  run.code("cuMemsetD8", run.cu.cuMemsetD8_v2(address, 0x22, page));
  run.holds("the host sees it without another wait", host(address)[page - 1] == std::byte{0x22});
}

void pinned_is_done(Run& run) {
  std::byte* const address = run.pinned(page);
  std::memset(address, 0x11, page);
  run.code("cuMemsetD8", run.cu.cuMemsetD8_v2(address_of(address), 0x22, page));
  run.holds("the host sees it without another wait", address[page - 1] == std::byte{0x22});
}

void late(Run& run) {
  const abi::Stream stream = run.stream();
  std::byte* const address = run.pinned(page);
  std::memset(address, 0x11, page);
  Gate gate(run, stream);
  run.code("cuMemsetD8Async", run.cu.cuMemsetD8Async(address_of(address), 0x22, page, stream));
  run.holds("it waits for its turn", address[0] == std::byte{0x11});
  gate.open();
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.holds("then it is done", address[0] == std::byte{0x22});
}

Tests refusals() {
  return {
      answers("set.past_end", "a set stays within its allocation", {invalid_value}, hip,
              [](Run& run) { return run.cu.cuMemsetD8_v2(run.device(size), 0, size + 1); }),
      answers("set.words_past_end", "counted in its own units", {invalid_value}, hip,
              [](Run& run) { return run.cu.cuMemsetD32_v2(run.device(size), 0, size / 4 + 1); }),
      answers("set.async_past_end", "asynchronous sets are checked at the call", {invalid_value},
              hip,
              [](Run& run) {
                return run.cu.cuMemsetD8Async(run.device(size), 0, size + 1, run.stream());
              }),
      answers("set.pairs_unaligned", "D16 needs an even address", {invalid_value}, hdr,
              [](Run& run) { return run.cu.cuMemsetD16_v2(run.device(size) + 1, 0, 8); }),
      answers("set.words_unaligned", "D32 needs a multiple of 4", {invalid_value}, hdr,
              [](Run& run) { return run.cu.cuMemsetD32_v2(run.device(size) + 2, 0, 8); }),
      answers("set.async_words_unaligned", "on a stream too", {invalid_value}, hdr,
              [](Run& run) {
                return run.cu.cuMemsetD32Async(run.device(size) + 2, 0, 8, run.stream());
              }),
      answers("set.null", "null is no target", {invalid_value}, hip,
              [](Run& run) { return run.cu.cuMemsetD8_v2(0, 0, size); }),
      answers("set.freed", "nor is freed memory", {invalid_value}, hip,
              [](Run& run) {
                const DevicePointer address = run.device(size);
                run.must(run.cu.cuMemFree_v2(address), "cuMemFree");
                return run.cu.cuMemsetD8_v2(address, 0, size);
              }),
      answers(
          "set.pageable", "nor a program's own memory", {invalid_value}, hip,
          [](Run& run) { return run.cu.cuMemsetD8_v2(address_of(run.pageable(page)), 0, 64); },
          without(DeviceAttribute::pageable_memory_access)),
      answers("set.size_zero", "size 0 does nothing", {ok}, unsure,
              [](Run& run) { return run.cu.cuMemsetD8_v2(run.device(size), 0, 0); }),
  };
}

}  // namespace

Tests set_tests() {
  Tests tests = {
      {"set.values",
       "bytes, pairs and words",
       {},
       {succeeds("D8", hdr), holds("bytes", hdr), succeeds("D16", hdr), holds("pairs", hdr),
        succeeds("D32", hdr), holds("words", hdr)},
       values},
      {"set.values_async",
       "and on a stream",
       {},
       {succeeds("D8", hdr), succeeds("D16", hdr), succeeds("D32", hdr), holds("bytes", hdr),
        holds("pairs", hdr), holds("words", hdr)},
       values_async},
      {"set.inner_range",
       "a set touches its range alone",
       {},
       {holds("the range is set", hdr), holds("its neighbours are as before", hdr)},
       inner_range},
      {"set.managed_is_done",
       "the synchronous form waits for managed memory",
       with(DeviceAttribute::managed_memory),
       {succeeds("cuMemsetD8", doc), holds("the host sees it without another wait", doc)},
       managed_is_done},
      {"set.pinned_is_done",
       "and for pinned memory",
       with(DeviceAttribute::unified_addressing),
       {succeeds("cuMemsetD8", doc), holds("the host sees it without another wait", doc)},
       pinned_is_done},
      {"set.async_waits_for_its_turn",
       "the asynchronous form waits for the work before it on its stream",
       having(cuda::Feature::tests) + with(DeviceAttribute::unified_addressing),
       {succeeds("cuMemsetD8Async", hdr), holds("it waits for its turn", hdr),
        holds("then it is done", hdr)},
       late},
  };
  for (Test& test : refusals()) tests.push_back(std::move(test));
  return tests;
}

}  // namespace assay::conformance
