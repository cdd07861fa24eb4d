#include "assay/backing/pinned.hpp"

#include <cstring>
#include <new>

#include "assay/base/system.hpp"

namespace assay {
namespace {

using cuda::abi::DeviceAttribute;

SourceInfo pinned_info(int ordinal) noexcept {
  return {.id = "pinned",
          .capabilities = Capabilities::host_access | Capabilities::device_access |
                          Capabilities::thread_safe | Capabilities::resize_in_place |
                          Capabilities::resize_moves | Capabilities::detects_bad_free,
          .granularity = 64,
          .natural_alignment = page_size(),
          .device = ordinal};
}

void* pointer_to(std::uint64_t address) noexcept {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

}  // namespace

Result<Ref<Pinned>> Pinned::make(Ref<cuda::PrimaryContext> context) noexcept {
  // One address for host and device is what unified addressing gives mapped memory [hdr].
  const cuda::DeviceFacts& facts = context->facts();
  if (!facts.has(DeviceAttribute::can_map_host_memory) ||
      !facts.has(DeviceAttribute::unified_addressing)) {
    return Error::make(ErrorCode::not_supported, "map host memory", "pinned");
  }
  auto* const pinned = new (std::nothrow) Pinned(std::move(context));
  if (pinned == nullptr) {
    return Error::make(ErrorCode::out_of_memory, "make", "pinned", sizeof(Pinned));
  }
  return Ref<Pinned>::adopt(pinned);
}

Pinned::Pinned(Ref<cuda::PrimaryContext> context) noexcept
    : HostReachableBacking(
          pinned_info(context->ordinal()),
          {[](const auto& table, Address base) { return table.cuMemFreeHost(pointer_to(base)); },
           "cuMemFreeHost"},
          context, {}) {}

Result<Pinned::Address> Pinned::native_allocate(const Request&, std::size_t size) noexcept {
  constexpr unsigned flags = cuda::abi::host_alloc_portable | cuda::abi::host_alloc_device_map;
  void* base = nullptr;
  ASSAY_TRY_VOID(check(table().cuMemHostAlloc(&base, size, flags), "cuMemHostAlloc"));
  return Address{reinterpret_cast<std::uintptr_t>(base)};
}

Result<void> Pinned::zero_fresh(Address, Address address, std::size_t size,
                                const Request&) noexcept {
  std::memset(pointer_to(address), 0, size);
  return {};
}

}  // namespace assay
