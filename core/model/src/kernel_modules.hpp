// Modules and their functions: only assay's own kernels, which the model knows by their text.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/cuda/abi/kernels.hpp"
#include "context.hpp"
#include "site.hpp"

namespace assay::cuda::model {

/// Index into kernel_signatures.
using KernelIndex = std::size_t;

struct ModuleRecord {
  ContextRecord* context = nullptr;
  Site created;
};

struct FunctionRecord {
  Module module = nullptr;
  ContextRecord* context = nullptr;
  KernelIndex kernel = 0;
};

[[nodiscard]] Module insert_module(ContextRecord& context, Site site);
/// False if the handle is not live.
bool erase_module(Module module);
[[nodiscard]] bool is_live(Module module);
/// The function of that name, the same handle each time. Null: no kernel is called so.
[[nodiscard]] abi::Function find_function(Module module, const char* name);
/// False if the handle is dead, as those of an unloaded module are.
[[nodiscard]] bool find_function_record(abi::Function function, FunctionRecord& record);

void end_modules_of(ContextRecord& context);
[[nodiscard]] std::vector<Site> live_module_sites();

}  // namespace assay::cuda::model
