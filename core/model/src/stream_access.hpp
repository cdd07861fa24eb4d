// Memory as operations use it: found and checked when the call is made, and once more, because the
// program may have freed it, when the operation runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory.hpp"
#include "stream_operation.hpp"
#include "stream_queue.hpp"

namespace assay::cuda::model {

/// Bytes that an operation reads or writes: in an allocation of the driver's, or plain host memory.
struct Operand {
  AllocationRef allocation;  ///< null: pageable host memory
  Range range;               ///< by the address the host knows
  /// The mappings after `allocation` that the range runs over.
  std::vector<AllocationRef> further{};

  [[nodiscard]] bool is_pageable() const noexcept { return allocation == nullptr; }
  /// Memory of the device, or managed, which may be there: nothing that the host waits for.
  [[nodiscard]] bool is_device() const noexcept {
    return allocation != nullptr && allocation->kind != Kind::pinned &&
           allocation->kind != Kind::registered;
  }
  [[nodiscard]] bool is_managed() const noexcept {
    return allocation != nullptr && allocation->kind == Kind::managed;
  }
  [[nodiscard]] bool is_pinned() const noexcept { return !is_pageable() && !is_device(); }
};

/// The range as the host addresses it, where the device has an address of its own for it.
[[nodiscard]] Range by_host_address(Range range) noexcept;

enum class Access : std::uint8_t {
  read,       ///< all of it
  read_some,  ///< of it, here and there
  write,
  update,   ///< reads all of it, then writes
  discard,  ///< neither: what it holds means nothing from now on
};
[[nodiscard]] constexpr bool writes(Access access) noexcept {
  return access == Access::write || access == Access::update;
}

/// An operation as it runs.
struct Running {
  Site site;          ///< the call that enqueued it
  Device device = 0;  ///< on which it runs
  Stream stream = nullptr;
  Status fault = Status::success;  ///< what the device answers to what it met
  /// What a kernel uses: its bytes stay there until it has ended.
  std::vector<AllocationRef> held{};
};

/// As work of that queue, enqueued by that call.
[[nodiscard]] Running running_in(const StreamQueue& queue, const Site& site);

/// The operand at an address that the device is to use: wholly inside one live allocation, or in
/// adjacent mappings of one reservation. Errors: 1.
[[nodiscard]] Status find_device_operand(std::uint64_t address, std::size_t size,
                                         Operand& operand) noexcept;
/// The operand at an address that the host gave: any mapped memory but the device's. Errors: 1.
[[nodiscard]] Status find_host_operand(const void* address, std::size_t size,
                                       Operand& operand) noexcept;
/// Either, as unified addressing tells them apart. Errors: 1.
[[nodiscard]] Status find_any_operand(std::uint64_t address, std::size_t size,
                                      Operand& operand) noexcept;

/// 1 where the device was not given that access to mapped memory.
[[nodiscard]] Status check_access(const Operand& operand, Access access, Device device) noexcept;

/// The model's pointer to an operand's bytes now. Null, and a diagnosis, if they are gone: freed
/// memory is a fault, unmapped host memory is none that a device would notice.
[[nodiscard]] std::byte* use(const Operand& operand, Access access, Running& running) noexcept;

/// At the launch of a kernel: what is mapped there now is what it has to find when it runs. Returns
/// the range.
Range hold_mapped(Range range, Running& running);

/// The same as use() for an address that a kernel was given: it need not have been valid at the
/// launch.
[[nodiscard]] std::byte* use_address(Range range, Access access, Running& running) noexcept;

/// Of a copy's source, to tell whether it has changed by the time it is read. Reads what the
/// program may have freed meanwhile, so sanitizers do not watch it.
[[nodiscard]] std::uint64_t hash_bytes(const std::byte* bytes, std::size_t size) noexcept;

}  // namespace assay::cuda::model
