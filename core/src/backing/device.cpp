#include "assay/backing/device.hpp"

#include <new>

namespace assay {
namespace {

SourceInfo device_info(int ordinal) noexcept {
  return {.id = "device",
          .capabilities = Capabilities::device_access | Capabilities::thread_safe |
                          Capabilities::resize_in_place | Capabilities::resize_moves |
                          Capabilities::detects_bad_free,
          .granularity = Device::granularity,
          .natural_alignment = Device::granularity,
          .device = ordinal};
}

}  // namespace

Result<Ref<Device>> Device::make(Ref<cuda::PrimaryContext> context) noexcept {
  ASSAY_TRY(Ref<cuda::Stream> own, cuda::Stream::make(context));
  auto* const device = new (std::nothrow) Device(std::move(context), std::move(own));
  if (device == nullptr) {
    return Error::make(ErrorCode::out_of_memory, "make", "device", sizeof(Device));
  }
  return Ref<Device>::adopt(device);
}

Device::Device(Ref<cuda::PrimaryContext> context, Ref<cuda::Stream> own) noexcept
    : DeviceOnlyBacking(
          device_info(context->ordinal()),
          {[](const auto& table, Address base) { return table.cuMemFree_v2(base); }, "cuMemFree"},
          context, std::move(own)) {}

Result<Device::Address> Device::native_allocate(const Request&, std::size_t size) noexcept {
  Address base = 0;
  ASSAY_TRY_VOID(check(table().cuMemAlloc_v2(&base, size), "cuMemAlloc"));
  return base;
}

}  // namespace assay
