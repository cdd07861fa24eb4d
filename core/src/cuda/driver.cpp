#include "assay/cuda/driver.hpp"

#include <atomic>
#include <new>

#include <unistd.h>

#include "driver_loader.hpp"

namespace assay::cuda {
namespace {

using abi::Status;

/// The ordinal by which the old ABI names a location. Advice that ignores the location takes any.
Result<abi::Device> ordinal_of(abi::Location location, bool ignored, const char* feature,
                               const char* backing) noexcept {
  switch (location.type) {
    case abi::LocationType::device: return location.id;
    case abi::LocationType::host: return abi::device_cpu;
    case abi::LocationType::host_numa:
    case abi::LocationType::host_numa_current:
      return Error::make(ErrorCode::not_supported, feature, backing);
    case abi::LocationType::none: break;
  }
  if (ignored) return abi::device_cpu;
  return Error::make(ErrorCode::invalid_argument, feature, backing,
                     static_cast<std::uint64_t>(location.type));
}

/// [hdr] READ_MOSTLY, set and unset, and UNSET_PREFERRED ignore where.
bool ignores_location(abi::Advise advice) noexcept {
  return advice == abi::Advise::set_read_mostly || advice == abi::Advise::unset_read_mostly ||
         advice == abi::Advise::unset_preferred_location;
}

}  // namespace

bool ends_context(Status status) noexcept {
  switch (static_cast<std::uint32_t>(status)) {
    case 4:    // the driver is shutting down
    case 201:  // no such context
    case 709:  // it was destroyed
    // Those of which cuda.h says that the process must be relaunched [hdr], and errors of memory
    // and links that cannot be corrected.
    case 214:
    case 220:
    case 226:
    case 700:
    case 702:
    case 710:
    case 714:
    case 715:
    case 716:
    case 717:
    case 718:
    case 719:
    case 721:
    case 810:
    case 911: return true;
    default: return false;
  }
}

Driver::Driver() noexcept : process_(::getpid()) {}

bool Driver::has(Feature feature) const noexcept {
  return feature < Feature::count && (features_ >> static_cast<unsigned>(feature) & 1U) != 0;
}

const char* Driver::profile() const noexcept {
  return model_ != nullptr ? model_->profile() : "";
}

bool Driver::forked() const noexcept {
  return process_ != ::getpid();
}

Result<Ref<Driver>> Driver::instance() noexcept {
  if (const auto error = DriverLoader::forked_error()) return *error;
  // In a child forked while another thread of the parent loaded, the static below is locked
  // forever.
  static constinit std::atomic<int> loading_in{0};
  static constinit std::atomic<bool> loaded{false};
  int nobody = 0;
  if (!loading_in.compare_exchange_strong(nobody, ::getpid()) && nobody != ::getpid() &&
      !loaded.load(std::memory_order_acquire)) {
    return DriverLoader::fork_refused();
  }
  struct Outcome {
    Result<Ref<Driver>> result = Driver::load({});
  };
  // Never destroyed: static objects of the program may use it to the very end.
  static Outcome* const outcome = new (std::nothrow) Outcome;
  loaded.store(true, std::memory_order_release);
  if (outcome == nullptr) return Error::make(ErrorCode::out_of_memory, "load the CUDA driver");
  return outcome->result;
}

Error Driver::error(Status status, const char* function, const char* backing) const noexcept {
  ErrorCode code = ErrorCode::driver_error;
  if (status == Status::out_of_memory) code = ErrorCode::out_of_memory;
  if (status == Status::not_supported) code = ErrorCode::not_supported;
  if (ends_context(status)) code = ErrorCode::context_lost;
  Error error = Error::make(code, function, backing);
  error.native = static_cast<std::int32_t>(status);
  const char* text = nullptr;  // an unknown code leaves null [hdr]
  if (table_.cuGetErrorName(status, &text) == Status::success && text != nullptr) {
    error.native_name = text;
  }
  text = nullptr;
  if (table_.cuGetErrorString(status, &text) == Status::success && text != nullptr) {
    error.native_text = text;
  }
  return error;
}

Result<void> Driver::advise(abi::DevicePointer address, std::size_t size, abi::Advise advice,
                            abi::Location location, const char* backing) const noexcept {
  Status status{};
  if (has(Feature::advise_by_location)) {
    status = table_.cuMemAdvise_v2(address, size, advice, location);
  } else {
    ASSAY_TRY(const abi::Device device,
              ordinal_of(location, ignores_location(advice), "advise", backing));
    status = table_.cuMemAdvise(address, size, advice, device);
  }
  if (status != Status::success) return error(status, "cuMemAdvise", backing);
  return {};
}

Result<void> Driver::prefetch(abi::DevicePointer address, std::size_t size, abi::Location location,
                              abi::Stream stream, const char* backing) const noexcept {
  Status status{};
  if (has(Feature::advise_by_location)) {
    status = table_.cuMemPrefetchAsync_v2(address, size, location, 0, stream);
  } else {
    ASSAY_TRY(const abi::Device device, ordinal_of(location, false, "prefetch", backing));
    status = table_.cuMemPrefetchAsync(address, size, device, stream);
  }
  if (status != Status::success) return error(status, "cuMemPrefetchAsync", backing);
  return {};
}

}  // namespace assay::cuda
