#include "faults.hpp"

#include <array>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "assay/cuda/abi/model_control.hpp"
#include "context.hpp"
#include "immortal.hpp"

namespace assay::cuda::model {

namespace {

constexpr std::array<const char*, function_count> function_names{
#define ASSAY_DRIVER_FUNCTION(symbol, base, version, need, parameters) \
  ASSAY_MODEL_HAS_##need(#symbol, )
#include "assay/cuda/abi/driver_functions.def"
#undef ASSAY_DRIVER_FUNCTION
};

struct Fault {
  Function function = Function::count;  ///< count: any
  bool every = false;
  bool sticky = false;
  std::uint64_t nth = 0;
  Status code = Status::success;

  [[nodiscard]] bool hits(Function called, std::uint64_t of_function,
                          std::uint64_t of_all) const noexcept {
    if (function != Function::count && function != called) return false;
    const std::uint64_t number = function == Function::count ? of_all : of_function;
    return every ? number % nth == 0 : number == nth;
  }
};

std::optional<Function> function_of(std::string_view name) {
  for (std::size_t i = 0; i < function_count; ++i) {
    if (name == function_names[i]) return static_cast<Function>(i);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value == 0) return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

/// `function:nth:code[:sticky]` or `function:every:N:code[:sticky]`
std::optional<Fault> read_fault(std::string_view entry) {
  std::vector<std::string_view> parts = split(entry, ':');
  Fault fault;
  if (parts.back() == "sticky") {
    fault.sticky = true;
    parts.pop_back();
  }
  if (parts.size() == 4 && parts[1] == "every") {
    fault.every = true;
    parts.erase(parts.begin() + 1);
  }
  if (parts.size() != 3) return std::nullopt;
  if (parts[0] != "*") {
    const std::optional<Function> function = function_of(parts[0]);
    if (!function) return std::nullopt;
    fault.function = *function;
  }
  const std::optional<std::uint64_t> nth = number_of(parts[1]);
  const std::optional<std::uint64_t> code = number_of(parts[2]);
  constexpr std::uint64_t code_max = 999;  // CUDA_ERROR_UNKNOWN, the largest
  if (!nth || !code || *code > code_max) return std::nullopt;
  fault.nth = *nth;
  fault.code = static_cast<Status>(*code);
  return fault;
}

std::optional<std::vector<Fault>> read_plan(std::string_view text) {
  std::vector<Fault> plan;
  if (text.empty()) return plan;
  for (const std::string_view entry : split(text, ',')) {
    const std::optional<Fault> fault = read_fault(entry);
    if (!fault) return std::nullopt;
    plan.push_back(*fault);
  }
  return plan;
}

struct Counts {
  std::atomic<std::uint64_t> process{0};  ///< never starts anew
  std::atomic<std::uint64_t> all{0};
  std::array<std::atomic<std::uint64_t>, function_count> of{};
  std::atomic<std::uint64_t> injected{0};
};
constinit Counts counts;

struct Plan {
  std::mutex mutex;
  std::vector<Fault> faults;
  std::atomic<bool> active{false};
  bool poisoned = false;  ///< by a sticky fault
  std::string error;

  Plan() {
    const char* text = std::getenv(abi::model_faults_variable);
    if (text == nullptr) return;
    std::optional<std::vector<Fault>> read = read_plan(text);
    if (read) {
      faults = std::move(*read);
      active = !faults.empty();
    } else {
      error = std::string(abi::model_faults_variable) + ": '" + text +
              "' is no fault plan (function:nth:code[:sticky] or function:every:N:code, ...)";
      std::fprintf(stderr, "assay model: %s\n", error.c_str());
    }
  }
};
Plan& plan() {
  static Immortal<Plan> the_plan;
  return *the_plan;
}

}  // namespace

const char* name_of(Function function) noexcept {
  return function_names[static_cast<std::size_t>(function)];
}

Status count_call(Function function, std::uint64_t& number) noexcept {
  Plan& the_plan = plan();
  number = counts.process.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::uint64_t of_all = counts.all.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::uint64_t of_function =
      counts.of[static_cast<std::size_t>(function)].fetch_add(1, std::memory_order_relaxed) + 1;
  if (!the_plan.active.load(std::memory_order_acquire)) return Status::success;

  const std::scoped_lock lock(the_plan.mutex);
  for (const Fault& fault : the_plan.faults) {
    if (!fault.hits(function, of_function, of_all)) continue;
    counts.injected.fetch_add(1, std::memory_order_relaxed);
    if (fault.sticky) {
      the_plan.poisoned = true;
      poison_all(fault.code);
    }
    return fault.code;
  }
  return Status::success;
}

bool set_fault_plan(std::string_view text) noexcept {
  std::optional<std::vector<Fault>> read = read_plan(text);
  if (!read) return false;
  Plan& the_plan = plan();
  const std::scoped_lock lock(the_plan.mutex);
  the_plan.faults = std::move(*read);
  the_plan.active.store(!the_plan.faults.empty(), std::memory_order_release);
  if (the_plan.poisoned) poison_all(Status::success);
  the_plan.poisoned = false;
  counts.all = 0;
  counts.injected = 0;
  for (std::atomic<std::uint64_t>& count : counts.of) count = 0;
  return true;
}

std::uint64_t calls_of(std::string_view function) noexcept {
  if (function == "*") return counts.all.load(std::memory_order_relaxed);
  const std::optional<Function> known = function_of(function);
  return known ? calls_of(*known) : 0;
}

std::uint64_t calls_of(Function function) noexcept {
  return counts.of[static_cast<std::size_t>(function)].load(std::memory_order_relaxed);
}

std::uint64_t faults_injected() noexcept {
  return counts.injected.load(std::memory_order_relaxed);
}

std::string_view fault_plan_error() noexcept {
  return plan().error;
}

}  // namespace assay::cuda::model
