#include "assay/backing/managed.hpp"

#include <bit>
#include <cstring>
#include <new>

namespace assay {
namespace {

namespace abi = cuda::abi;

SourceInfo managed_info(const cuda::DeviceFacts& facts, const Managed::Options& options) noexcept {
  std::uint32_t capabilities = Capabilities::host_access | Capabilities::device_access |
                               Capabilities::thread_safe | Capabilities::resize_in_place |
                               Capabilities::resize_moves | Capabilities::detects_bad_free;
  if (facts.has(abi::DeviceAttribute::concurrent_managed_access)) {
    capabilities |= Capabilities::advise | Capabilities::prefetch;
  }
  return {.id = "managed",
          .capabilities = capabilities,
          .granularity = options.granularity,
          .natural_alignment = options.granularity,
          .device = facts.ordinal};
}

abi::Advise native(Advice advice) noexcept {
  switch (advice) {
    case Advice::set_read_mostly: return abi::Advise::set_read_mostly;
    case Advice::unset_read_mostly: return abi::Advise::unset_read_mostly;
    case Advice::set_preferred_location: return abi::Advise::set_preferred_location;
    case Advice::unset_preferred_location: return abi::Advise::unset_preferred_location;
    case Advice::set_accessed_by: return abi::Advise::set_accessed_by;
    case Advice::unset_accessed_by: break;
  }
  return abi::Advise::unset_accessed_by;
}

abi::Location native(Location location) noexcept {
  switch (location.kind) {
    case Location::Kind::host: return {abi::LocationType::host, 0};
    case Location::Kind::device: return {abi::LocationType::device, location.ordinal};
    case Location::Kind::host_numa: break;
  }
  return {abi::LocationType::host_numa, location.ordinal};
}

}  // namespace

Result<Ref<Managed>> Managed::make(Ref<cuda::PrimaryContext> context) noexcept {
  return make(std::move(context), Options{});
}

Result<Ref<Managed>> Managed::make(Ref<cuda::PrimaryContext> context,
                                   const Options& options) noexcept {
  if (!std::has_single_bit(options.granularity) || options.granularity < granularity_min ||
      options.granularity > granularity_max) {
    return Error::make(ErrorCode::invalid_argument, "granularity", "managed", options.granularity);
  }
  if (!context->facts().has(abi::DeviceAttribute::managed_memory)) {
    return Error::make(ErrorCode::not_supported, "managed memory", "managed");
  }
  ASSAY_TRY(Ref<cuda::Stream> own, cuda::Stream::make(context));
  auto* const managed = new (std::nothrow) Managed(std::move(context), std::move(own), options);
  if (managed == nullptr) {
    return Error::make(ErrorCode::out_of_memory, "make", "managed", sizeof(Managed));
  }
  return Ref<Managed>::adopt(managed);
}

Managed::Managed(Ref<cuda::PrimaryContext> context, Ref<cuda::Stream> own,
                 const Options& options) noexcept
    : HostReachableBacking(
          managed_info(context->facts(), options),
          {[](const auto& table, Address base) { return table.cuMemFree_v2(base); }, "cuMemFree"},
          context, std::move(own)),
      options_(options) {}

/// Where host and device exclude each other, a block to be zeroed starts as the host's: only then
/// may the host write it while the device works on something else [hdr].
Result<Managed::Address> Managed::native_allocate(const Request& request,
                                                  std::size_t size) noexcept {
  const bool host_first =
      options_.attach == Attach::host || (request.init == Init::zero && !concurrent());
  Address base = 0;
  ASSAY_TRY_VOID(check(table().cuMemAllocManaged(
                           &base, size, host_first ? abi::mem_attach_host : abi::mem_attach_global),
                       "cuMemAllocManaged"));
  return base;
}

Result<void> Managed::zero_fresh(Address base, Address address, std::size_t size,
                                 const Request& request) noexcept {
  if (options_.attach == Attach::global && concurrent()) {
    // Waited for: the host may look through the address at once, and knows of no stream.
    return set_bytes(address, size, std::byte{0}, {queue_of(request.stream).stream, true});
  }
  std::memset(reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), 0, size);
  if (options_.attach == Attach::host) return {};
  const Queue queue = own_queue();
  ASSAY_TRY_VOID(
      check(table().cuStreamAttachMemAsync(queue.stream, base, 0, abi::mem_attach_global),
            "cuStreamAttachMemAsync"));
  return finish(queue);
}

Result<void> Managed::do_advise(Block block, std::size_t offset, std::size_t size, Advice advice,
                                Location location) noexcept {
  const bool of_access = advice == Advice::set_accessed_by || advice == Advice::unset_accessed_by;
  // Refused here, so that the driver is left without an error: it takes advice only where host and
  // device share memory at any time, and no NUMA node as an accessor [hdr].
  if (!concurrent() || (of_access && location.kind == Location::Kind::host_numa)) {
    return Error::make(ErrorCode::not_supported, "advise", info().id, size);
  }
  if (size == 0) return {};
  ASSAY_TRY(const cuda::Current current, cuda::Current::of(context()));
  return context().driver().advise(block.address + offset, size, native(advice), native(location),
                                   info().id);
}

Result<void> Managed::do_prefetch(Block block, std::size_t offset, std::size_t size,
                                  Location location, StreamRef stream) noexcept {
  if (!concurrent()) return Error::make(ErrorCode::not_supported, "prefetch", info().id, size);
  if (size == 0) return {};
  const Address address = block.address + offset;
  const Queue queue = queue_for(address, stream);
  ASSAY_TRY(const cuda::Current current, cuda::Current::of(context()));
  ASSAY_TRY_VOID(
      context().driver().prefetch(address, size, native(location), queue.stream, info().id));
  return finish(queue);
}

}  // namespace assay
