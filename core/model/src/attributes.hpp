// The device attributes that the model knows.
#pragma once

#include <cstddef>

namespace assay::cuda::model {

struct AttributeRow {
  const char* name;  ///< in a profile file: `attribute.NAME = value`
  int number;
  int since;  ///< the driver version that introduced it: an older one answers 1
  int value;  ///< of the h200 profile
};

inline constexpr AttributeRow attribute_rows[] = {
    {"max_threads_per_block", 1, 2000, 1024},
    {"warp_size", 10, 2000, 32},
    {"multiprocessor_count", 16, 2000, 132},
    {"integrated", 18, 2000, 0},
    {"can_map_host_memory", 19, 2000, 1},
    {"compute_mode", 20, 2000, 0},
    {"concurrent_kernels", 31, 3000, 1},
    {"async_engine_count", 40, 4000, 3},
    {"unified_addressing", 41, 4000, 1},
    {"compute_capability_major", 75, 5000, 9},
    {"compute_capability_minor", 76, 5000, 0},
    {"stream_priorities_supported", 78, 5050, 1},
    {"managed_memory", 83, 6000, 1},
    {"pageable_memory_access", 88, 8000, 0},
    {"concurrent_managed_access", 89, 8000, 1},
    {"can_use_host_pointer_for_registered_mem", 91, 9000, 1},
    {"host_register_supported", 99, 9020, 1},
    {"pageable_memory_access_uses_host_page_tables", 100, 9020, 0},
    {"direct_managed_mem_access_from_host", 101, 9020, 0},
    {"virtual_memory_management_supported", 102, 10020, 1},
    {"handle_type_posix_file_descriptor_supported", 103, 10020, 0},
    {"gpu_direct_rdma_with_cuda_vmm_supported", 110, 11000, 0},
    {"read_only_host_register_supported", 113, 11010, 1},
    {"memory_pools_supported", 115, 11020, 1},
    {"gpu_direct_rdma_supported", 116, 11030, 0},
    {"gpu_direct_rdma_flush_writes_options", 117, 11030, 0},
    {"gpu_direct_rdma_writes_ordering", 118, 11030, 0},
    {"mempool_supported_handle_types", 119, 11030, 0},
    {"numa_id", 131, 12020, -1},
    {"host_numa_id", 134, 12020, 0},
    {"host_numa_virtual_memory_management_supported", 141, 12060, 0},
    {"host_numa_memory_pools_supported", 142, 12060, 1},
    {"host_memory_pools_supported", 144, 13000, 1},
    {"host_virtual_memory_management_supported", 145, 13000, 0},
};

}  // namespace assay::cuda::model
