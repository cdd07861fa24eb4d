// Gates: cuStreamWaitValue32 and cuStreamWriteValue32 on pinned memory.
#include <atomic>
#include <cstring>

#include "contract/groups.hpp"
#include "suite/run.hpp"

namespace assay::conformance {
namespace {

using enum Source;

/// A word of pinned memory, and its address on the device.
struct Word {
  explicit Word(Run& run, std::uint32_t first)
      : at(reinterpret_cast<std::uint32_t*>(run.pinned(page, abi::host_alloc_device_map))) {
    store(first);
    run.must(run.cu.cuMemHostGetDevicePointer_v2(&device, at, 0), "cuMemHostGetDevicePointer");
  }
  void store(std::uint32_t value) const {
    std::atomic_ref<std::uint32_t>(*at).store(value, std::memory_order_release);
  }
  [[nodiscard]] std::uint32_t load() const {
    return std::atomic_ref<std::uint32_t>(*at).load(std::memory_order_acquire);
  }
  std::uint32_t* at;
  DevicePointer device = 0;
};

/// Does a wait for `value` under `flags` hold while the word is `closed`, and end at `open`?
void holds_and_opens(Run& run, std::uint32_t closed, std::uint32_t open, std::uint32_t value,
                     unsigned flags) {
  const abi::Stream stream = run.stream();
  const Word word(run, closed);
  run.code("cuStreamWaitValue32", run.cu.cuStreamWaitValue32_v2(stream, word.device, value, flags));
  const Status before = run.cu.cuStreamQuery(stream);
  word.store(open);
  run.code("while it is closed", before);
  run.code("once it is open", run.cu.cuStreamSynchronize(stream));
}

std::vector<Expectation> gate_outcomes() {
  return {succeeds("cuStreamWaitValue32", hdr), code("while it is closed", {not_ready}, hdr),
          succeeds("once it is open", hdr)};
}

void equal(Run& run) {
  holds_and_opens(run, 6, 7, 7, abi::wait_value_eq);
}
void at_least(Run& run) {
  holds_and_opens(run, 6, 9, 7, abi::wait_value_geq);
}
/// GEQ compares a difference as int32: a counter may wrap around.
void at_least_wrapped(Run& run) {
  holds_and_opens(run, 0xFFFF'FFF0u, 3, 2, abi::wait_value_geq);
}
void any_bit(Run& run) {
  holds_and_opens(run, 0b0100, 0b0010, 0b0011, abi::wait_value_and);
}
void not_all_bits(Run& run) {
  holds_and_opens(run, 0xFFFF'FFFEu, 0xFFFF'FFF0u, 0b0001, abi::wait_value_nor);
}

void already_open(Run& run) {
  const abi::Stream stream = run.stream();
  const Word word(run, 7);
  run.must(run.cu.cuStreamWaitValue32_v2(stream, word.device, 7, abi::wait_value_eq),
           "cuStreamWaitValue32");
  run.code("cuStreamSynchronize", run.cu.cuStreamSynchronize(stream));
}

void written(Run& run) {
  const abi::Stream stream = run.stream();
  const Word word(run, 1);
  run.code("cuStreamWriteValue32", run.cu.cuStreamWriteValue32_v2(stream, word.device, 77, 0));
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.value("the word", word.load());
}

void write_waits_for_its_turn(Run& run) {
  const abi::Stream stream = run.stream();
  const Word word(run, 1);
  Gate gate(run, stream);
  run.must(run.cu.cuStreamWriteValue32_v2(stream, word.device, 77, 0), "cuStreamWriteValue32");
  run.code("cuStreamQuery", run.cu.cuStreamQuery(stream));
  run.value("the word behind a closed gate", word.load());
  gate.open();
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.value("the word afterwards", word.load());
}

void opened_by_a_stream(Run& run) {
  const abi::Stream waiting = run.stream();
  const abi::Stream writing = run.stream();
  const Word word(run, 1);
  run.must(run.cu.cuStreamWaitValue32_v2(waiting, word.device, 2, abi::wait_value_eq),
           "cuStreamWaitValue32");
  run.must(run.cu.cuStreamWriteValue32_v2(writing, word.device, 2, 0), "cuStreamWriteValue32");
  run.must(run.cu.cuStreamSynchronize(writing), "cuStreamSynchronize");
  run.code("the waiting stream", run.cu.cuStreamSynchronize(waiting));
}

void opened_by_watchdog(Run& run) {
  const abi::Stream stream = run.stream();
  const Word word(run, 0);
  run.must(run.cu.cuStreamWaitValue32_v2(stream, word.device, 1, abi::wait_value_eq),
           "cuStreamWaitValue32");
  run.code("while it is closed", run.cu.cuStreamQuery(stream));
  run.model->open_gates();
  run.code("once the model opened all gates", run.cu.cuStreamSynchronize(stream));
}

}  // namespace

Tests gate_tests() {
  const Needs gates = having(cuda::Feature::tests);
  return {
      {"gate.equal", "EQ waits for the value", gates, gate_outcomes(), equal},
      {"gate.at_least", "GEQ waits for the value or a greater one", gates, gate_outcomes(),
       at_least},
      {"gate.at_least_wrapped", "as a signed difference, which wraps around", gates,
       gate_outcomes(), at_least_wrapped},
      {"gate.any_bit", "AND waits for any of the value's bits", gates, gate_outcomes(), any_bit},
      {"gate.not_all_bits", "NOR waits until a bit is clear in both", gates, gate_outcomes(),
       not_all_bits},
      {"gate.already_open",
       "an open gate holds up nobody",
       gates,
       {succeeds("cuStreamSynchronize", hdr)},
       already_open},
      {"gate.written",
       "a stream writes a word",
       gates,
       {succeeds("cuStreamWriteValue32", hdr), value("the word", {77}, hdr)},
       written},
      {"gate.write_waits_for_its_turn",
       "in its order",
       gates,
       {code("cuStreamQuery", {not_ready}, hdr), value("the word behind a closed gate", {1}, hdr),
        value("the word afterwards", {77}, hdr)},
       write_waits_for_its_turn},
      {"gate.opened_by_a_stream",
       "one stream opens another's gate",
       gates,
       {succeeds("the waiting stream", hdr)},
       opened_by_a_stream},
      {"gate.opened_by_watchdog",
       "the model's watchdog opens what nobody opens",
       gates + model_only("a driver has no such call"),
       {code("while it is closed", {not_ready}, hdr),
        succeeds("once the model opened all gates", model)},
       opened_by_watchdog},
      answers(
          "gate.unaligned", "a word is aligned", {invalid_value}, hdr,
          [](Run& run) {
            const Word word(run, 0);
            return run.cu.cuStreamWaitValue32_v2(run.stream(), word.device + 2, 0,
                                                 abi::wait_value_eq);
          },
          gates),
      answers(
          "gate.unmapped", "a word is memory that the device reaches", {invalid_value}, hdr,
          [](Run& run) {
            return run.cu.cuStreamWaitValue32_v2(run.stream(), address_of(run.pageable(page)), 0,
                                                 abi::wait_value_eq);
          },
          gates + without(DeviceAttribute::pageable_memory_access)),
      answers(
          "gate.null", "null is no word", {invalid_value}, hdr,
          [](Run& run) {
            return run.cu.cuStreamWaitValue32_v2(run.stream(), 0, 0, abi::wait_value_eq);
          },
          gates),
      answers(
          "gate.managed", "a word is not in managed memory", {invalid_value}, hdr,
          [](Run& run) {
            return run.cu.cuStreamWaitValue32_v2(run.stream(), run.managed(page), 0,
                                                 abi::wait_value_eq);
          },
          gates + with(DeviceAttribute::managed_memory)),
      answers(
          "gate.flags", "unknown flags are refused", {invalid_value}, hdr,
          [](Run& run) {
            const Word word(run, 0);
            return run.cu.cuStreamWaitValue32_v2(run.stream(), word.device, 0, 0x100);
          },
          gates),
      answers(
          "gate.write_unaligned", "a written word is aligned", {invalid_value}, hdr,
          [](Run& run) {
            const Word word(run, 0);
            return run.cu.cuStreamWriteValue32_v2(run.stream(), word.device + 2, 0, 0);
          },
          gates),
  };
}

}  // namespace assay::conformance
