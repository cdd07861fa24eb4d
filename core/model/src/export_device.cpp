// cuInit and the queries of devices.
#include <cstdio>
#include <cstring>

#include "call.hpp"
#include "configuration.hpp"
#include "devices.hpp"
#include "mutants.hpp"
#include "process.hpp"
#include "profile.hpp"

namespace assay::cuda::model {

namespace {

constexpr const char* device_name = "MODEL (no GPU)";

/// "assay-model-gpu" and the ordinal: no GPU's identity.
void write_uuid(Uuid& out, Device device) {
  constexpr char text[] = "assay-model-gpu";
  static_assert(sizeof text == sizeof out.bytes);
  std::memcpy(out.bytes, text, sizeof text);
  out.bytes[sizeof text - 1] = static_cast<char>('0' + device);
}

Status copy_text(char* out, int length, const char* text) {
  if (out == nullptr || length <= 0) return answer(Rule::null_out, Status::invalid_value);
  std::snprintf(out, static_cast<std::size_t>(length), "%s", text);
  return Status::success;
}

Status give_uuid(Uuid* out, Device device) {
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if (const Status bad = check_ordinal(device); bad != Status::success) return bad;
  write_uuid(*out, device);
  return Status::success;
}

}  // namespace

Status check_ordinal(Device device) noexcept {
  if (device >= 0 && device < profile().devices) return Status::success;
  return answer(Rule::device_ordinal, Status::invalid_device);
}

extern "C" {

Status cuInit(unsigned flags) {
  ASSAY_MODEL_CALL(cuInit, anytime);
  if (in_forked_child()) return refuse_forked_child();
  if (shutting_down()) return answer(Rule::shutting_down, Status::deinitialized);
  if (flags != 0) return answer(Rule::init_flags, Status::invalid_value);
  if (!configuration_error().empty() || ASSAY_MODEL_BREAKS_NOTHING()) {
    return answer(Rule::init_configuration, Status::unknown);
  }
  if (profile().devices == 0) return answer(Rule::init_no_device, Status::no_device);
  mark_initialised(call.site());
  return Status::success;
}

Status cuDriverGetVersion(int* out) {
  ASSAY_MODEL_CALL(cuDriverGetVersion, anytime);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  *out = profile().driver_version;
  return Status::success;
}

Status cuDeviceGetCount(int* out) {
  ASSAY_MODEL_CALL(cuDeviceGetCount, initialised);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  *out = profile().devices;
  return Status::success;
}

Status cuDeviceGet(Device* out, int ordinal) {
  ASSAY_MODEL_CALL(cuDeviceGet, initialised);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if (const Status bad = check_ordinal(ordinal); bad != Status::success) return bad;
  *out = ordinal;
  return Status::success;
}

Status cuDeviceGetName(char* out, int length, Device device) {
  ASSAY_MODEL_CALL(cuDeviceGetName, initialised);
  if (const Status bad = check_ordinal(device); bad != Status::success) return bad;
  return copy_text(out, length, device_name);
}

Status cuDeviceGetUuid(Uuid* out, Device device) {
  ASSAY_MODEL_CALL(cuDeviceGetUuid, initialised);
  return give_uuid(out, device);
}

Status cuDeviceGetUuid_v2(Uuid* out, Device device) {
  ASSAY_MODEL_CALL(cuDeviceGetUuid_v2, initialised);
  return give_uuid(out, device);
}

Status cuDeviceTotalMem_v2(std::size_t* out, Device device) {
  ASSAY_MODEL_CALL(cuDeviceTotalMem_v2, initialised);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if (const Status bad = check_ordinal(device); bad != Status::success) return bad;
  *out = profile().capacity_bytes;
  return Status::success;
}

Status cuDeviceGetAttribute(int* out, DeviceAttribute attribute, Device device) {
  ASSAY_MODEL_CALL(cuDeviceGetAttribute, initialised);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  const auto number = static_cast<std::size_t>(attribute);
  if (number >= Profile::attribute_max || !profile().attributes[number]) {
    return answer(Rule::attribute_unknown, Status::invalid_value);
  }
  if (const Status bad = check_ordinal(device); bad != Status::success) return bad;
  *out = *profile().attributes[number];
  return Status::success;
}

Status cuDeviceGetPCIBusId(char* out, int length, Device device) {
  ASSAY_MODEL_CALL(cuDeviceGetPCIBusId, initialised);
  if (const Status bad = check_ordinal(device); bad != Status::success) return bad;
  char text[16];
  std::snprintf(text, sizeof text, "A55A:00:%02X.0", static_cast<unsigned>(device));
  return copy_text(out, length, text);
}

}  // extern "C"

}  // namespace assay::cuda::model
