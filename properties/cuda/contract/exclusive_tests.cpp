// Exclusive access: managed memory on a device that must be idle while the host touches it.
#include <cstring>

#include "contract/groups.hpp"
#include "contract/launch.hpp"

namespace assay::conformance {
namespace {

using enum Source;

Needs exclusive() {
  return in({cuda::Regime::exclusive}) + having(cuda::Feature::tests);
}

void busy(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer unrelated = run.managed(page);
  run.signal("host write before", write_at(host(unrelated)));
  Spin spin(run, stream);
  run.signal("host read while a kernel runs", read_at(host(unrelated)));
  run.signal("host write while a kernel runs", write_at(host(unrelated)));
  spin.let_go();
  run.code("cuStreamSynchronize", run.cu.cuStreamSynchronize(stream));
  run.signal("host write after the wait", write_at(host(unrelated)));
}

void query_reopens(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer memory = run.managed(page);
  Spin spin(run, stream);
  run.code("query while it runs", run.cu.cuStreamQuery(stream));
  run.signal("host read then", read_at(host(memory)));
  spin.let_go();
  Status status = Status::not_ready;
  while (status == Status::not_ready) status = run.cu.cuStreamQuery(stream);
  run.code("query once it is done", status);
  run.signal("host read after that", read_at(host(memory)));
}

void destroy_is_no_wait(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer memory = run.managed(page);
  Spin spin(run, stream);
  run.must(run.cu.cuStreamDestroy_v2(stream), "cuStreamDestroy");
  spin.let_go();
  run.signal("host read after the stream was destroyed", read_at(host(memory)));
  run.code("cuCtxSynchronize", run.cu.cuCtxSynchronize());
  run.signal("host read after a wait", read_at(host(memory)));
}

void launched_is_busy(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer memory = run.managed(page);
  Spin spin(run, stream);
  spin.let_go();  // the kernel may well be done; nobody asked
  run.signal("host read after a launch without a wait", read_at(host(memory)));
}

void pinned_stays_open(Run& run) {
  const abi::Stream stream = run.stream();
  std::byte* const pinned = run.pinned(page);
  Spin spin(run, stream);
  run.signal("host write to pinned memory", write_at(pinned));
  spin.let_go();
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
}

void attached_to_host(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer memory = run.managed(page, abi::mem_attach_host);
  Spin spin(run, stream);
  run.signal("host write while a kernel runs", write_at(host(memory)));
  spin.let_go();
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
}

void attach_narrows(Run& run) {
  const abi::Stream owner = run.stream();
  const abi::Stream other = run.stream();
  const DevicePointer memory = run.managed(page);
  run.must(run.cu.cuStreamAttachMemAsync(owner, memory, 0, abi::mem_attach_single),
           "cuStreamAttachMemAsync");
  run.must(run.cu.cuStreamSynchronize(owner), "cuStreamSynchronize");
  {
    Spin spin(run, other);
    run.signal("host write while another stream works", write_at(host(memory)));
    spin.let_go();
    run.must(run.cu.cuStreamSynchronize(other), "cuStreamSynchronize");
  }
  Spin spin(run, owner);
  run.signal("host write while its stream works", write_at(host(memory)));
  spin.let_go();
  run.must(run.cu.cuStreamSynchronize(owner), "cuStreamSynchronize");
  run.signal("host write after its stream's wait", write_at(host(memory)));
}

void attach_to_host_opens(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer memory = run.managed(page);
  run.must(run.cu.cuStreamAttachMemAsync(stream, memory, 0, abi::mem_attach_host),
           "cuStreamAttachMemAsync");
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  Spin spin(run, stream);
  run.signal("host write while a kernel runs", write_at(host(memory)));
  spin.let_go();
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
}

void attach_to_all_closes(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer memory = run.managed(page, abi::mem_attach_host);
  run.must(run.cu.cuStreamAttachMemAsync(stream, memory, 0, abi::mem_attach_global),
           "cuStreamAttachMemAsync");
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  Spin spin(run, stream);
  run.signal("host write while a kernel runs", write_at(host(memory)));
  spin.let_go();
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
}

void contents_survive(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer memory = run.managed(page);
  std::memset(host(memory), 0x2B, page);
  {
    Spin spin(run, stream);
    spin.let_go();
  }
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.holds("the bytes are as before",
            host(memory)[0] == std::byte{0x2B} && host(memory)[page - 1] == std::byte{0x2B});
}

void event_reopens(Run& run) {
  const abi::Stream stream = run.stream();
  const abi::Event event = run.event();
  const DevicePointer memory = run.managed(page);
  Spin spin(run, stream);
  run.must(run.cu.cuEventRecord(event, stream), "cuEventRecord");
  spin.let_go();
  run.code("cuEventSynchronize", run.cu.cuEventSynchronize(event));
  run.signal("host read after it", read_at(host(memory)));
}

}  // namespace

Tests exclusive_tests() {
  return {
      {"exclusive.busy",
       "while any kernel runs the host reaches no managed memory, related to it or not",
       exclusive(),
       {touches("host write before", doc), faults("host read while a kernel runs", doc),
        faults("host write while a kernel runs", doc), succeeds("cuStreamSynchronize", doc),
        touches("host write after the wait", doc)},
       busy},
      {"exclusive.query_reopens",
       "a query that succeeds counts as a wait, one that does not does not",
       exclusive(),
       {code("query while it runs", {not_ready}, doc), faults("host read then", doc),
        succeeds("query once it is done", doc), touches("host read after that", doc)},
       query_reopens},
      {"exclusive.event_reopens",
       "and so does an event's wait",
       exclusive(),
       {succeeds("cuEventSynchronize", doc), touches("host read after it", doc)},
       event_reopens},
      {"exclusive.destroy_is_no_wait",
       "the end of a stream's handle is no wait",
       exclusive(),
       {faults("host read after the stream was destroyed", iss), succeeds("cuCtxSynchronize", doc),
        touches("host read after a wait", doc)},
       destroy_is_no_wait},
      {"exclusive.launched_is_busy",
       "a launch that nobody waited for keeps the host out, done or not",
       exclusive(),
       {faults("host read after a launch without a wait", doc)},
       launched_is_busy},
      {"exclusive.pinned_stays_open",
       "pinned memory is open all the time",
       exclusive(),
       {touches("host write to pinned memory", doc)},
       pinned_stays_open},
      {"exclusive.attached_to_host",
       "memory attached to the host is open all the time",
       exclusive(),
       {touches("host write while a kernel runs", doc)},
       attached_to_host},
      {"exclusive.attach_narrows",
       "memory attached to one stream is closed by that stream alone",
       exclusive(),
       {touches("host write while another stream works", doc),
        faults("host write while its stream works", doc),
        touches("host write after its stream's wait", doc)},
       attach_narrows},
      {"exclusive.attach_to_host_opens",
       "attaching to the host opens",
       exclusive(),
       {touches("host write while a kernel runs", doc)},
       attach_to_host_opens},
      {"exclusive.attach_to_all_closes",
       "attaching to all streams closes",
       exclusive(),
       {faults("host write while a kernel runs", doc)},
       attach_to_all_closes},
      {"exclusive.contents_survive",
       "being closed changes no byte",
       exclusive(),
       {holds("the bytes are as before", doc)},
       contents_survive},
  };
}

}  // namespace assay::conformance
