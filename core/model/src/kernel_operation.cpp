#include "kernel_operation.hpp"

#include <bit>
#include <chrono>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "rules.hpp"
#include "stream_gate.hpp"

namespace assay::cuda::model {

namespace {

using abi::ChecksumParameters;
using abi::FillParameters;
using abi::SpinParameters;
using abi::TouchParameters;

constexpr std::size_t word_size = sizeof(std::uint64_t);
constexpr auto misaligned_address = static_cast<Status>(716);

template <class Parameters>
Parameters parameters_of(const KernelArguments& arguments) {
  Parameters parameters;
  static_assert(sizeof parameters <= sizeof arguments);
  std::memcpy(&parameters, arguments.data(), sizeof parameters);
  return parameters;
}

// As much of [address, address + count * unit) as the address space has: what runs over its end
// is found in no allocation.
Range range_of(std::uint64_t address, std::uint64_t count, std::uint64_t unit) {
  const std::uint64_t room = ~address / unit;
  return {address, (count < room ? count : room) * unit};
}

/// The bytes for aligned words; null if there are none to use, or after a fault.
std::byte* use_words(Range range, std::size_t alignment, Access access, Running& running) {
  if (running.fault != Status::success || range.size == 0) return nullptr;
  if (range.address % alignment != 0) {
    diagnose(Rule::access_misaligned, describe(running.site) + " used " +
                                          describe_range(range.address, range.size) +
                                          " in units of " + std::to_string(alignment));
    running.fault = answer(Rule::access_misaligned, misaligned_address);
    return nullptr;
  }
  return use_address(range, access, running);
}

std::uint64_t load(const std::byte* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, word_size);
  return word;
}

void store(std::byte* at, std::uint64_t word) {
  std::memcpy(at, &word, word_size);
}

// Other kernels may add to the same word at once: atomic, as on the device.
void add_to_word(std::uint64_t address, std::uint64_t sum, Running& running) {
  std::byte* at = use_words({address, word_size}, word_size, Access::write, running);
  if (at == nullptr) return;
  __atomic_fetch_add(reinterpret_cast<std::uint64_t*>(at), sum, __ATOMIC_ACQ_REL);
}

Status fill(const FillParameters& fill, Running running) {
  std::byte* at =
      use_words(range_of(fill.address, fill.words, word_size), word_size, Access::write, running);
  if (at == nullptr) return running.fault;
  for (std::uint64_t i = 0; i < fill.words; ++i) {
    store(at + i * word_size, fill.value + i * fill.step);
  }
  return running.fault;
}

Status touch(const TouchParameters& touch, Running running) {
  if (touch.stride == 0) {
    diagnose(Rule::touch_stride, describe(running.site) + " launched touch with stride 0");
    return answer(Rule::touch_stride, Status::launch_failed);
  }
  const auto add = static_cast<std::uint8_t>(touch.add);
  const bool all = touch.stride == 1;
  const Access reads = all ? Access::read : Access::read_some;
  const Access access = add == 0 ? reads : all ? Access::update : Access::write;
  std::byte* at = use_words({touch.address, touch.bytes}, 1, access, running);
  std::uint64_t sum = 0;
  for (std::uint64_t offset = 0; at != nullptr && offset < touch.bytes;) {
    const auto seen = std::to_integer<std::uint8_t>(at[offset]);
    sum += seen;
    if (add != 0) at[offset] = static_cast<std::byte>(seen + add);
    if (touch.stride >= touch.bytes - offset) break;
    offset += touch.stride;
  }
  if (running.fault == Status::success && touch.sum != 0) add_to_word(touch.sum, sum, running);
  return running.fault;
}

Status checksum(const ChecksumParameters& check, Running running) {
  const std::byte* at =
      use_words(range_of(check.address, check.words, word_size), word_size, Access::read, running);
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; at != nullptr && i < check.words; ++i) {
    sum += load(at + i * word_size) * (2 * i + 1);
  }
  if (running.fault == Status::success) add_to_word(check.result, sum, running);
  return running.fault;
}

