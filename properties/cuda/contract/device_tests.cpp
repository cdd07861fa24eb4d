// Devices and what they say of themselves.
#include <algorithm>
#include <cstring>

#include "contract/groups.hpp"
#include "suite/run.hpp"

namespace assay::conformance {
namespace {

using enum Source;
using Attribute = DeviceAttribute;

int count_of(Run& run) {
  int count = 0;
  run.must(run.cu.cuDeviceGetCount(&count), "cuDeviceGetCount");
  return count;
}

int attribute(Run& run, Attribute which) {
  int value = 0;
  return run.cu.cuDeviceGetAttribute(&value, which, 0) == Status::success ? value : 0;
}

void first_device(Run& run) {
  int count = 0;
  run.code("cuDeviceGetCount", run.cu.cuDeviceGetCount(&count));
  run.holds("there is a device", count > 0);
  abi::Device device = -7;
  run.code("cuDeviceGet", run.cu.cuDeviceGet(&device, 0));
  run.value("device 0", device);
}

void bad_ordinal(Run& run) {
  abi::Device device = -7;
  run.code("cuDeviceGet of the count", run.cu.cuDeviceGet(&device, count_of(run)));
  run.holds("the device is untouched", device == -7);
  run.code("cuDeviceGet of -1", run.cu.cuDeviceGet(&device, -1));
}

void name(Run& run) {
  char text[256];
  std::memset(text, 'x', sizeof text);
  run.code("cuDeviceGetName", run.cu.cuDeviceGetName(text, sizeof text, 0));
  const auto* const end = std::find(text, text + sizeof text, '\0');
  run.holds("the name ends within its bytes and is not empty",
            end != text + sizeof text && end != text);
  run.holds("it says MODEL exactly where it is one",
            std::string_view(text).starts_with("MODEL") == (run.model != nullptr));
}

void short_name(Run& run) {
  char text[8];
  std::memset(text, 'x', sizeof text);
  run.code("cuDeviceGetName", run.cu.cuDeviceGetName(text, 4, 0));
  run.holds("nothing is written past the length",
            std::all_of(text + 4, text + 8, [](char c) { return c == 'x'; }));
}

void uuid(Run& run) {
  abi::Uuid first{};
  abi::Uuid second{};
  run.code("cuDeviceGetUuid", run.cu.cuDeviceGetUuid_v2(&first, 0));
  run.must(run.cu.cuDeviceGetUuid_v2(&second, 0), "cuDeviceGetUuid again");
  run.holds("it is not zero", std::any_of(std::begin(first.bytes), std::end(first.bytes),
                                          [](char c) { return c != 0; }));
  run.holds("it stays the same", std::memcmp(&first, &second, sizeof first) == 0);
}

void pci(Run& run) {
  char text[32] = {};
  run.code("cuDeviceGetPCIBusId", run.cu.cuDeviceGetPCIBusId(text, sizeof text, 0));
  const std::string_view id = text;  // 0000:00:00.0
  run.holds("it reads domain:bus:device.function",
            id.size() >= 12 && id[4] == ':' && id[7] == ':' && id[10] == '.');
}

void total(Run& run) {
  std::size_t device_total = 0;
  run.code("cuDeviceTotalMem", run.cu.cuDeviceTotalMem_v2(&device_total, 0));
  std::size_t free = 0;
  std::size_t context_total = 0;
  run.code("cuMemGetInfo", run.cu.cuMemGetInfo_v2(&free, &context_total));
  run.holds("free is at most total", free <= context_total);
  run.holds("both totals are positive", device_total > 0 && context_total > 0);
  run.holds("what a context sees is no more than the device has", context_total <= device_total);
}

void unknown_attribute(Run& run) {
  int value = 77;
  run.code("cuDeviceGetAttribute",
           run.cu.cuDeviceGetAttribute(&value, static_cast<Attribute>(100'000), 0));
  run.holds("the value is untouched", value == 77);
}

void newer_attribute(Run& run) {
  int value = 0;
  run.code("cuDeviceGetAttribute", run.cu.cuDeviceGetAttribute(&value, Attribute::host_numa_id, 0));
}

void regime_attributes(Run& run) {
  const bool managed = attribute(run, Attribute::managed_memory) != 0;
  const bool concurrent = attribute(run, Attribute::concurrent_managed_access) != 0;
  const bool pageable = attribute(run, Attribute::pageable_memory_access) != 0;
  const bool host_tables =
      attribute(run, Attribute::pageable_memory_access_uses_host_page_tables) != 0;
  run.holds("concurrent access implies managed memory", !concurrent || managed);
  run.holds("pageable access implies concurrent access", !pageable || concurrent);
  run.holds("host page tables imply pageable access", !host_tables || pageable);
  run.holds("host and device share addresses", attribute(run, Attribute::unified_addressing) != 0);
  run.holds("pinned memory can be mapped", attribute(run, Attribute::can_map_host_memory) != 0);
}

void same_facts_without_context(Run& run) {
  int before = 0;
  run.code("cuDeviceGetAttribute",
           run.cu.cuDeviceGetAttribute(&before, Attribute::managed_memory, 0));
  abi::Context current = nullptr;
  run.must(run.cu.cuCtxGetCurrent(&current), "cuCtxGetCurrent");
  run.holds("no context is current for it", current == nullptr);
}

Test bad_device(const char* id, const char* states, Call call) {
  return answers(id, states, {invalid_device}, lup, call, from(Start::initialised));
}

Tests bad_devices() {
  return {
      bad_device("device.bad_name", "cuDeviceGetName of a device that is not there",
                 [](Run& run) {
                   char text[64];
                   return run.cu.cuDeviceGetName(text, sizeof text, count_of(run));
                 }),
      bad_device("device.bad_uuid", "cuDeviceGetUuid of a device that is not there",
                 [](Run& run) {
                   abi::Uuid uuid{};
                   return run.cu.cuDeviceGetUuid_v2(&uuid, count_of(run));
                 }),
      bad_device("device.bad_total", "cuDeviceTotalMem of a device that is not there",
                 [](Run& run) {
                   std::size_t bytes = 0;
                   return run.cu.cuDeviceTotalMem_v2(&bytes, count_of(run));
                 }),
      bad_device("device.bad_attribute", "cuDeviceGetAttribute of a device that is not there",
                 [](Run& run) {
                   int value = 0;
                   return run.cu.cuDeviceGetAttribute(&value, Attribute::managed_memory,
                                                      count_of(run));
                 }),
      bad_device("device.bad_retain", "cuDevicePrimaryCtxRetain of a device that is not there",
                 [](Run& run) {
                   abi::Context context = nullptr;
                   return run.cu.cuDevicePrimaryCtxRetain(&context, count_of(run));
                 }),
      bad_device("device.bad_release", "cuDevicePrimaryCtxRelease of a device that is not there",
                 [](Run& run) { return run.cu.cuDevicePrimaryCtxRelease_v2(count_of(run)); }),
      bad_device("device.bad_state", "cuDevicePrimaryCtxGetState of a device that is not there",
                 [](Run& run) {
                   unsigned flags = 0;
                   int active = 0;
                   return run.cu.cuDevicePrimaryCtxGetState(count_of(run), &flags, &active);
                 }),
  };
}

}  // namespace

Tests device_tests() {
  const Needs early = from(Start::initialised);
  Tests tests = {
      {"device.first",
       "device 0 is there and its handle is its ordinal",
       early,
       {succeeds("cuDeviceGetCount", hdr), holds("there is a device", hdr),
        succeeds("cuDeviceGet", hdr), value("device 0", {0}, hdr)},
       first_device},
      {"device.bad_ordinal",
       "an ordinal that is not there is refused",
       early,
       {code("cuDeviceGet of the count", {invalid_device}, lup),
        holds("the device is untouched", lup), code("cuDeviceGet of -1", {invalid_device}, lup)},
       bad_ordinal},
      {"device.name",
       "a device has a name, and the model says what it is",
       early,
       {succeeds("cuDeviceGetName", hdr),
        holds("the name ends within its bytes and is not empty", hdr),
        holds("it says MODEL exactly where it is one", model)},
       name},
      {"device.name_short",
       "a name is cut to the length given",
       early,
       {recorded(Expectation::Kind::code, "cuDeviceGetName"),
        holds("nothing is written past the length", hdr)},
       short_name},
      {"device.uuid",
       "a device has a UUID that stays",
       early,
       {succeeds("cuDeviceGetUuid", hdr), holds("it is not zero", hdr),
        holds("it stays the same", hdr)},
       uuid},
      {"device.pci",
       "a device has a PCI bus id",
       early + having(cuda::Feature::pci_bus_id),
       {succeeds("cuDeviceGetPCIBusId", hdr), holds("it reads domain:bus:device.function", hdr)},
       pci},
      {"device.total",
       "sizes of memory agree with each other",
       {},
       {succeeds("cuDeviceTotalMem", hdr), succeeds("cuMemGetInfo", hdr),
        holds("free is at most total", hdr), holds("both totals are positive", hdr),
        holds("what a context sees is no more than the device has", hdr)},
       total},
      {"device.attribute_unknown",
       "an unknown attribute is refused",
       early,
       {code("cuDeviceGetAttribute", {invalid_value}, lup), holds("the value is untouched", lup)},
       unknown_attribute},
      {"device.attribute_newer",
       "an attribute newer than the driver is unknown to it",
       early + before(12020),
       {code("cuDeviceGetAttribute", {invalid_value}, lup)},
       newer_attribute},
      {"device.regime",
       "the attributes of unified memory fit together",
       early,
       {holds("concurrent access implies managed memory", doc),
        holds("pageable access implies concurrent access", doc),
        holds("host page tables imply pageable access", doc),
        holds("host and device share addresses", doc), holds("pinned memory can be mapped", doc)},
       regime_attributes},
      {"device.no_context_needed",
       "device queries need no context",
       early,
       {succeeds("cuDeviceGetAttribute", hdr), holds("no context is current for it", hdr)},
       same_facts_without_context},
      answers(
          "device.null_count", "cuDeviceGetCount needs somewhere to write", {invalid_value}, lup,
          [](Run& run) { return run.cu.cuDeviceGetCount(nullptr); }, early + null_out_pointer()),
      answers(
          "device.null_attribute", "cuDeviceGetAttribute needs somewhere to write", {invalid_value},
          lup,
          [](Run& run) {
            return run.cu.cuDeviceGetAttribute(nullptr, Attribute::managed_memory, 0);
          },
          early + null_out_pointer()),
      answers(
          "device.null_total", "cuDeviceTotalMem needs somewhere to write", {invalid_value}, lup,
          [](Run& run) { return run.cu.cuDeviceTotalMem_v2(nullptr, 0); },
          early + null_out_pointer()),
  };
  for (Test& test : bad_devices()) tests.push_back(std::move(test));
  return tests;
}

}  // namespace assay::conformance
