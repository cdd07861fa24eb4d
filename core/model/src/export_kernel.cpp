// Modules and launches. The model runs assay's own kernels and no others: nobody shall think that a
// kernel of theirs was tried on it.
#include <array>
#include <cstdint>
#include <cstring>

#include "call.hpp"
#include "kernel_modules.hpp"
#include "kernel_operation.hpp"
#include "stream_engine.hpp"

namespace assay::cuda::model {

namespace {

// What every device since sm_30 takes [doc].
constexpr std::uint64_t block_threads_max = 1024;
constexpr unsigned block_depth_max = 64;
constexpr unsigned grid_width_max = 0x7fffffff;
constexpr unsigned grid_height_max = 65535;
constexpr unsigned shared_bytes_max = 48U << 10;  // more has to be asked for first

struct Shape {
  std::array<unsigned, 3> grid;
  std::array<unsigned, 3> block;
  unsigned shared_bytes;
};

bool is_possible(const Shape& shape) {
  const auto& [x, y, z] = shape.grid;
  const auto& [width, height, depth] = shape.block;
  if (x == 0 || y == 0 || z == 0 || width == 0 || height == 0 || depth == 0) return false;
  if (x > grid_width_max || y > grid_height_max || z > grid_height_max) return false;
  if (width > block_threads_max || height > block_threads_max || depth > block_depth_max) {
    return false;
  }
  return std::uint64_t{width} * height * depth <= block_threads_max &&
         shape.shared_bytes <= shared_bytes_max;
}

bool has_one_dimension(const Shape& shape) {
  return shape.grid[1] == 1 && shape.grid[2] == 1 && shape.block[1] == 1 && shape.block[2] == 1;
}

// Copied now: the program may reuse its variables once the launch returns [hdr].
Status copy_arguments(KernelIndex kernel, void** parameters, void** extra,
                      KernelArguments& arguments) {
  if (parameters == nullptr && extra != nullptr) {
    return answer(Rule::launch_not_modelled, Status::not_supported);
  }
  if (parameters == nullptr || extra != nullptr) {
    return answer(Rule::launch_arguments, Status::invalid_value);
  }
  for (std::size_t i = 0; i < abi::kernel_signatures[kernel].parameters; ++i) {
    if (parameters[i] == nullptr) return answer(Rule::launch_arguments, Status::invalid_value);
    std::memcpy(&arguments[i], parameters[i], sizeof arguments[i]);
  }
  return Status::success;
}

Status launch(const Call& call, abi::Function function, const Shape& shape, Stream stream,
              void** parameters, void** extra) {
  if (!is_possible(shape)) return answer(Rule::launch_shape, Status::invalid_value);
  FunctionRecord record;
  if (!find_function_record(function, record)) {
    return answer(Rule::function_dead, Status::invalid_handle);
  }
  KernelArguments arguments{};
  Status status = copy_arguments(record.kernel, parameters, extra, arguments);
  QueuePointer queue;
  if (status == Status::success) status = find_queue(stream, &call.context(), queue);
  if (status != Status::success) return status;
  if (record.context != queue->context) {
    return answer(Rule::function_dead, Status::invalid_handle);
  }
  if (!has_one_dimension(shape)) return answer(Rule::launch_not_modelled, Status::not_supported);
  scheduler().enqueue(queue,
                      make_kernel(record.kernel, arguments, running_in(*queue, call.site())));
  return Status::success;
}

}  // namespace

extern "C" {

Status cuModuleLoadData(Module* out, const void* image) {
  ASSAY_MODEL_CALL(cuModuleLoadData, context);
  if (out == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if (image == nullptr) return answer(Rule::launch_arguments, Status::invalid_value);
  if (std::strcmp(static_cast<const char*>(image), abi::kernel_ptx) != 0) {
    return answer(Rule::ptx_foreign, Status::invalid_ptx);
  }
  *out = insert_module(call.context(), call.site());
  return Status::success;
}

Status cuModuleGetFunction(abi::Function* out, Module module, const char* name) {
  ASSAY_MODEL_CALL(cuModuleGetFunction, context);
  if (out == nullptr || name == nullptr) return answer(Rule::null_out, Status::invalid_value);
  if (!is_live(module)) return answer(Rule::module_dead, Status::invalid_handle);
  const abi::Function function = find_function(module, name);
  if (function == nullptr) return answer(Rule::function_missing, Status::not_found);
  *out = function;
  return Status::success;
}

Status cuModuleUnload(Module module) {
  ASSAY_MODEL_CALL(cuModuleUnload, context);
  if (!erase_module(module)) return answer(Rule::module_dead, Status::invalid_handle);
  return Status::success;
}

Status cuLaunchKernel(abi::Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                      Stream stream, void** parameters, void** extra) {
  ASSAY_MODEL_CALL(cuLaunchKernel, context);
  const Shape shape{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
  return launch(call, function, shape, stream, parameters, extra);
}

}  // extern "C"

}  // namespace assay::cuda::model
