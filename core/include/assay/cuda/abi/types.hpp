// The driver's types, as far as its memory subset needs them. Written by hand, so that assay builds
// without a toolkit; core/tests/cuda_abi/check.cpp compares each with cuda.h where one is found.
#pragma once

#include <cstddef>
#include <cstdint>

namespace assay::cuda::abi {

/// What every driver function returns. Not every value is named.
enum class Status : std::uint32_t {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  deinitialized = 4,
  stub_library = 34,
  no_device = 100,
  invalid_device = 101,
  invalid_context = 201,
  invalid_ptx = 218,
  invalid_handle = 400,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  context_is_destroyed = 709,
  host_memory_already_registered = 712,
  host_memory_not_registered = 713,
  launch_failed = 719,
  not_permitted = 800,
  not_supported = 801,
  system_driver_mismatch = 803,
  unknown = 999,
};

using Device = int;  ///< an ordinal; -1 is the host where advice takes a device
using DevicePointer = unsigned long long;
using AllocationHandle = unsigned long long;
using Context = struct OpaqueContext*;
using Stream = struct OpaqueStream*;  ///< null: the legacy default stream
using Event = struct OpaqueEvent*;
using Module = struct OpaqueModule*;
using Function = struct OpaqueFunction*;
using MemPool = struct OpaqueMemPool*;
using HostFunction = void (*)(void* user);

inline constexpr Device device_cpu = -1;
inline constexpr Device device_invalid = -2;

struct Uuid {
  char bytes[16];
};

enum class DeviceAttribute : std::uint32_t {
  integrated = 18,
  can_map_host_memory = 19,
  compute_mode = 20,
  concurrent_kernels = 31,
  unified_addressing = 41,
  multiprocessor_count = 16,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  managed_memory = 83,
  pageable_memory_access = 88,
  concurrent_managed_access = 89,
  can_use_host_pointer_for_registered_mem = 91,
  host_register_supported = 99,
  pageable_memory_access_uses_host_page_tables = 100,
  direct_managed_mem_access_from_host = 101,
  virtual_memory_management_supported = 102,
  handle_type_posix_file_descriptor_supported = 103,
  gpu_direct_rdma_with_cuda_vmm_supported = 110,
  read_only_host_register_supported = 113,
  memory_pools_supported = 115,
  gpu_direct_rdma_supported = 116,
  gpu_direct_rdma_flush_writes_options = 117,
  gpu_direct_rdma_writes_ordering = 118,
  mempool_supported_handle_types = 119,
  numa_id = 131,
  host_numa_id = 134,
  host_numa_virtual_memory_management_supported = 141,
  host_numa_memory_pools_supported = 142,
  host_memory_pools_supported = 144,
  host_virtual_memory_management_supported = 145,
};

enum class MemoryType : std::uint32_t { host = 1, device = 2, array = 3, unified = 4 };

enum class PointerAttribute : std::uint32_t {
  context = 1,
  memory_type = 2,
  device_pointer = 3,
  host_pointer = 4,
  p2p_tokens = 5,
  sync_memops = 6,
  buffer_id = 7,
  is_managed = 8,
  device_ordinal = 9,
  is_legacy_cuda_ipc_capable = 10,
  range_start_addr = 11,
  range_size = 12,
  mapped = 13,
  allowed_handle_types = 14,
  is_gpu_direct_rdma_capable = 15,
  access_flags = 16,
  mempool_handle = 17,
  mapping_size = 18,
  mapping_base_addr = 19,
  memory_block_id = 20,
};

enum class RangeAttribute : std::uint32_t {
  read_mostly = 1,
  preferred_location = 2,
  accessed_by = 3,
  last_prefetch_location = 4,
  preferred_location_type = 5,
  preferred_location_id = 6,
  last_prefetch_location_type = 7,
  last_prefetch_location_id = 8,
};

enum class Advise : std::uint32_t {
  set_read_mostly = 1,
  unset_read_mostly = 2,
  set_preferred_location = 3,
  unset_preferred_location = 4,
  set_accessed_by = 5,
  unset_accessed_by = 6,
};

enum class LocationType : std::uint32_t {
  none = 0,
  device = 1,
  host = 2,
  host_numa = 3,
  host_numa_current = 4,
};

/// CUmemLocation: 8 bytes, passed by value.
struct Location {
  LocationType type;
  int id;
};

enum class HandleType : std::uint32_t { none = 0, posix_file_descriptor = 1 };
enum class AllocationType : std::uint32_t { invalid = 0, pinned = 1, managed = 2 };
enum class AccessFlags : std::uint32_t { none = 0, read = 1, read_write = 3 };
enum class GranularityFlags : std::uint32_t { minimum = 0, recommended = 1 };

struct AccessDesc {
  Location location;
  AccessFlags flags;
};

/// CUmemPoolProps. 11.x has 64 reserved bytes after the security pointer, split since: zero all.
struct MemPoolProps {
  AllocationType alloc_type;
  HandleType handle_types;
  Location location;
  void* win32_security_attributes;
  std::size_t max_size;
  unsigned short usage;
  unsigned char reserved[54];
};

enum class MemPoolAttribute : std::uint32_t {
  reuse_follow_event_dependencies = 1,
  reuse_allow_opportunistic = 2,
  reuse_allow_internal_dependencies = 3,
  release_threshold = 4,
  reserved_mem_current = 5,
  reserved_mem_high = 6,
  used_mem_current = 7,
  used_mem_high = 8,
};

struct AllocationProp {
  AllocationType type;
  HandleType requested_handle_types;
  Location location;
  void* win32_handle_meta_data;
  struct {
    unsigned char compression_type;
    unsigned char gpu_direct_rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
  } alloc_flags;
};

struct IpcMemHandle {
  char reserved[64];
};

/// What cuGetProcAddress_v2 says besides the pointer.
enum class ProcAddressResult : std::uint32_t {
  success = 0,
  symbol_not_found = 1,
  version_not_sufficient = 2,
};

// Flags, by the function that takes them.
inline constexpr std::uint64_t proc_address_legacy_stream = 1;
inline constexpr unsigned mem_attach_global = 1;
inline constexpr unsigned mem_attach_host = 2;
inline constexpr unsigned mem_attach_single = 4;
inline constexpr unsigned host_alloc_portable = 1;
inline constexpr unsigned host_alloc_device_map = 2;
inline constexpr unsigned host_alloc_write_combined = 4;
inline constexpr unsigned host_register_portable = 1;
inline constexpr unsigned host_register_device_map = 2;
inline constexpr unsigned host_register_io_memory = 4;
inline constexpr unsigned host_register_read_only = 8;
inline constexpr unsigned stream_non_blocking = 1;
inline constexpr unsigned event_blocking_sync = 1;
inline constexpr unsigned event_disable_timing = 2;
inline constexpr unsigned event_interprocess = 4;
inline constexpr unsigned wait_value_geq = 0;
inline constexpr unsigned wait_value_eq = 1;
inline constexpr unsigned wait_value_and = 2;
inline constexpr unsigned wait_value_nor = 3;

static_assert(sizeof(Location) == 8 && sizeof(MemPoolProps) == 88 && sizeof(AllocationProp) == 32);

}  // namespace assay::cuda::abi
