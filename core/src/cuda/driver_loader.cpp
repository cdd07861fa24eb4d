#include "driver_loader.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include "driver_rows.hpp"
#include "static_text.hpp"

namespace assay::cuda {
namespace {

using abi::Status;
using detail::Need;

// Never libcuda.so: that may be the toolkit's stub, made for linking only [hdr].
constexpr const char* default_library = "libcuda.so.1";
constexpr const char* stub_name = "CUDA_ERROR_STUB_LIBRARY";

// The process that initialised a driver: a child forked from it may not use any.
constinit std::atomic<int> initialised_in{0};
constinit std::atomic<bool> warned_of_model{false};

std::string library_name(const Driver::LoadOptions& options) {
  if (!options.path.empty()) return options.path;
  const char* const variable = std::getenv(Driver::path_variable);
  return variable != nullptr && *variable != '\0' ? variable : default_library;
}

/// Of the codes that cuGetProcAddress documents, those by which a driver says that it has no such
/// function, or none of that version. Any other is a failure that proves no absence.
bool means_absent(Status status) {
  return status == Status::invalid_value || status == Status::not_found ||
         status == Status::not_supported;
}

}  // namespace

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::optional<Error> DriverLoader::forked_error() noexcept {
  const int owner = initialised_in.load(std::memory_order_acquire);
  if (owner == 0 || owner == ::getpid()) return std::nullopt;
  return fork_refused();
}

Error DriverLoader::fork_refused() noexcept {
  Error error = Error::make(ErrorCode::driver_error, "load the CUDA driver");
  error.native = static_cast<std::int32_t>(Status::not_initialized);
  error.native_name = "CUDA_ERROR_NOT_INITIALIZED";
  error.native_text =
      "this process was forked from one that had initialised the driver; start a program anew, or "
      "fork before the first use";
  return error;
}

Error DriverLoader::refuse(ErrorCode code, const char* feature,
                           const std::string& message) noexcept {
  Error error = Error::make(code, feature);
  error.native_text = detail::static_text(message);
  report_.message = message;
  return error;
}

Error DriverLoader::refuse_stub() {
  Error error = refuse(ErrorCode::driver_error, "load the CUDA driver",
                       fmt::format("{} is the toolkit's stub, made for linking only; the driver "
                                   "itself comes with NVIDIA's driver package, as {}",
                                   report_.path, default_library));
  error.native = static_cast<std::int32_t>(Status::stub_library);
  error.native_name = stub_name;  // the stub has no text for its own code
  return error;
}

Error DriverLoader::refuse_failed_lookup() {
  const auto [base, status] = failed_lookup_;
  const int code = static_cast<int>(status);
  Error error = refuse(ErrorCode::driver_error, "cuGetProcAddress",
                       fmt::format("{} answered {} when asked for {}", report_.path, code, base));
  error.native = code;
  const auto get_name =
      reinterpret_cast<decltype(abi::DriverTable::cuGetErrorName)>(lookup("cuGetErrorName"));
  const char* name = nullptr;
  if (get_name != nullptr && get_name(status, &name) == Status::success && name != nullptr) {
    error.native_name = detail::static_text(name);  // the library is closed after this
  }
  return error;
}

void* DriverLoader::lookup(const char* symbol) const noexcept {
  return ::dlsym(library_, symbol);
}

Result<void> DriverLoader::open(const std::string& wanted) {
  report_.path = wanted;
  library_ = ::dlopen(wanted.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) {
    const char* const why = ::dlerror();
    return refuse(ErrorCode::no_driver, "load the CUDA driver",
                  why != nullptr ? why : wanted + " cannot be opened");
  }
  link_map* map = nullptr;
  if (::dlinfo(library_, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && *map->l_name != '\0') {
    report_.path = map->l_name;
  }
  return {};
}

Result<void> DriverLoader::find_entries() {
  if (lookup("cuInit") == nullptr || lookup("cuDriverGetVersion") == nullptr) {
    return refuse(ErrorCode::invalid_argument, "load the CUDA driver",
                  fmt::format("{} is no CUDA driver: it exports no cuInit and cuDriverGetVersion",
                              report_.path));
  }
  for (const detail::DriverRow& row : detail::driver_rows()) {
    if (row.need == Need::entry) row.store(driver_->table_, lookup(row.symbol));
  }
  return {};
}

void* DriverLoader::resolve(const char* symbol, const char* base, int version,
                            const char*& found_by) noexcept {
  // Explicit streams and one fixed meaning of the null stream, whatever flags built the caller.
  constexpr std::uint64_t flags = abi::proc_address_legacy_stream;
  const abi::DriverTable& table = driver_->table_;
  void* function = nullptr;
  Status status = Status::success;
  if (table.cuGetProcAddress_v2 != nullptr) {
    abi::ProcAddressResult outcome{};
    found_by = "cuGetProcAddress_v2";
    status = table.cuGetProcAddress_v2(base, &function, version, flags, &outcome);
  } else if (table.cuGetProcAddress != nullptr) {
    found_by = "cuGetProcAddress";
    status = table.cuGetProcAddress(base, &function, version, flags);
  } else {
    found_by = "dlsym";
    function = lookup(symbol);
  }
  if (status == Status::stub_library) stub_ = true;
  if (status != Status::success && !means_absent(status) && failed_lookup_.base == nullptr) {
    failed_lookup_ = {base, status};
  }
  // An unknown symbol is answered with success and a null pointer: the pointer decides [hdr]. After
  // a failure the out-parameter means nothing.
  if (status != Status::success) function = nullptr;
  if (function == nullptr) found_by = "";
  return function;
}

Result<void> DriverLoader::ask_version() {
  const char* found_by = "";
  void* const function = resolve("cuDriverGetVersion", "cuDriverGetVersion", 2020, found_by);
  if (stub_) return refuse_stub();
  if (failed_lookup_.base != nullptr) return refuse_failed_lookup();
  if (function == nullptr) return {};  // check_required counts what is missing
  const auto get_version =
      reinterpret_cast<decltype(abi::DriverTable::cuDriverGetVersion)>(function);
  int version = 0;
  const Status status = get_version(&version);
  if (status == Status::stub_library) return refuse_stub();
  if (status != Status::success || version <= 0) {
    Error error = refuse(ErrorCode::driver_error, "cuDriverGetVersion",
                         fmt::format("{} does not tell its version", report_.path));
    error.native = static_cast<std::int32_t>(status);
    return error;
  }
  driver_->version_ = report_.version = version;
  return {};
}

void DriverLoader::resolve_all() {
  driver_->features_ = (std::uint32_t{1} << static_cast<unsigned>(Feature::count)) - 1;
  driver_->symbols_.reserve(detail::driver_rows().size());
  const abi::DriverTable& table = driver_->table_;
  const bool asks = table.cuGetProcAddress_v2 != nullptr || table.cuGetProcAddress != nullptr;
  for (const detail::DriverRow& row : detail::driver_rows()) {
    SymbolFacts facts{row.symbol, row.base, row.version, row.need_name, false, ""};
    if (row.need == Need::entry) {
      facts.found = lookup(row.symbol) != nullptr;
      facts.found_by = facts.found ? "dlsym" : "";
    } else if (!asks || driver_->version_ == 0 || row.version <= driver_->version_) {
      // A version above the driver's own must not be asked for: such a row is absent.
      void* const function = resolve(row.symbol, row.base, row.version, facts.found_by);
      row.store(driver_->table_, function);
      facts.found = function != nullptr;
    }
    if (!facts.found && row.need < Need::required) {
      driver_->features_ &= ~(std::uint32_t{1} << static_cast<unsigned>(row.need));
    }
    driver_->symbols_.push_back(facts);
  }
  report_.symbols = driver_->symbols_;
}

Result<void> DriverLoader::check_required() {
  const char* first = nullptr;
  std::size_t missing = 0;
  std::size_t required = 0;
  for (const SymbolFacts& facts : driver_->symbols_) {
    if (std::string_view(facts.need) != "required") continue;
    ++required;
    if (facts.found) continue;
    ++missing;
    if (first == nullptr) first = facts.symbol;
  }
  const std::string driver = driver_->version_ == 0 ? report_.path
                                                    : fmt::format("{}, driver {},", report_.path,
                                                                  version_text(driver_->version_));
  if (missing != 0) {
    return refuse(ErrorCode::driver_too_old, first,
                  fmt::format("{} lacks {} of {} required functions, first {}", driver, missing,
                              required, first));
  }
  if (!driver_->has(Feature::advise_by_location) && !driver_->has(Feature::advise_by_ordinal)) {
    return refuse(ErrorCode::driver_too_old, "cuMemAdvise",
                  driver + " has cuMemAdvise and cuMemPrefetchAsync in neither of their two ABIs");
  }
  return {};
}

Result<void> DriverLoader::find_model() {
  void* const marker = lookup(abi::model_marker);
  if (marker == nullptr) return {};
  const auto* const control = reinterpret_cast<decltype(&assay_cuda_model)>(marker)();
  report_.is_model = true;
  if (control == nullptr || control->abi != abi::model_control_abi ||
      control->size < sizeof(assay_model_control)) {
    return refuse(ErrorCode::driver_error, "load the driver model",
                  fmt::format("{} is a model of another build: its control table is of ABI {}, {} "
                              "bytes; this build knows ABI {}, {} bytes",
                              report_.path, control != nullptr ? control->abi : 0,
                              control != nullptr ? control->size : 0, abi::model_control_abi,
                              sizeof(assay_model_control)));
  }
  driver_->model_ = control;
  if (!warned_of_model.exchange(true)) {
    fmt::print(stderr,
               "assay: the CUDA driver is a model ({}, profile {}): no GPU is used, and times mean "
               "nothing\n",
               report_.path, control->profile());
  }
  return {};
}

Result<void> DriverLoader::initialise() {
  const Status status = driver_->table_.cuInit(0);
  if (status == Status::stub_library) return refuse_stub();
  if (status != Status::success) {
    Error error = driver_->error(status, "cuInit");
    if (status == Status::no_device) {
      error.code = ErrorCode::no_device;
      error.retryable = false;
    }
    report_.message = describe(error);
    return error;
  }
  initialised_in.store(::getpid(), std::memory_order_release);
  int count = 0;
  const Status counted = driver_->table_.cuDeviceGetCount(&count);
  if (counted != Status::success) {
    const Error error = driver_->error(counted, "cuDeviceGetCount");
    report_.message = describe(error);
    return error;
  }
  if (count <= 0) {
    return refuse(ErrorCode::no_device, "cuDeviceGetCount",
                  fmt::format("{} is there but sees no device", report_.path));
  }
  driver_->device_count_ = count;
  return {};
}

Result<void> DriverLoader::examine() {
  ASSAY_TRY_VOID(find_entries());
  ASSAY_TRY_VOID(ask_version());
  resolve_all();
  if (failed_lookup_.base != nullptr) return refuse_failed_lookup();
  ASSAY_TRY_VOID(check_required());
  return find_model();
}

Result<Ref<Driver>> DriverLoader::load(const std::string& wanted) {
  if (const auto error = forked_error()) {
    report_.message = error->native_text;
    return *error;
  }
  driver_ = Ref<Driver>::adopt(new (std::nothrow) Driver());
  if (!driver_) return Error::make(ErrorCode::out_of_memory, "load the CUDA driver");
  ASSAY_TRY_VOID(open(wanted));
  if (const auto good = examine(); !good) {
    // The stub's soname is libcuda.so.1: left open, it would be what a later default finds.
    ::dlclose(library_);
    return good.error();
  }
  driver_->path_ = report_.path;
  ASSAY_TRY_VOID(initialise());
  return std::move(driver_);
}

Result<Ref<Driver>> Driver::load(const LoadOptions& options, LoadReport* report) noexcept {
  try {
    LoadReport own;
    LoadReport& used = report != nullptr ? *report : own;
    used = LoadReport{};
    return DriverLoader(used).load(library_name(options));
  } catch (const std::bad_alloc&) {
    return Error::make(ErrorCode::out_of_memory, "load the CUDA driver");
  }
}

}  // namespace assay::cuda
