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
    : DriverBacking(
          device_info(context->ordinal()),
          {[](const auto& table, Address base) { return table.cuMemFree_v2(base); }, "cuMemFree"},
          context, std::move(own)) {}

Result<Device::Address> Device::native_allocate(const Request&, std::size_t size) noexcept {
  Address base = 0;
  ASSAY_TRY_VOID(check(table().cuMemAlloc_v2(&base, size), "cuMemAlloc"));
  return base;
}

Result<void> Device::zero_fresh(Address, Address address, std::size_t size,
                                const Request& request) noexcept {
  return set_bytes(address, size, std::byte{0}, queue_of(request.stream));
}

Result<void> Device::do_copy_in(Block block, std::size_t offset,
                                std::span<const std::byte> from) noexcept {
  const Address address = block.address + offset;
  Queue queue = queue_for(address);
  queue.wait = true;  // the source is the caller's
  ASSAY_TRY(const cuda::Current current, cuda::Current::of(context()));
  ASSAY_TRY_VOID(
      check(table().cuMemcpyHtoDAsync_v2(address, from.data(), from.size(), queue.stream),
            "cuMemcpyHtoDAsync"));
  return finish(queue);
}

Result<void> Device::do_copy_out(Block block, std::size_t offset,
                                 std::span<std::byte> to) noexcept {
  const Address address = block.address + offset;
  Queue queue = queue_for(address);
  queue.wait = true;
  ASSAY_TRY(const cuda::Current current, cuda::Current::of(context()));
  ASSAY_TRY_VOID(check(table().cuMemcpyDtoHAsync_v2(to.data(), address, to.size(), queue.stream),
                       "cuMemcpyDtoHAsync"));
  return finish(queue);
}

Result<void> Device::do_fill(Block block, std::size_t offset, std::size_t size,
                             std::byte value) noexcept {
  const Address address = block.address + offset;
  ASSAY_TRY(const cuda::Current current, cuda::Current::of(context()));
  return set_bytes(address, size, value, queue_for(address));
}

Result<void> Device::do_copy_on_device(std::uint64_t to, std::uint64_t from,
                                       std::size_t size) noexcept {
  // On a stream of its own: both blocks are settled, and the source may be another backing's.
  const Queue queue = own_queue();
  ASSAY_TRY(const cuda::Current current, cuda::Current::of(context()));
  ASSAY_TRY_VOID(
      check(table().cuMemcpyDtoDAsync_v2(to, from, size, queue.stream), "cuMemcpyDtoDAsync"));
  return finish(queue);
}

}  // namespace assay
