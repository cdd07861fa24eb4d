// The model's control table behind its marker symbol, and the report.
#include "assay/cuda/abi/model_control.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "arena.hpp"
#include "context.hpp"
#include "diagnoses.hpp"
#include "faults.hpp"
#include "memory_book.hpp"
#include "page_policy.hpp"
#include "pool.hpp"
#include "process.hpp"
#include "profile.hpp"
#include "rules.hpp"
#include "stream_engine.hpp"
#include "virtual_memory.hpp"

namespace assay::cuda::model {

namespace {

constexpr std::array<const char*, assay_model_object_count> object_names{
    "context", "device", "managed", "pinned",      "registered", "stream", "event",
    "module",  "pool",   "pooled",  "reservation", "physical",   "mapping"};

/// Memory that the program has not freed, though its free may not have run.
MemoryUse held(Kind kind) {
  const MemoryUse going = pool_counts().going[static_cast<std::size_t>(kind)];
  const MemoryUse use = memory_use(kind);  // later: some of those may have gone
  return {use.objects - std::min(use.objects, going.objects),
          use.bytes - std::min(use.bytes, going.bytes)};
}

std::uint64_t live_objects(std::uint32_t object) {
  switch (object) {
    case assay_model_context: return live_contexts();
    case assay_model_device: return memory_use(Kind::device).objects;
    case assay_model_managed: return held(Kind::managed).objects;
    case assay_model_pinned: return held(Kind::pinned).objects;
    case assay_model_registered: return memory_use(Kind::registered).objects;
    case assay_model_stream: return live_streams();
    case assay_model_event: return live_events();
    case assay_model_module: return live_modules();
    case assay_model_pool: return pool_counts().pools;
    case assay_model_pooled: return held(Kind::pooled).objects;
    case assay_model_reservation: return reservation_use().objects;
    case assay_model_physical: return physical_use().objects;
    case assay_model_mapping: return memory_use(Kind::mapped).objects;
    default: return 0;
  }
}

std::uint64_t live_bytes(std::uint32_t object) {
  switch (object) {
    case assay_model_device: return memory_use(Kind::device).bytes;
    case assay_model_managed: return held(Kind::managed).bytes;
    case assay_model_pinned: return held(Kind::pinned).bytes;
    case assay_model_registered: return memory_use(Kind::registered).bytes;
    case assay_model_pooled: return held(Kind::pooled).bytes;
    case assay_model_reservation: return reservation_use().bytes;
    case assay_model_physical: return physical_use().bytes;
    case assay_model_mapping: return memory_use(Kind::mapped).bytes;
    default: return 0;
  }
}

std::string live_object_lines() {
  std::string text;
  for (const ContextRecord* context : live_context_list()) {
    text += "live context, id " + std::to_string(context->id) + ", made by " +
            describe(context->created) + "\n";
  }
  for (const AllocationRef& allocation : live_allocations()) {
    if (is_going(*allocation)) continue;
    text += std::string("live ") + name_of(allocation->kind) + " memory " +
            describe_range(allocation->address, allocation->size) + ", made by " +
            describe(allocation->allocated) + "\n";
  }
  for (const std::string& line : live_pool_lines()) text += "live " + line + "\n";
  for (const std::string& line : live_virtual_objects()) text += "live " + line + "\n";
  for (const std::string& line : live_stream_objects()) text += "live " + line + "\n";
  return text;
}

std::uint64_t count_diagnoses() {
  return diagnosis_count();
}
const char* text_of_diagnosis(std::uint64_t index) {
  return diagnosis_text(index);
}

constexpr assay_model_control control{
    .abi = abi::model_control_abi,
    .size = sizeof(assay_model_control),
    .profile = [] { return profile().name.c_str(); },
    .set_faults =
        [](const char* plan) { return set_fault_plan(plan == nullptr ? "" : plan) ? 0 : 1; },
    .calls = [](const char* function) { return function == nullptr ? 0 : calls_of(function); },
    .faults_injected = [] { return faults_injected(); },
    .live_objects = live_objects,
    .live_bytes = live_bytes,
    .diagnosis_count = count_diagnoses,
    .diagnosis = text_of_diagnosis,
    .forget_diagnoses = [] { forget_diagnoses(); },
    .set_capacity = [](std::uint64_t bytes) { set_capacity_bytes(bytes); },
    .open_gates = [] { open_all_gates(); },
    .poison = [](std::uint32_t code) { poison_all(static_cast<Status>(code)); },
    .resident_bytes = [](std::uint64_t address, std::uint64_t size,
                         std::int32_t device) { return resident_bytes({address, size}, device); },
    .report = [](int fd) { write_report(fd); },
    .rules = [] { return rules_text(); },
    .set_host_capacity = [](std::uint64_t bytes) { set_host_capacity_bytes(bytes); },
    .host_reads = [](std::uint64_t address,
                     std::uint64_t size) { return host_reads_early({address, size}) ? 1 : 0; },
};

}  // namespace

std::string report_text() {
  const Profile& the_profile = profile();
  std::string text = "assay model report\n";
  text += "profile " + the_profile.name + ", driver " + std::to_string(the_profile.driver_version) +
          "\n";
  for (std::uint32_t object = 0; object < assay_model_object_count; ++object) {
    text += std::string(object_names[object]) + " objects " + std::to_string(live_objects(object)) +
            ", bytes " + std::to_string(live_bytes(object)) + "\n";
  }
  text += live_object_lines();
  text += "diagnoses " + std::to_string(diagnosis_count()) + "\n";
  for (std::uint64_t i = 0; i < diagnosis_count(); ++i) {
    text += std::string("diagnosis ") + diagnosis_text(i) + "\n";
  }
  text += "faults injected " + std::to_string(faults_injected()) + "\n";
  text += "calls " + std::to_string(calls_of("*")) + "\n";
  for (std::size_t i = 0; i < function_count; ++i) {
    const auto function = static_cast<Function>(i);
    if (calls_of(function) == 0) continue;
    text +=
        std::string("calls ") + name_of(function) + " " + std::to_string(calls_of(function)) + "\n";
  }
  for (std::size_t i = 0; i < rule_count; ++i) {
    const auto rule = static_cast<Rule>(i);
    if (times_met(rule) == 0) continue;
    text += std::string("rule ") + id_of(rule) + " " + std::to_string(times_met(rule)) + "\n";
  }
  return text;
}

}  // namespace assay::cuda::model

extern "C" [[gnu::visibility("default")]] const assay_model_control* assay_cuda_model() {
  return &assay::cuda::model::control;
}
