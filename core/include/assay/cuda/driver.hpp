// Driver: libcuda.so.1 (or the model that stands in for it), loaded at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/ref.hpp"
#include "assay/base/result.hpp"
#include "assay/cuda/abi/driver_table.hpp"
#include "assay/cuda/abi/model_control.hpp"
#include "assay/cuda/device_facts.hpp"

namespace assay::cuda {

/// Parts of the driver that may be absent; the names come from driver_features.def.
enum class Feature : std::uint8_t {
#define ASSAY_DRIVER_FEATURE(name, meaning) name,
#include "assay/cuda/abi/driver_features.def"
#undef ASSAY_DRIVER_FEATURE
  count
};
[[nodiscard]] std::string_view name_of(Feature feature) noexcept;

/// A driver's version as people write it: 13000 is "13.0".
[[nodiscard]] std::string version_text(int version);

/// How a symbol was found: what `assay doctor` and the GPU check list.
struct SymbolFacts {
  const char* symbol = "";
  const char* base = "";
  int version = 0;        ///< asked of cuGetProcAddress
  const char* need = "";  ///< required, entry, or the feature's name
  bool found = false;
  const char* found_by = "";  ///< "cuGetProcAddress_v2", "cuGetProcAddress", "dlsym" or ""
};

/// True for a status after which the context answers no call any more: the sticky ones of device
/// faults (spec 2.12), a destroyed context, and a driver that is shutting down.
[[nodiscard]] bool ends_context(abi::Status status) noexcept;

/// What loading found, whether it came to a Driver or not.
struct LoadReport {
  std::string path;     ///< of the library that was opened, else the name that was tried
  std::string message;  ///< why there is no Driver, in a sentence; empty if there is one
  int version = 0;      ///< 0: it would not tell
  bool is_model = false;
  std::vector<SymbolFacts> symbols;  ///< empty if the library is no driver
};

/// The loaded driver. Never unloaded: its code may run in threads of its own.
///
/// **Threads** safe from any thread. **Fork** a child of a process that called the driver cannot
/// use it: calls answer not_initialized, and load() and instance() there say so.
class Driver final : public Counted {
 public:
  /// Environment variable that names the library to load instead of libcuda.so.1: the model, or a
  /// driver elsewhere. An explicit path of LoadOptions wins.
  static constexpr const char* path_variable = "ASSAY_CUDA_DRIVER";

  struct LoadOptions {
    std::string path;  ///< empty: path_variable, else libcuda.so.1; never libcuda.so, the link stub
  };

  /// Opens the library, resolves every function at its pinned version, and calls cuInit. Fills
  /// `report`, if given, also on failure. Warns once on standard error when it is the model.
  /// **Errors** no_driver (no such library: the normal state of a host without a GPU), no_device
  /// (a driver, but no device), invalid_argument (a library, but no driver), driver_too_old (a
  /// required function is missing: `feature` names the first, `native_text` counts them),
  /// driver_error with the driver's code, name and text (803 after an update without a restart;
  /// 34 for the stub of the toolkit; 3 in a forked child). **Cost** a dlopen, about 115 lookups,
  /// cuInit (the real driver: 0.1 s or more).
  [[nodiscard]] static Result<Ref<Driver>> load(const LoadOptions& options,
                                                LoadReport* report = nullptr) noexcept;

  /// The process's driver, loaded at the first call; the same outcome is given to every caller.
  /// **Errors** as load(). **Cost** after the first call: one system call.
  [[nodiscard]] static Result<Ref<Driver>> instance() noexcept;

  [[nodiscard]] const abi::DriverTable& table() const noexcept { return table_; }
  [[nodiscard]] int version() const noexcept { return version_; }  ///< 13000 is 13.0
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] bool has(Feature feature) const noexcept;
  /// Null for a real driver.
  [[nodiscard]] const assay_model_control* model() const noexcept { return model_; }
  /// "model" or "driver": what results record.
  [[nodiscard]] const char* kind() const noexcept { return model_ != nullptr ? "model" : "driver"; }
  [[nodiscard]] const char* profile() const noexcept;  ///< of the model, else ""
  [[nodiscard]] const std::vector<SymbolFacts>& symbols() const noexcept { return symbols_; }

  /// True in a child of the process that initialised the driver: no call may be made there.
  [[nodiscard]] bool forked() const noexcept;

  [[nodiscard]] int device_count() const noexcept { return device_count_; }
  /// **Errors** invalid_argument for an ordinal that is not there, driver_error.
  [[nodiscard]] Result<DeviceFacts> device_facts(int ordinal) const noexcept;

  /// The Error of a failed call: the driver's code with its name and text. `function` is static
  /// text. out_of_memory for code 2, context_lost for sticky and context codes, not_supported for
  /// 801, driver_error else.
  [[nodiscard]] Error error(abi::Status status, const char* function,
                            const char* backing = "") const noexcept;

  /// Advice by whichever ABI this driver has (Feature::advise_by_location tells which): by location
  /// where present, else translated (host: -1). **Pre** a current context. **Errors** on an old
  /// driver not_supported for a NUMA location and invalid_argument for one of no kind, where the
  /// advice needs one; and the driver's.
  [[nodiscard]] Result<void> advise(abi::DevicePointer address, std::size_t size,
                                    abi::Advise advice, abi::Location location,
                                    const char* backing) const noexcept;
  /// Prefetch likewise, ordered on `stream`. **Pre** a current context.
  [[nodiscard]] Result<void> prefetch(abi::DevicePointer address, std::size_t size,
                                      abi::Location location, abi::Stream stream,
                                      const char* backing) const noexcept;

 private:
  Driver() noexcept;
  ~Driver() override = default;

  friend class DriverLoader;
  abi::DriverTable table_{};
  std::string path_;
  std::vector<SymbolFacts> symbols_;
  const assay_model_control* model_ = nullptr;
  std::uint32_t features_ = 0;
  int version_ = 0;
  int device_count_ = 0;
  int process_;  ///< that loaded it
};

}  // namespace assay::cuda
