#include "assay/cuda/device_facts.hpp"

#include <iterator>
#include <new>

#include <fmt/format.h>

#include "assay/cuda/driver.hpp"

namespace assay::cuda {
namespace {

using abi::DeviceAttribute;
using abi::Status;

std::string uuid_text(const abi::Uuid& uuid) {
  std::string text;
  for (std::size_t i = 0; i < std::size(uuid.bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

/// Fills the attributes. One that the driver does not know, by version or by answer, reads as 0.
Result<void> read_attributes(const Driver& driver, abi::Device device, DeviceFacts& facts) {
  for (std::size_t i = 0; i < attribute_count; ++i) {
    const AttributeRow& row = attribute_rows()[i];
    if (row.since > driver.version()) continue;
    int value = 0;
    const Status status = driver.table().cuDeviceGetAttribute(&value, row.attribute, device);
    if (status == Status::success) {
      facts.attributes[i] = value;
    } else if (status != Status::invalid_value) {
      return driver.error(status, "cuDeviceGetAttribute");
    }
  }
  return {};
}

Result<DeviceFacts> read_facts(const Driver& driver, int ordinal) {
  const abi::DriverTable& table = driver.table();
  DeviceFacts facts;
  facts.ordinal = ordinal;
  abi::Device device = 0;
  Status status = table.cuDeviceGet(&device, ordinal);
  if (status != Status::success) return driver.error(status, "cuDeviceGet");
  char name[256] = "";
  status = table.cuDeviceGetName(name, static_cast<int>(sizeof name), device);
  if (status != Status::success) return driver.error(status, "cuDeviceGetName");
  facts.name = name;
  abi::Uuid uuid{};
  status = table.cuDeviceGetUuid_v2(&uuid, device);
  if (status != Status::success) return driver.error(status, "cuDeviceGetUuid");
  facts.uuid = uuid_text(uuid);
  std::size_t total = 0;
  status = table.cuDeviceTotalMem_v2(&total, device);
  if (status != Status::success) return driver.error(status, "cuDeviceTotalMem");
  facts.total_bytes = total;
  if (driver.has(Feature::pci_bus_id)) {
    char bus[32] = "";
    status = table.cuDeviceGetPCIBusId(bus, static_cast<int>(sizeof bus), device);
    if (status == Status::success) facts.pci_bus_id = bus;
  }
  ASSAY_TRY_VOID(read_attributes(driver, device, facts));
  facts.compute_major = facts.attribute(DeviceAttribute::compute_capability_major);
  facts.compute_minor = facts.attribute(DeviceAttribute::compute_capability_minor);
  facts.multiprocessors = facts.attribute(DeviceAttribute::multiprocessor_count);
  facts.regime = regime_of(facts);
  return facts;
}

}  // namespace

std::string_view name_of(Regime regime) noexcept {
  switch (regime) {
    case Regime::none: return "none";
    case Regime::exclusive: return "exclusive";
    case Regime::concurrent: return "concurrent";
    case Regime::hmm: return "hmm";
    case Regime::ats: return "ats";
  }
  return "";
}

const std::array<AttributeRow, attribute_count>& attribute_rows() noexcept {
  using enum DeviceAttribute;
#define ASSAY_ATTRIBUTE(name, since) \
  AttributeRow {                     \
    name, #name, since               \
  }
  // Where sources name no version for one of the newest, `since` is the lowest that it can be: a
  // driver that does not know it says so.
  static constexpr std::array<AttributeRow, attribute_count> rows = {
      ASSAY_ATTRIBUTE(multiprocessor_count, 2000),
      ASSAY_ATTRIBUTE(integrated, 2000),
      ASSAY_ATTRIBUTE(can_map_host_memory, 2020),
      ASSAY_ATTRIBUTE(compute_mode, 2020),
      ASSAY_ATTRIBUTE(concurrent_kernels, 3000),
      ASSAY_ATTRIBUTE(unified_addressing, 4000),
      ASSAY_ATTRIBUTE(compute_capability_major, 5000),
      ASSAY_ATTRIBUTE(compute_capability_minor, 5000),
      ASSAY_ATTRIBUTE(managed_memory, 6000),
      ASSAY_ATTRIBUTE(pageable_memory_access, 8000),
      ASSAY_ATTRIBUTE(concurrent_managed_access, 8000),
      ASSAY_ATTRIBUTE(can_use_host_pointer_for_registered_mem, 9000),
      ASSAY_ATTRIBUTE(host_register_supported, 9020),
      ASSAY_ATTRIBUTE(pageable_memory_access_uses_host_page_tables, 9020),
      ASSAY_ATTRIBUTE(direct_managed_mem_access_from_host, 9020),
      ASSAY_ATTRIBUTE(virtual_memory_management_supported, 10020),
      ASSAY_ATTRIBUTE(handle_type_posix_file_descriptor_supported, 10020),
      ASSAY_ATTRIBUTE(gpu_direct_rdma_with_cuda_vmm_supported, 11000),
      ASSAY_ATTRIBUTE(read_only_host_register_supported, 11010),
      ASSAY_ATTRIBUTE(memory_pools_supported, 11020),
      ASSAY_ATTRIBUTE(gpu_direct_rdma_supported, 11030),
      ASSAY_ATTRIBUTE(gpu_direct_rdma_flush_writes_options, 11030),
      ASSAY_ATTRIBUTE(gpu_direct_rdma_writes_ordering, 11030),
      ASSAY_ATTRIBUTE(mempool_supported_handle_types, 11030),
      ASSAY_ATTRIBUTE(numa_id, 12020),
      ASSAY_ATTRIBUTE(host_numa_id, 12020),
      ASSAY_ATTRIBUTE(host_numa_virtual_memory_management_supported, 12020),
      ASSAY_ATTRIBUTE(host_numa_memory_pools_supported, 12020),
      ASSAY_ATTRIBUTE(host_memory_pools_supported, 12020),
      ASSAY_ATTRIBUTE(host_virtual_memory_management_supported, 12020),
  };
#undef ASSAY_ATTRIBUTE
  return rows;
}

int DeviceFacts::attribute(DeviceAttribute which) const noexcept {
  for (std::size_t i = 0; i < attribute_count; ++i) {
    if (attribute_rows()[i].attribute == which) return attributes[i];
  }
  return 0;
}

Regime regime_of(const DeviceFacts& facts) noexcept {
  using enum DeviceAttribute;
  if (!facts.has(managed_memory)) return Regime::none;
  if (!facts.has(concurrent_managed_access)) return Regime::exclusive;
  if (!facts.has(pageable_memory_access)) return Regime::concurrent;
  if (!facts.has(pageable_memory_access_uses_host_page_tables)) return Regime::hmm;
  return Regime::ats;
}

Result<DeviceFacts> Driver::device_facts(int ordinal) const noexcept {
  if (ordinal < 0 || ordinal >= device_count_) {
    return Error::make(ErrorCode::invalid_argument, "device ordinal", "",
                       static_cast<std::uint64_t>(ordinal));
  }
  try {
    return read_facts(*this, ordinal);
  } catch (const std::bad_alloc&) {
    return Error::make(ErrorCode::out_of_memory, "device facts");
  }
}

}  // namespace assay::cuda
