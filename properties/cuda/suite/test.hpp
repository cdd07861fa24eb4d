// Test: one statement about the CUDA driver, with the outcomes that its sources allow.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "assay/cuda/driver.hpp"

namespace assay::conformance {

using cuda::abi::DeviceAttribute;
using cuda::abi::DevicePointer;
using cuda::abi::Status;

/// Where a rule comes from.
enum class Source : std::uint8_t {
  hdr,     ///< comments of the CUDA 13.0 cuda.h
  hip,     ///< what ROCm/hip-tests expects on the NVIDIA platform
  lup,     ///< lupine's probes of a real driver
  uvm,     ///< source of the open kernel modules
  doc,     ///< NVIDIA's programming guide
  iss,     ///< public issue threads
  unsure,  ///< [?]: inference, to be settled by a probe
  model,   ///< what the model promises beyond a driver
};
[[nodiscard]] std::string_view name_of(Source source) noexcept;

/// What one step of a test may give: any of `allowed`, or anything if that is empty.
struct Expectation {
  enum class Kind : std::uint8_t { code, holds, value, signal };
  Kind kind;
  const char* step;  ///< the observation of this name
  std::vector<std::int64_t> allowed;
  Source source;
};
[[nodiscard]] std::string_view name_of(Expectation::Kind kind) noexcept;
[[nodiscard]] bool allows(const Expectation& expectation, std::int64_t value) noexcept;
/// "success (0)", "true", "17", "SIGSEGV".
[[nodiscard]] std::string spell(Expectation::Kind kind, std::int64_t value);

/// The step's status is one of these codes.
[[nodiscard]] Expectation code(const char* step, std::vector<std::int64_t> allowed, Source source);
[[nodiscard]] Expectation succeeds(const char* step, Source source);
/// The statement is true.
[[nodiscard]] Expectation holds(const char* step, Source source);
[[nodiscard]] Expectation value(const char* step, std::vector<std::int64_t> allowed, Source source);
/// The host touch ends in SIGSEGV or SIGBUS: which of the two is the system's affair.
[[nodiscard]] Expectation faults(const char* step, Source source);
/// The host touch is a plain access.
[[nodiscard]] Expectation touches(const char* step, Source source);
/// The value is recorded, whatever it is: nobody promises one.
[[nodiscard]] Expectation recorded(Expectation::Kind kind, const char* step);

/// How far the process is when the steps begin.
enum class Start : std::uint8_t {
  unloaded,     ///< functions looked up by name alone, cuInit not called
  initialised,  ///< cuInit called, no context retained or current
  current,      ///< the primary context of device 0 retained and current
};

/// What a test needs of a driver; otherwise it is skipped, and the reason is printed.
struct Needs {
  struct Attribute {
    DeviceAttribute which;
    bool present;
  };
  Start start = Start::current;
  std::vector<Attribute> attributes;
  std::vector<cuda::Feature> features;
  std::vector<cuda::Regime> regimes;  ///< one of these, if not empty
  int version_least = 0;              ///< 12020: driver 12.2 or newer
  int version_below = 0;              ///< 0: no limit
  const char* model_only = nullptr;   ///< why a driver cannot be asked
  const char* driver_only = nullptr;  ///< why the model cannot be asked
};
[[nodiscard]] Needs operator+(Needs left, const Needs& right);
[[nodiscard]] Needs from(Start start);
[[nodiscard]] Needs with(DeviceAttribute attribute);
[[nodiscard]] Needs without(DeviceAttribute attribute);
[[nodiscard]] Needs having(cuda::Feature feature);
[[nodiscard]] Needs in(std::vector<cuda::Regime> regimes);
[[nodiscard]] Needs since(int version);
[[nodiscard]] Needs before(int version);
[[nodiscard]] Needs model_only(const char* why);
/// A null out-pointer: the model answers invalid_value, a driver may crash.
[[nodiscard]] Needs null_out_pointer();

class Run;
using Steps = void (*)(Run& run);
using Call = Status (*)(Run& run);

struct Test {
  const char* id;      ///< "group.rest"
  const char* states;  ///< the rule, in one sentence
  Needs needs;
  std::vector<Expectation> allowed;
  Steps steps = nullptr;
  Call call = nullptr;  ///< instead of steps: one call, observed as "status"
};

/// A test of one call's code.
[[nodiscard]] Test answers(const char* id, const char* states, std::vector<std::int64_t> allowed,
                           Source source, Call call, Needs needs = {});

using Tests = std::vector<Test>;

/// Every test, sorted by group as the files are.
[[nodiscard]] const Tests& all_tests();
[[nodiscard]] const Test* find_test(std::string_view id) noexcept;
[[nodiscard]] std::string group_of(const Test& test);

}  // namespace assay::conformance
