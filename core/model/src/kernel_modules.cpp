#include "kernel_modules.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "handle_table.hpp"
#include "immortal.hpp"

namespace assay::cuda::model {

namespace {

using ModuleTable = HandleTable<ModuleRecord, Module, 0x5c>;
using FunctionTable = HandleTable<FunctionRecord, abi::Function, 0x5d>;

ModuleTable& modules() {
  static Immortal<ModuleTable> table;
  return *table;
}

FunctionTable& functions() {
  static Immortal<FunctionTable> table;
  return *table;
}

void erase_functions_of(Module module) {
  for (const auto& [handle, function] : functions().all()) {
    if (function->module == module) functions().erase(handle);
  }
}

}  // namespace

Module insert_module(ContextRecord& context, Site site) {
  return modules().insert(std::make_shared<ModuleRecord>(ModuleRecord{&context, site}));
}

bool erase_module(Module module) {
  if (modules().erase(module) == nullptr) return false;
  erase_functions_of(module);
  return true;
}

bool is_live(Module module) {
  return modules().find(module).object != nullptr;
}

abi::Function find_function(Module module, const char* name) {
  const auto owner = modules().find(module).object;
  const auto* const signature = std::find_if(
      abi::kernel_signatures.begin(), abi::kernel_signatures.end(),
      [&](const abi::KernelSignature& each) { return std::string_view(each.entry) == name; });
  if (owner == nullptr || signature == abi::kernel_signatures.end()) return nullptr;
  const auto kernel = static_cast<KernelIndex>(signature - abi::kernel_signatures.begin());
  for (const auto& [handle, function] : functions().all()) {
    if (function->module == module && function->kernel == kernel) return handle;
  }
  return functions().insert(
      std::make_shared<FunctionRecord>(FunctionRecord{module, owner->context, kernel}));
}

bool find_function_record(abi::Function function, FunctionRecord& record) {
  const auto found = functions().find(function).object;
  if (found == nullptr) return false;
  record = *found;
  return true;
}

void end_modules_of(ContextRecord& context) {
  for (const auto& [handle, module] : modules().all()) {
    if (module->context == &context) erase_module(handle);
  }
}

std::vector<Site> live_module_sites() {
  std::vector<Site> sites;
  for (const auto& [handle, module] : modules().all()) sites.push_back(module->created);
  return sites;
}

std::uint64_t live_modules() noexcept {
  return modules().live();
}

}  // namespace assay::cuda::model
