// What the driver model offers beyond the driver: one marker symbol, by which it is recognised, and
// behind it a table through which tests steer and question it. C, versioned.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

/// Kinds of objects that the model counts.
enum assay_model_object : std::uint32_t {
  assay_model_context,     ///< retained primary and created contexts
  assay_model_device,      ///< cuMemAlloc
  assay_model_managed,     ///< cuMemAllocManaged
  assay_model_pinned,      ///< cuMemHostAlloc
  assay_model_registered,  ///< cuMemHostRegister
  assay_model_stream,
  assay_model_event,
  assay_model_module,
  assay_model_pool,         ///< cuMemPoolCreate; one destroyed counts until its last block is free
  assay_model_pooled,       ///< blocks of stream-ordered device memory
  assay_model_reservation,  ///< cuMemAddressReserve
  assay_model_physical,     ///< cuMemCreate, until the last handle and mapping are gone
  assay_model_mapping,      ///< cuMemMap
  assay_model_object_count,
};

/// The model's own table. Every function is safe from any thread and never counts as a driver call.
struct assay_model_control {
  std::uint32_t abi;   ///< assay_model_control_abi of the model's author
  std::uint32_t size;  ///< sizeof this table there: later fields are absent
  /// Name of the profile in force, such as "h200". Static text.
  const char* (*profile)();
  /// Replaces the fault plan by `plan`: entries `function:nth:code[:sticky]` or
  /// `function:every:N:code`, separated by commas; `*` is any function. Empty or null: no fault.
  /// Counting starts anew. Returns 0, or 1 and changes nothing if the plan cannot be read.
  int (*set_faults)(const char* plan);
  /// Calls so far (since the last set_faults) of an exported function, or of all for "*".
  std::uint64_t (*calls)(const char* function);
  /// How many faults the plan has injected.
  std::uint64_t (*faults_injected)();
  std::uint64_t (*live_objects)(std::uint32_t object);
  std::uint64_t (*live_bytes)(std::uint32_t object);
  /// Mistakes of the program diagnosed so far, and the text of one (until the next reset).
  std::uint64_t (*diagnosis_count)();
  const char* (*diagnosis)(std::uint64_t index);
  void (*forget_diagnoses)();
  /// Device bytes that may be live at once; 0: the profile's capacity.
  void (*set_capacity)(std::uint64_t bytes);
  /// Opens every gate (cuStreamWaitValue32) that is still closed: what a watchdog does.
  void (*open_gates)();
  /// Makes every context answer `code` from now on, as a sticky error does.
  void (*poison)(std::uint32_t code);
  /// Pages of a managed range that the model holds as resident on that device (-1: the host).
  /// A driver has no such query; it differs from the last prefetch on purpose.
  std::uint64_t (*resident_bytes)(std::uint64_t address, std::uint64_t size, std::int32_t device);
  /// Writes the exit report (live objects, diagnoses, calls) to a descriptor now.
  void (*report)(int fd);
  /// One line for each rule of the model: id, tag of its source, text. Static text.
  const char* (*rules)();
  /// As set_capacity, for pinned host memory.
  void (*set_host_capacity)(std::uint64_t bytes);
  /// Says that the host is about to read these bytes, which the model cannot see by itself. If
  /// unfinished work writes them, so that the host reads old ones, it is diagnosed and 1 returned.
  int (*host_reads)(std::uint64_t address, std::uint64_t size);
};

/// The marker: present in the model and in no driver.
const assay_model_control* assay_cuda_model();

}  // extern "C"

namespace assay::cuda::abi {
inline constexpr std::uint32_t model_control_abi = 1;
inline constexpr const char* model_marker = "assay_cuda_model";

/// The profiles that the model knows by name; any other is a file.
inline constexpr const char* model_profiles[] = {"h200",
                                                 "no_concurrent_managed_access",
                                                 "driver_11_8",
                                                 "driver_12_2",
                                                 "no_pools",
                                                 "no_virtual_memory",
                                                 "odd_granularity",
                                                 "two_devices",
                                                 "small_capacity"};

// The environment that the model reads when it is loaded.
inline constexpr const char* model_profile_variable = "ASSAY_MODEL_PROFILE";  ///< name or file
inline constexpr const char* model_faults_variable = "ASSAY_MODEL_FAULTS";    ///< a fault plan
inline constexpr const char* model_report_variable = "ASSAY_MODEL_REPORT";    ///< file, or "-"
inline constexpr const char* model_strict_variable = "ASSAY_MODEL_STRICT";    ///< 1: abort
/// 1: device work runs by itself, for programs that poll memory; else only when it is waited for.
inline constexpr const char* model_eager_variable = "ASSAY_MODEL_EAGER";
}  // namespace assay::cuda::abi