/// A spinning kernel between its start and its end.
struct Spin {
  SpinParameters parameters;
  Operand flag;  ///< found at the launch; else the kernel faults when it starts
  bool started = false;
  std::chrono::steady_clock::time_point start;

  [[nodiscard]] bool is_open() const {
    std::uint32_t word = 0;
    return flag.allocation != nullptr && read_word(flag, word) &&
           agrees(word, static_cast<std::uint32_t>(parameters.value), wait_value_geq);
  }

  /// Looks at the flag, and for how long it has been looked at.
  [[nodiscard]] bool may_end() {
    std::uint32_t word = 0;
    if (flag.allocation == nullptr || !read_word(flag, word) || is_open()) return true;
    const auto now = std::chrono::steady_clock::now();
    if (!std::exchange(started, true)) start = now;
    const auto waited = std::chrono::duration_cast<std::chrono::nanoseconds>(now - start).count();
    return static_cast<std::uint64_t>(waited) >= parameters.limit_ns;
  }
};

Status end_spin(const Spin& spin, Running running) {
  const SpinParameters& parameters = spin.parameters;
  const Range flag{parameters.flag, sizeof(std::uint32_t)};
  static_cast<void>(use_words(flag, flag.size, Access::read, running));
  if (running.fault != Status::success || parameters.result == 0) return running.fault;
  const std::uint32_t outcome = spin.is_open() ? abi::spin_opened : abi::spin_timed_out;
  std::byte* at =
      use_words({parameters.result, sizeof outcome}, sizeof outcome, Access::write, running);
  if (at != nullptr) {
    __atomic_store_n(reinterpret_cast<std::uint32_t*>(at), outcome, __ATOMIC_RELEASE);
  }
  return running.fault;
}

void add_spin(Operation& operation, const SpinParameters& parameters, const Running& running) {
  auto spin = std::make_shared<Spin>();
  spin->parameters = parameters;
  const bool aligned = parameters.flag % sizeof(std::uint32_t) == 0;
  Operand flag;
  if (aligned &&
      find_device_operand(parameters.flag, sizeof(std::uint32_t), flag) == Status::success) {
    spin->flag = flag;
    operation.gate = flag.range;
  }
  operation.reads = {{parameters.flag, sizeof(std::uint32_t)}};
  if (parameters.result != 0) operation.writes = {{parameters.result, sizeof(std::uint32_t)}};
  operation.ready = [spin] { return spin->may_end(); };
  operation.run = [spin, running] { return end_spin(*spin, running); };
}

template <class Parameters>
bool is(KernelIndex kernel) {
  return std::string_view(abi::kernel_signatures[kernel].entry) == Parameters::entry;
}

}  // namespace

Operation make_kernel(KernelIndex kernel, const KernelArguments& arguments, Running running) {
  Operation operation;
  operation.name = abi::kernel_signatures[kernel].entry;
  operation.site = running.site;
  operation.device_work = true;
  if (is<FillParameters>(kernel)) {
    const auto parameters = parameters_of<FillParameters>(arguments);
    operation.writes = {
        hold_mapped(range_of(parameters.address, parameters.words, word_size), running)};
    operation.run = [=] { return fill(parameters, running); };
  } else if (is<TouchParameters>(kernel)) {
    const auto parameters = parameters_of<TouchParameters>(arguments);
    auto& touched = parameters.add == 0 ? operation.reads : operation.writes;
    touched = {hold_mapped(range_of(parameters.address, parameters.bytes, 1), running)};
    if (parameters.sum != 0) operation.writes.push_back({parameters.sum, word_size});
    operation.run = [=] { return touch(parameters, running); };
  } else if (is<ChecksumParameters>(kernel)) {
    const auto parameters = parameters_of<ChecksumParameters>(arguments);
    operation.reads = {
        hold_mapped(range_of(parameters.address, parameters.words, word_size), running)};
    operation.writes = {{parameters.result, word_size}};
    operation.run = [=] { return checksum(parameters, running); };
  } else {
    add_spin(operation, parameters_of<SpinParameters>(arguments), running);
  }
  for (Range& range : operation.reads) range = by_host_address(range);
  for (Range& range : operation.writes) range = by_host_address(range);
  return operation;
}

}  // namespace assay::cuda::model
