// Pointer attributes: what the driver says of an address.
#include <cstring>

#include "contract/groups.hpp"
#include "suite/run.hpp"

namespace assay::conformance {
namespace {

using enum Source;
using abi::PointerAttribute;
using Attribute = DeviceAttribute;

template <class T>
T read(Run& run, PointerAttribute attribute, DevicePointer address) {
  T value{};
  run.must(run.cu.cuPointerGetAttribute(&value, attribute, address), "cuPointerGetAttribute");
  return value;
}

/// What every kind of memory answers.
void describe_memory(Run& run, DevicePointer address, std::size_t size) {
  const DevicePointer inner = address + size / 2;
  run.value("memory type", read<unsigned>(run, PointerAttribute::memory_type, inner));
  run.value("managed", read<unsigned>(run, PointerAttribute::is_managed, inner));
  run.value("ordinal", read<int>(run, PointerAttribute::device_ordinal, inner));
  run.holds("the context is the one it was made in",
            read<abi::Context>(run, PointerAttribute::context, inner) == run.context);
  run.holds("the range begins at the allocation",
            read<DevicePointer>(run, PointerAttribute::range_start_addr, inner) == address);
  run.holds("and has its size",
            read<std::size_t>(run, PointerAttribute::range_size, inner) == size);
  run.holds("the device pointer is the address",
            read<DevicePointer>(run, PointerAttribute::device_pointer, inner) == inner);
}

std::vector<Expectation> description(std::int64_t type, Source type_source, std::int64_t managed) {
  return {value("memory type", {type}, type_source),
          value("managed", {managed}, hdr),
          value("ordinal", {0}, hdr),
          holds("the context is the one it was made in", hdr),
          holds("the range begins at the allocation", hdr),
          holds("and has its size", hdr),
          holds("the device pointer is the address", hdr)};
}

void device(Run& run) {
  describe_memory(run, run.device(page), page);
}
void managed(Run& run) {
  describe_memory(run, run.managed(page), page);
}
void pinned(Run& run) {
  describe_memory(run, address_of(run.pinned(page)), page);
}
void registered(Run& run) {
  describe_memory(run, address_of(run.registered(page)), page);
}

void host_pointers(Run& run) {
  std::byte* const pinned_memory = run.pinned(page);
  run.holds("of pinned memory", read<void*>(run, PointerAttribute::host_pointer,
                                            address_of(pinned_memory)) == pinned_memory);
  const DevicePointer managed_memory = run.managed(page);
  run.holds("of managed memory", read<void*>(run, PointerAttribute::host_pointer, managed_memory) ==
                                     host(managed_memory));
}

void buffer_ids(Run& run) {
  const auto id = [&](DevicePointer address) {
    return read<unsigned long long>(run, PointerAttribute::buffer_id, address);
  };
  const DevicePointer first = run.device(page);
  const DevicePointer second = run.device(page);
  const auto first_id = id(first);
  run.holds("the same within an allocation", first_id == id(first + 100));
  run.holds("another for another", first_id != id(second));
  run.must(run.cu.cuMemFree_v2(first), "cuMemFree");
  bool fresh = true;
  for (int i = 0; i < 8; ++i) fresh = fresh && id(run.device(page)) != first_id;
  run.holds("never that of a freed one", fresh);
}

void plural_unknown(Run& run) {
  unsigned type = 77;
  abi::Context context = run.context;
  void* pointer = &type;
  PointerAttribute which[] = {PointerAttribute::memory_type, PointerAttribute::context,
                              PointerAttribute::host_pointer};
  void* into[] = {&type, &context, &pointer};
  run.code("cuPointerGetAttributes",
           run.cu.cuPointerGetAttributes(3, which, into, address_of(run.pageable(page))));
  run.value("memory type", type);
  run.holds("no context, no pointer", context == nullptr && pointer == nullptr);
}

void plural_known(Run& run) {
  unsigned type = 0;
  int ordinal = -7;
  DevicePointer start = 0;
  PointerAttribute which[] = {PointerAttribute::memory_type, PointerAttribute::device_ordinal,
                              PointerAttribute::range_start_addr};
  void* into[] = {&type, &ordinal, &start};
  const DevicePointer address = run.device(page);
  run.code("cuPointerGetAttributes", run.cu.cuPointerGetAttributes(3, which, into, address + 9));
  run.holds("they are those of the single call", type == 2 && ordinal == 0 && start == address);
}

void sync_memops(Run& run) {
  const DevicePointer address = run.device(page);
  unsigned flag = 1;
  run.code("set", run.cu.cuPointerSetAttribute(&flag, PointerAttribute::sync_memops, address));
  run.value("read back", read<unsigned>(run, PointerAttribute::sync_memops, address));
  flag = 0;
  run.code("unset", run.cu.cuPointerSetAttribute(&flag, PointerAttribute::sync_memops, address));
  run.value("read back again", read<unsigned>(run, PointerAttribute::sync_memops, address));
}

Status ask(Run& run, DevicePointer address, PointerAttribute attribute) {
  unsigned long long value = 0;
  return run.cu.cuPointerGetAttribute(&value, attribute, address);
}

Tests refusals() {
  return {
      answers("pointer_attribute.unknown_pointer", "pageable memory has no attributes",
              {invalid_value}, hdr,
              [](Run& run) {
                return ask(run, address_of(run.pageable(page)), PointerAttribute::memory_type);
              }),
      answers("pointer_attribute.null_pointer", "nor has null", {invalid_value}, hdr,
              [](Run& run) { return ask(run, 0, PointerAttribute::memory_type); }),
      answers("pointer_attribute.freed", "nor has freed memory", {invalid_value}, hdr,
              [](Run& run) {
                const DevicePointer address = run.device(page);
                run.must(run.cu.cuMemFree_v2(address), "cuMemFree");
                return ask(run, address, PointerAttribute::memory_type);
              }),
      answers(
          "pointer_attribute.unregistered", "nor has memory that is registered no more",
          {invalid_value}, hdr,
          [](Run& run) {
            std::byte* const address = run.registered(page);
            run.must(run.cu.cuMemHostUnregister(address), "cuMemHostUnregister");
            return ask(run, address_of(address), PointerAttribute::memory_type);
          },
          with(Attribute::host_register_supported)),
      answers("pointer_attribute.host_pointer_of_device", "device memory has no host pointer",
              {invalid_value}, hdr,
              [](Run& run) { return ask(run, run.device(page), PointerAttribute::host_pointer); }),
      answers(
          "pointer_attribute.unknown", "an unknown attribute is refused", {invalid_value}, hdr,
          [](Run& run) { return ask(run, run.device(page), static_cast<PointerAttribute>(999)); }),
      answers(
          "pointer_attribute.null_out", "cuPointerGetAttribute needs somewhere to write",
          {invalid_value}, hdr,
          [](Run& run) {
            return run.cu.cuPointerGetAttribute(nullptr, PointerAttribute::memory_type,
                                                run.device(page));
          },
          null_out_pointer()),
      answers("pointer_attribute.set_other", "SYNC_MEMOPS alone can be set", {invalid_value}, hdr,
              [](Run& run) {
                unsigned flag = 1;
                return run.cu.cuPointerSetAttribute(&flag, PointerAttribute::memory_type,
                                                    run.device(page));
              }),
      answers("pointer_attribute.set_unknown_pointer", "and on the driver's memory alone",
              {invalid_value}, hdr,
              [](Run& run) {
                unsigned flag = 1;
                return run.cu.cuPointerSetAttribute(&flag, PointerAttribute::sync_memops,
                                                    address_of(run.pageable(page)));
              }),
  };
}

}  // namespace

Tests pointer_attribute_tests() {
  Tests tests = {
      {"pointer_attribute.device", "device memory", {}, description(2, hdr, 0), device},
      {"pointer_attribute.managed",
       "managed memory is of the device's type: ask whether it is managed first",
       with(Attribute::managed_memory), description(2, lup, 1), managed},
      {"pointer_attribute.pinned", "pinned memory", with(Attribute::unified_addressing),
       description(1, hdr, 0), pinned},
      {"pointer_attribute.registered", "registered memory",
       with(Attribute::host_register_supported) + with(Attribute::unified_addressing) +
           with(Attribute::can_use_host_pointer_for_registered_mem),
       description(1, hdr, 0), registered},
      {"pointer_attribute.host_pointer",
       "host pointers of what the host reaches",
       with(Attribute::managed_memory),
       {holds("of pinned memory", hdr), holds("of managed memory", hdr)},
       host_pointers},
      {"pointer_attribute.buffer_id",
       "a buffer id is unique in the process, for ever",
       {},
       {holds("the same within an allocation", hdr), holds("another for another", hdr),
        holds("never that of a freed one", hdr)},
       buffer_ids},
      {"pointer_attribute.plural_unknown",
       "the plural call classifies an unknown pointer without an error",
       {},
       {succeeds("cuPointerGetAttributes", hdr), value("memory type", {0}, hdr),
        holds("no context, no pointer", hdr)},
       plural_unknown},
      {"pointer_attribute.plural",
       "the plural call agrees with the single one",
       {},
       {succeeds("cuPointerGetAttributes", hdr), holds("they are those of the single call", hdr)},
       plural_known},
      {"pointer_attribute.sync_memops",
       "SYNC_MEMOPS is set and read back",
       {},
       {succeeds("set", hdr), value("read back", {1}, hdr), succeeds("unset", hdr),
        value("read back again", {0}, hdr)},
       sync_memops},
  };
  for (Test& test : refusals()) tests.push_back(std::move(test));
  return tests;
}

}  // namespace assay::conformance
