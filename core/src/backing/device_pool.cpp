#include "assay/backing/device_pool.hpp"

#include <algorithm>
#include <new>

namespace assay {
namespace {

namespace abi = cuda::abi;
using abi::MemPoolAttribute;
using abi::Status;

constexpr int version_of_max_size = 12020;

SourceInfo pool_info(int ordinal) noexcept {
  return {.id = "device_pool",
          .capabilities = Capabilities::device_access | Capabilities::thread_safe |
                          Capabilities::resize_in_place | Capabilities::resize_moves |
                          Capabilities::trim | Capabilities::stream_ordered |
                          Capabilities::detects_bad_free,
          .granularity = DevicePool::granularity,
          .natural_alignment = DevicePool::granularity,
          .device = ordinal};
}

/// Destroys a pool, once more if the driver refuses for a passing reason. One with blocks goes once
/// they are free [hdr].
void destroy(cuda::PrimaryContext& context, abi::MemPool pool) noexcept {
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (context.lost() || context.driver().forked()) return;
    if (context.check(context.table().cuMemPoolDestroy(pool), "cuMemPoolDestroy")) return;
  }
}

/// A pool of device memory, its largest size told to a driver that takes it.
Result<abi::MemPool> make_pool(cuda::PrimaryContext& context,
                               const DevicePool::Options& options) noexcept {
  abi::MemPoolProps props{};
  props.alloc_type = abi::AllocationType::pinned;
  props.location = {abi::LocationType::device, context.ordinal()};
  if (context.driver().version() >= version_of_max_size) props.max_size = options.max_size;
  abi::MemPool pool = nullptr;
  ASSAY_TRY_VOID(context.check(context.table().cuMemPoolCreate(&pool, &props), "cuMemPoolCreate",
                               "device_pool"));
  std::uint64_t threshold = options.release_threshold;
  auto set = context.check(
      context.table().cuMemPoolSetAttribute(pool, MemPoolAttribute::release_threshold, &threshold),
      "cuMemPoolSetAttribute", "device_pool");
  if (set) return pool;
  destroy(context, pool);
  return set.error();
}

}  // namespace

Result<Ref<DevicePool>> DevicePool::make(Ref<cuda::PrimaryContext> context) noexcept {
  return make(std::move(context), Options{});
}

Result<Ref<DevicePool>> DevicePool::make(Ref<cuda::PrimaryContext> context,
                                         const Options& options) noexcept {
  if (!context->driver().has(cuda::Feature::pools) ||
      !context->facts().has(abi::DeviceAttribute::memory_pools_supported)) {
    return Error::make(ErrorCode::not_supported, "memory pools", "device_pool");
  }
  ASSAY_TRY(Ref<cuda::Stream> own, cuda::Stream::make(context));
  ASSAY_TRY(const cuda::Current current, cuda::Current::of(*context));
  ASSAY_TRY(const abi::MemPool pool, make_pool(*context, options));
  auto* const made = new (std::nothrow) DevicePool(context, std::move(own), options, pool);
  if (made == nullptr) {
    destroy(*context, pool);
    return Error::make(ErrorCode::out_of_memory, "make", "device_pool", sizeof(DevicePool));
  }
  return Ref<DevicePool>::adopt(made);
}

DevicePool::DevicePool(Ref<cuda::PrimaryContext> context, Ref<cuda::Stream> own,
                       const Options& options, abi::MemPool pool) noexcept
    : DeviceOnlyBacking(pool_info(context->ordinal()),
                        {.call = nullptr, .name = "cuMemFreeAsync", .in_order = true}, context,
                        std::move(own)),
      options_(options),
      pool_(pool),
      counts_(options.max_size != 0 && context->driver().version() < version_of_max_size) {}

DevicePool::~DevicePool() {
  end();
  // A pool outlives its frees that are under way [hdr]: the memory is to be back when this returns.
  if (!settle_all()) (void)settle_all().has_value();
  destroy(context(), pool_);
}

Result<void> DevicePool::settle_all() noexcept {
  ASSAY_TRY(const cuda::Current current, cuda::Current::of(context()));
  return wait_for_all();
}

bool DevicePool::charge(std::size_t size) noexcept {
  if (!counts_) return true;
  std::uint64_t now = charged_.load(std::memory_order_relaxed);
  do {
    if (now > options_.max_size || size > options_.max_size - now) return false;
  } while (!charged_.compare_exchange_weak(now, now + size, std::memory_order_relaxed));
  return true;
}

