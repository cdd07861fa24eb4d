#include "assay/cuda/kernels.hpp"

#include <new>

#include "destroy.hpp"

namespace assay::cuda {

Result<Ref<Kernels>> Kernels::load(Ref<PrimaryContext> context) noexcept {
  if (!context->driver().has(Feature::tests)) {
    return Error::make(ErrorCode::not_supported, "load the kernels");
  }
  ASSAY_TRY(const Current current, Current::of(*context));
  const abi::DriverTable& table = context->table();
  abi::Module module = nullptr;
  ASSAY_TRY_VOID(
      context->check(table.cuModuleLoadData(&module, abi::kernel_ptx), "cuModuleLoadData"));
  auto* const raw = new (std::nothrow) Kernels(context, module);
  if (raw == nullptr) {
    table.cuModuleUnload(module);
    return Error::make(ErrorCode::out_of_memory, "load the kernels");
  }
  Ref<Kernels> kernels = Ref<Kernels>::adopt(raw);
  ASSAY_TRY_VOID(kernels->find(kernels->fill_, abi::FillParameters::entry));
  ASSAY_TRY_VOID(kernels->find(kernels->touch_, abi::TouchParameters::entry));
  ASSAY_TRY_VOID(kernels->find(kernels->checksum_, abi::ChecksumParameters::entry));
  ASSAY_TRY_VOID(kernels->find(kernels->spin_, abi::SpinParameters::entry));
  return kernels;
}

Kernels::~Kernels() {
  detail::destroy_under(*context_, [&] { return context_->table().cuModuleUnload(module_); });
}

Result<void> Kernels::find(abi::Function& function, const char* entry) noexcept {
  return context_->check(context_->table().cuModuleGetFunction(&function, module_, entry),
                         "cuModuleGetFunction");
}

template <class Parameters>
Result<void> Kernels::launch_on(abi::Function function, Parameters parameters, Grid grid,
                                Stream& stream) noexcept {
  // The fields in their order, 8 bytes each: what abi/kernels.hpp promises of every struct.
  constexpr std::size_t count = abi::signature_of<Parameters>().parameters;
  void* pointers[count];
  for (std::size_t i = 0; i < count; ++i) {
    pointers[i] = reinterpret_cast<std::uint64_t*>(&parameters) + i;
  }
  ASSAY_TRY(const Current current, Current::of(*context_));
  return context_->check(
      context_->table().cuLaunchKernel(function, grid.blocks, 1, 1, grid.threads_per_block, 1, 1, 0,
                                       stream.handle(), pointers, nullptr),
      "cuLaunchKernel");
}

Result<void> Kernels::launch(const abi::FillParameters& parameters, Grid grid,
                             Stream& stream) noexcept {
  return launch_on(fill_, parameters, grid, stream);
}

Result<void> Kernels::launch(const abi::TouchParameters& parameters, Grid grid,
                             Stream& stream) noexcept {
  return launch_on(touch_, parameters, grid, stream);
}

Result<void> Kernels::launch(const abi::ChecksumParameters& parameters, Grid grid,
                             Stream& stream) noexcept {
  return launch_on(checksum_, parameters, grid, stream);
}

Result<void> Kernels::launch(const abi::SpinParameters& parameters, Stream& stream) noexcept {
  return launch_on(spin_, parameters, Grid{1, 1}, stream);
}

}  // namespace assay::cuda
