// Copies between host and device, within the device, and of any kind.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "contract/groups.hpp"
#include "suite/run.hpp"

namespace assay::conformance {
namespace {

using enum Source;

std::vector<unsigned char> pattern(std::size_t size) {
  std::vector<unsigned char> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(i * 7 + i / 251);
  return bytes;
}

void round_trip(Run& run) {
  bool same = true;
  for (const std::size_t size : {std::size_t{1}, std::size_t{4095}, MiB + 13}) {
    const auto sent = pattern(size);
    const DevicePointer address = run.device(size);
    run.must(run.cu.cuMemcpyHtoD_v2(address, sent.data(), size), "cuMemcpyHtoD");
    std::vector<unsigned char> back(size);
    run.must(run.cu.cuMemcpyDtoH_v2(back.data(), address, size), "cuMemcpyDtoH");
    same = same && back == sent;
  }
  run.holds("what comes back is what was sent", same);
}

void inner_range(Run& run) {
  const DevicePointer address = run.device(page);
  run.fill(address, 0x11, page);
  const auto sent = pattern(100);
  run.must(run.cu.cuMemcpyHtoD_v2(address + 1000, sent.data(), sent.size()), "cuMemcpyHtoD");
  std::vector<unsigned char> back(102);
  run.must(run.cu.cuMemcpyDtoH_v2(back.data(), address + 999, back.size()), "cuMemcpyDtoH");
  run.holds("the range holds what was sent",
            std::equal(sent.begin(), sent.end(), back.begin() + 1));
  run.holds("its neighbours are as before", back.front() == 0x11 && back.back() == 0x11);
}

void within_device(Run& run) {
  const DevicePointer from = run.device(page);
  const DevicePointer to = run.device(page);
  run.fill(from, 0x77, page);
  run.fill(to, 0x11, page);
  run.code("cuMemcpyDtoD", run.cu.cuMemcpyDtoD_v2(to, from, page));
  run.holds("the target holds the source", run.filled(to, 0x77, page));
  run.holds("the source is as before", run.filled(from, 0x77, page));
}

void any_kind(Run& run) {
  std::byte* const host_memory = run.pinned(page);
  const DevicePointer device = run.device(page);
  std::memset(host_memory, 0x42, page);
  run.code("pinned to device", run.cu.cuMemcpy(device, address_of(host_memory), page));
  run.wait();
  std::memset(host_memory, 0, page);
  run.code("device to pinned", run.cu.cuMemcpy(address_of(host_memory), device, page));
  run.wait();
  run.holds("the bytes came back",
            host_memory[0] == std::byte{0x42} && host_memory[page - 1] == std::byte{0x42});
}

void any_kind_managed(Run& run) {
  const DevicePointer managed = run.managed(page);
  const DevicePointer device = run.device(page);
  std::memset(host(managed), 0x51, page);
  run.code("managed to device", run.cu.cuMemcpy(device, managed, page));
  run.holds("the device has them", run.filled(device, 0x51, page));
  run.fill(device, 0x52, page);
  run.code("device to managed", run.cu.cuMemcpy(managed, device, page));
  run.wait();
  run.holds("the host sees them", host(managed)[page - 1] == std::byte{0x52});
}

void source_is_free(Run& run) {
  std::vector<unsigned char> sent(page, 0x24);
  const DevicePointer address = run.device(page);
  run.must(run.cu.cuMemcpyHtoD_v2(address, sent.data(), page), "cuMemcpyHtoD");
  std::fill(sent.begin(), sent.end(), static_cast<unsigned char>(0x99));
  run.holds("the device holds the bytes from before", run.filled(address, 0x24, page));
}

void async_round_trip(Run& run) {
  const abi::Stream stream = run.stream();
  std::byte* const sent = run.pinned(page);
  std::byte* const back = run.pinned(page);
  const DevicePointer first = run.device(page);
  const DevicePointer second = run.device(page);
  std::memset(sent, 0x3C, page);
  std::memset(back, 0, page);
  run.code("cuMemcpyHtoDAsync", run.cu.cuMemcpyHtoDAsync_v2(first, sent, page, stream));
  run.code("cuMemcpyDtoDAsync", run.cu.cuMemcpyDtoDAsync_v2(second, first, page, stream));
  run.code("cuMemcpyDtoHAsync", run.cu.cuMemcpyDtoHAsync_v2(back, second, page, stream));
  run.code("cuStreamSynchronize", run.cu.cuStreamSynchronize(stream));
  run.holds("what comes back is what was sent", std::memcmp(back, sent, page) == 0);
  std::memset(back, 0, page);
  run.code("cuMemcpyAsync", run.cu.cuMemcpyAsync(address_of(back), second, page, stream));
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.holds("and again", std::memcmp(back, sent, page) == 0);
}

void late(Run& run) {
  const abi::Stream stream = run.stream();
  std::byte* const back = run.pinned(4096);
  const DevicePointer address = run.device(4096);
  run.fill(address, 0x66, 4096);
  std::memset(back, 0x11, 4096);
  Gate gate(run, stream);
  run.code("cuMemcpyDtoHAsync", run.cu.cuMemcpyDtoHAsync_v2(back, address, 4096, stream));
  run.code("cuStreamQuery", run.cu.cuStreamQuery(stream));
  run.holds("the target is as before", back[0] == std::byte{0x11} && back[4095] == std::byte{0x11});
  gate.open();
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.holds("after the wait it is not",
            back[0] == std::byte{0x66} && back[4095] == std::byte{0x66});
}

void lazy(Run& run) {
  run.need_lazy_model();
  const abi::Stream stream = run.stream();
  std::byte* const back = run.pinned(4096);
  const DevicePointer address = run.device(4096);
  run.fill(address, 0x66, 4096);
  std::memset(back, 0x11, 4096);
  run.must(run.cu.cuMemcpyDtoHAsync_v2(back, address, 4096, stream), "cuMemcpyDtoHAsync");
  run.holds("a host that does not wait reads the old bytes", back[0] == std::byte{0x11});
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.holds("one that waits reads the new", back[0] == std::byte{0x66});
}

constexpr std::size_t size = 4096;

Status to_device(Run& run, DevicePointer address, std::size_t bytes) {
  static unsigned char host_bytes[2 * size] = {};
  return run.cu.cuMemcpyHtoD_v2(address, host_bytes, bytes);
}
Status to_host(Run& run, DevicePointer address, std::size_t bytes) {
  static unsigned char host_bytes[2 * size];
  return run.cu.cuMemcpyDtoH_v2(host_bytes, address, bytes);
}

DevicePointer freed(Run& run) {
  const DevicePointer address = run.device(size);
  run.must(run.cu.cuMemFree_v2(address), "cuMemFree");
  return address;
}

Tests ranges() {
  return {
      answers("copy.to_device_past_end", "a copy stays within its target allocation",
              {invalid_value}, hip,
              [](Run& run) { return to_device(run, run.device(size), size + 1); }),
      answers("copy.to_device_interior_past_end", "also from an inner address", {invalid_value},
              hip, [](Run& run) { return to_device(run, run.device(size) + 1, size); }),
      answers("copy.to_host_past_end", "and within its source", {invalid_value}, hip,
              [](Run& run) { return to_host(run, run.device(size), size + 1); }),
      answers("copy.within_device_past_source", "a source on the device is checked",
              {invalid_value}, hip,
              [](Run& run) {
                return run.cu.cuMemcpyDtoD_v2(run.device(2 * size), run.device(size), size + 1);
              }),
      answers("copy.within_device_past_target", "and so is a target", {invalid_value}, hip,
              [](Run& run) {
                return run.cu.cuMemcpyDtoD_v2(run.device(size), run.device(2 * size), size + 1);
              }),
      answers("copy.async_past_end", "asynchronous copies are checked at the call", {invalid_value},
              hip,
              [](Run& run) {
                return run.cu.cuMemcpyHtoDAsync_v2(run.device(size), run.pinned(2 * size), size + 1,
                                                   run.stream());
              }),
      answers("copy.to_device_null", "null is no target", {invalid_value}, hip,
              [](Run& run) { return to_device(run, 0, size); }),
      answers("copy.to_host_null", "null is no source", {invalid_value}, hip,
              [](Run& run) { return to_host(run, 0, size); }),
      answers("copy.to_freed", "freed memory is no target", {invalid_value}, hip,
              [](Run& run) { return to_device(run, freed(run), size); }),
      answers("copy.from_freed", "nor a source", {invalid_value}, hip,
              [](Run& run) { return to_host(run, freed(run), size); }),
      answers(
          "copy.to_device_pageable", "a program's own memory is no device memory", {invalid_value},
          hip, [](Run& run) { return to_device(run, address_of(run.pageable(page)), size); },
          without(DeviceAttribute::pageable_memory_access)),
      answers("copy.size_zero", "size 0 does nothing", {ok}, unsure,
              [](Run& run) { return to_device(run, run.device(size), 0); }),
      answers("copy.size_zero_async", "size 0 does nothing on a stream", {ok}, unsure,
              [](Run& run) {
                return run.cu.cuMemcpyDtoDAsync_v2(run.device(size), run.device(size), 0,
                                                   run.stream());
              }),
      answers(
          "copy.null_host_source", "a copy needs a host source", {invalid_value}, hip,
          [](Run& run) { return run.cu.cuMemcpyHtoD_v2(run.device(size), nullptr, size); },
          model_only("a driver may read the null page's neighbours")),
      answers(
          "copy.null_host_target", "a copy needs a host target", {invalid_value}, hip,
          [](Run& run) { return run.cu.cuMemcpyDtoH_v2(nullptr, run.device(size), size); },
          null_out_pointer()),
      answers(
          "copy.dead_stream", "a destroyed stream takes no copy",
          {invalid_handle, context_is_destroyed}, hip,
          [](Run& run) {
            const abi::Stream stream = run.stream();
            run.must(run.cu.cuStreamDestroy_v2(stream), "cuStreamDestroy");
            return run.cu.cuMemcpyDtoDAsync_v2(run.device(size), run.device(size), size, stream);
          },
          model_only("the use of a dead handle is undefined")),
  };
}

}  // namespace

Tests copy_tests() {
  const Needs gates = having(cuda::Feature::tests);
  Tests tests = {
      {"copy.round_trip",
       "bytes survive the way to the device and back",
       {},
       {holds("what comes back is what was sent", hdr)},
       round_trip},
      {"copy.inner_range",
       "a copy touches its range alone",
       {},
       {holds("the range holds what was sent", hdr), holds("its neighbours are as before", hdr)},
       inner_range},
      {"copy.within_device",
       "a copy within the device",
       {},
       {succeeds("cuMemcpyDtoD", hdr), holds("the target holds the source", hdr),
        holds("the source is as before", hdr)},
       within_device},
      {"copy.any_kind",
       "cuMemcpy finds out for itself where pinned memory lies",
       with(DeviceAttribute::unified_addressing),
       {succeeds("pinned to device", hdr), succeeds("device to pinned", hdr),
        holds("the bytes came back", hdr)},
       any_kind},
      {"copy.any_kind_managed",
       "and managed memory",
       with(DeviceAttribute::managed_memory),
       {succeeds("managed to device", hdr), holds("the device has them", hdr),
        succeeds("device to managed", hdr), holds("the host sees them", hdr)},
       any_kind_managed},
      {"copy.source_is_free",
       "when a copy from pageable memory returns, its source may be written",
       {},
       {holds("the device holds the bytes from before", doc)},
       source_is_free},
      {"copy.async_round_trip",
       "asynchronous copies are done when their stream is",
       {},
       {succeeds("cuMemcpyHtoDAsync", hdr), succeeds("cuMemcpyDtoDAsync", hdr),
        succeeds("cuMemcpyDtoHAsync", hdr), succeeds("cuStreamSynchronize", hdr),
        holds("what comes back is what was sent", hdr), succeeds("cuMemcpyAsync", hdr),
        holds("and again", hdr)},
       async_round_trip},
      {"copy.async_waits_for_its_turn",
       "an asynchronous copy waits for the work before it on its stream",
       gates,
       {succeeds("cuMemcpyDtoHAsync", hdr), code("cuStreamQuery", {not_ready}, hdr),
        holds("the target is as before", hdr), holds("after the wait it is not", hdr)},
       late},
      {"copy.async_is_lazy",
       "the model runs asynchronous work as late as it may, so that a missing wait shows",
       model_only("a driver runs work when it likes"),
       {holds("a host that does not wait reads the old bytes", model),
        holds("one that waits reads the new", model)},
       lazy},
  };
  for (Test& test : ranges()) tests.push_back(std::move(test));
  return tests;
}

}  // namespace assay::conformance
