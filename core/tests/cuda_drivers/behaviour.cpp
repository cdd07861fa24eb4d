// The few functions of a test driver that do something. Each library is this file with other
// constants: see the CMakeLists.txt beside the tests.
#include "behaviour.hpp"

#include <array>
#include <cstring>
#include <string_view>

#include "assay/cuda/abi/driver_table.hpp"

namespace assay::cuda::abi {

#define ASSAY_DRIVER_FUNCTION(symbol, base, version, need, parameters) \
  extern "C" Status symbol parameters;
#include "assay/cuda/abi/driver_functions.def"
#undef ASSAY_DRIVER_FUNCTION

namespace {

constexpr int driver_version = DRIVER_VERSION;
constexpr auto init_status = static_cast<Status>(DRIVER_INIT);
constexpr int device_count = DRIVER_DEVICES;
enum class Lookup { honest, null_with_success, stub, busy };
constexpr auto lookup_kind = Lookup::DRIVER_LOOKUP;
/// Symbols that cuGetProcAddress does not give, separated and surrounded by blanks.
constexpr std::string_view withheld = DRIVER_WITHHELD;

constinit AssayTestDriver state{};

struct Row {
  std::string_view symbol;
  std::string_view base;
  int version;
  void* function;
};

const auto& rows() {
  static const std::array all = {
#define ASSAY_DRIVER_FUNCTION(symbol, base, version, need, parameters) \
  Row{#symbol, #base, version, reinterpret_cast<void*>(&symbol)},
#include "assay/cuda/abi/driver_functions.def"
#undef ASSAY_DRIVER_FUNCTION
  };
  return all;
}

/// Stands for the function of another ABI than the one that the caller has in mind.
Status other_abi() {
  return Status::unknown;
}

Status look_up(const char* base, void** function, int version, std::uint64_t flags,
               ProcAddressResult& outcome) {
  ++state.lookups;
  outcome = ProcAddressResult::success;
  if (lookup_kind == Lookup::stub) return Status::stub_library;
  if (lookup_kind == Lookup::busy && std::string_view(base) == "cuMemAlloc") {
    return static_cast<Status>(46);  // busy
  }
  if (flags != proc_address_legacy_stream) ++state.lookups_no_flag;
  if (version > driver_version) {
    ++state.lookups_too_new;
    return Status::invalid_value;
  }
  *function = nullptr;
  outcome = ProcAddressResult::symbol_not_found;
  if (lookup_kind == Lookup::null_with_success) return Status::success;
  bool known = false;
  for (const Row& row : rows()) {
    if (row.base != base) continue;
    known = true;
    if (row.version != version) continue;
    const std::size_t at = withheld.find(row.symbol);
    if (at != std::string_view::npos && withheld[at + row.symbol.size()] == ' ') {
      outcome = ProcAddressResult::version_not_sufficient;
      return Status::success;
    }
    *function = row.function;
    outcome = ProcAddressResult::success;
    return Status::success;
  }
  if (!known) return Status::success;
  ++state.lookups_unpinned;
  *function = reinterpret_cast<void*>(&other_abi);
  outcome = ProcAddressResult::success;
  return Status::success;
}

}  // namespace

extern "C" {

const AssayTestDriver* assay_test_driver() {
  return &state;
}

Status cuInit(unsigned) {
  ++state.inits;
  return init_status;
}

Status cuDriverGetVersion(int* version) {
  if (lookup_kind == Lookup::stub) return Status::stub_library;
  *version = driver_version;
  return Status::success;
}

Status cuGetErrorName(Status status, const char** text) {
  *text = status == Status::system_driver_mismatch ? "TEST_DRIVER_MISMATCH"
          : status == Status::no_device            ? "TEST_NO_DEVICE"
                                                   : nullptr;
  return *text != nullptr ? Status::success : Status::invalid_value;
}

Status cuGetErrorString(Status status, const char** text) {
  *text = status == Status::system_driver_mismatch ? "kernel module and library differ"
          : status == Status::no_device            ? "no device is there"
                                                   : nullptr;
  return *text != nullptr ? Status::success : Status::invalid_value;
}

Status cuGetProcAddress(const char* base, void** function, int version, std::uint64_t flags) {
  ProcAddressResult outcome{};
  return look_up(base, function, version, flags, outcome);
}

Status cuGetProcAddress_v2(const char* base, void** function, int version, std::uint64_t flags,
                           ProcAddressResult* outcome) {
  return look_up(base, function, version, flags, *outcome);
}

Status cuDeviceGetCount(int* count) {
  *count = device_count;
  return Status::success;
}

Status cuDeviceGet(Device* device, int ordinal) {
  *device = ordinal;
  return Status::success;
}

Status cuDeviceGetName(char* name, int size, Device) {
  std::strncpy(name, "test device", static_cast<std::size_t>(size));
  return Status::success;
}

Status cuDeviceGetUuid_v2(Uuid* uuid, Device) {
  for (int i = 0; i < 16; ++i) uuid->bytes[i] = static_cast<char>(0xf0 + i);
  return Status::success;
}

Status cuDeviceTotalMem_v2(std::size_t* bytes, Device) {
  *bytes = std::size_t{1} << 40;
  return Status::success;
}

Status cuDeviceGetPCIBusId(char* text, int size, Device) {
  std::strncpy(text, "0000:01:00.0", static_cast<std::size_t>(size));
  return Status::success;
}

/// An attribute's value is its own number, so that a wrong one is seen.
Status cuDeviceGetAttribute(int* value, DeviceAttribute attribute, Device) {
  ++state.attributes_asked;
  if (static_cast<int>(attribute) > DRIVER_ATTRIBUTE_LAST) return Status::invalid_value;
  *value = static_cast<int>(attribute);
  return Status::success;
}

Status cuMemAdvise(DevicePointer, std::size_t, Advise, Device device) {
  state.advice_abi = 1;
  state.advice_where = device;
  return Status::success;
}

Status cuMemAdvise_v2(DevicePointer, std::size_t, Advise, Location location) {
  state.advice_abi = 2;
  state.advice_where = location.id;
  state.advice_type = static_cast<std::uint32_t>(location.type);
  return Status::success;
}

Status cuMemPrefetchAsync(DevicePointer, std::size_t, Device device, Stream) {
  state.advice_abi = 1;
  state.advice_where = device;
  return Status::success;
}

Status cuMemPrefetchAsync_v2(DevicePointer, std::size_t, Location location, unsigned flags,
                             Stream) {
  state.advice_abi = flags == 0 ? 2 : 99;
  state.advice_where = location.id;
  state.advice_type = static_cast<std::uint32_t>(location.type);
  return Status::success;
}

}  // extern "C"
}  // namespace assay::cuda::abi