void DevicePool::credit(std::size_t size) noexcept {
  if (counts_) charged_.fetch_sub(size, std::memory_order_relaxed);
}

Result<DevicePool::Address> DevicePool::native_allocate(const Request& request,
                                                        std::size_t size) noexcept {
  if (!charge(size)) {
    return Error::make(ErrorCode::out_of_memory, "max_size", "device_pool", size);
  }
  const abi::Stream stream = queue_of(request.stream).stream;
  Address base = 0;
  const auto ask = [&] { return table().cuMemAllocFromPoolAsync(&base, size, pool_, stream); };
  Status status = ask();
  // What was freed on other streams may be the pool's again only once the host has seen it.
  if (status == Status::out_of_memory && wait_for_all()) status = ask();
  auto asked = check(status, "cuMemAllocFromPoolAsync");
  if (asked) return base;
  credit(size);
  return asked.error();
}

Result<void> DevicePool::native_free(Address base, std::size_t held, abi::Stream stream) noexcept {
  ASSAY_TRY_VOID(check(table().cuMemFreeAsync(base, stream), "cuMemFreeAsync"));
  credit(held);
  return {};
}

/// The allocation is complete for every stream once the host has waited for it [hdr].
Result<void> DevicePool::make_ready(Address base, Address address, std::size_t size,
                                    const Request& request) noexcept {
  if (request.init == Init::zero) return zero_fresh(base, address, size, request);
  return finish(queue_of(request.stream));
}

void DevicePool::add_limits(Error& error) noexcept {
  if (options_.max_size == 0) return DriverBacking::add_limits(error);
  std::uint64_t used = charged_.load(std::memory_order_relaxed);
  if (!counts_) used = attribute(MemPoolAttribute::used_mem_current).value_or(0);
  error.limit = options_.max_size;
  error.largest_free = options_.max_size - std::min<std::uint64_t>(used, options_.max_size);
}

Result<std::uint64_t> DevicePool::attribute(MemPoolAttribute which) noexcept {
  std::uint64_t value = 0;
  ASSAY_TRY_VOID(
      check(table().cuMemPoolGetAttribute(pool_, which, &value), "cuMemPoolGetAttribute"));
  return value;
}

Result<DevicePool::Figures> DevicePool::figures() noexcept {
  ASSAY_TRY(const cuda::Current current, cuda::Current::of(context()));
  Figures figures;
  ASSAY_TRY(figures.reserved_bytes, attribute(MemPoolAttribute::reserved_mem_current));
  ASSAY_TRY(figures.reserved_peak_bytes, attribute(MemPoolAttribute::reserved_mem_high));
  ASSAY_TRY(figures.used_bytes, attribute(MemPoolAttribute::used_mem_current));
  ASSAY_TRY(figures.used_peak_bytes, attribute(MemPoolAttribute::used_mem_high));
  return figures;
}

/// What is cached belongs to it; of a driver that does not answer, what is live is still known.
Usage DevicePool::do_usage() const noexcept {
  Usage usage = DriverBacking::do_usage();
  std::uint64_t reserved = 0;
  if (!context().lost() && !context().driver().forked() &&
      table().cuMemPoolGetAttribute(pool_, MemPoolAttribute::reserved_mem_current, &reserved) ==
          Status::success) {
    usage.reserved_bytes = std::max(usage.reserved_bytes, reserved);
  }
  return usage;
}

/// What was freed counts as outstanding until the host has seen it [hdr], so all is waited for.
Result<std::size_t> DevicePool::do_trim(std::size_t keep_bytes) noexcept {
  ASSAY_TRY(const cuda::Current current, cuda::Current::of(context()));
  ASSAY_TRY_VOID(wait_for_all());
  ASSAY_TRY(const std::uint64_t used, attribute(MemPoolAttribute::used_mem_current));
  ASSAY_TRY(const std::uint64_t before, attribute(MemPoolAttribute::reserved_mem_current));
  if (before <= used || before - used <= keep_bytes) return 0;
  ASSAY_TRY_VOID(check(table().cuMemPoolTrimTo(pool_, used + keep_bytes), "cuMemPoolTrimTo"));
  ASSAY_TRY(const std::uint64_t after, attribute(MemPoolAttribute::reserved_mem_current));
  return static_cast<std::size_t>(before - std::min(before, after));
}

}  // namespace assay
