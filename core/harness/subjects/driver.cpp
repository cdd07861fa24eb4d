// The backings over the CUDA driver, on device 0, and the chains over them that tenants use.
#include "assay/backing/device.hpp"
#include "assay/backing/device_pool.hpp"
#include "assay/backing/device_virtual.hpp"
#include "assay/backing/managed.hpp"
#include "assay/backing/pinned.hpp"
#include "assay/backing/quota.hpp"
#include "assay/backing/slab_pool.hpp"
#include "assay/harness/subject.hpp"

namespace assay::harness::subject_list {
namespace {

template <class Leaf>
Result<Ref<Backing>> make_leaf() {
  ASSAY_TRY(Ref<cuda::PrimaryContext> context, cuda::PrimaryContext::of_device(0));
  ASSAY_TRY(Ref<Leaf> leaf, Leaf::make(std::move(context)));
  return Ref<Backing>(std::move(leaf));
}

template <class Leaf>
Result<Ref<Backing>> make_alone(const SubjectContext&) {
  return make_leaf<Leaf>();
}

template <class Leaf>
Result<Ref<Backing>> make_tenant(const SubjectContext& context) {
  Ref<Backing> leaf = context.upstream;
  if (!leaf) {
    ASSAY_TRY(leaf, make_leaf<Leaf>());
  }
  return Ref<Backing>(SlabPool::make(Quota::make(Tenant::make(), std::move(leaf))));
}

}  // namespace

const Subject& managed() {
  static constexpr Subject subject{
      .id = "managed",
      .origin = Origin::assay,
      .summary = "memory that host and device share (cuMemAllocManaged)",
      .make = make_alone<Managed>,
      .needs_driver = true};
  return subject;
}

const Subject& pinned() {
  static constexpr Subject subject{.id = "pinned",
                                   .origin = Origin::assay,
                                   .summary = "page-locked host memory (cuMemHostAlloc)",
                                   .make = make_alone<Pinned>,
                                   .needs_driver = true};
  return subject;
}

const Subject& device() {
  static constexpr Subject subject{
      .id = "device",
      .origin = Origin::assay,
      .summary = "memory of a GPU, out of the host's reach (cuMemAlloc)",
      .make = make_alone<Device>,
      .needs_driver = true};
  return subject;
}

const Subject& device_pool() {
  static constexpr Subject subject{
      .id = "device_pool",
      .origin = Origin::assay,
      .summary = "device memory from a pool of the driver's (cuMemAllocFromPoolAsync)",
      .make = make_alone<DevicePool>,
      .needs_driver = true};
  return subject;
}

const Subject& device_virtual() {
  static constexpr Subject subject{
      .id = "device_virtual",
      .origin = Origin::assay,
      .summary = "device memory that grows in place (cuMemAddressReserve, cuMemCreate, cuMemMap)",
      .make = make_alone<DeviceVirtual>,
      .needs_driver = true};
  return subject;
}

const Subject& tenant_managed() {
  static constexpr Subject subject{
      .id = "tenant_managed",
      .origin = Origin::assay,
      .summary = "slab_pool(quota(managed)): a tenant of managed memory",
      .make = make_tenant<Managed>,
      .needs_driver = true,
      .leaf = make_leaf<Managed>};
  return subject;
}

const Subject& tenant_device() {
  static constexpr Subject subject{.id = "tenant_device",
                                   .origin = Origin::assay,
                                   .summary = "slab_pool(quota(device)): a tenant of device memory",
                                   .make = make_tenant<Device>,
                                   .needs_driver = true,
                                   .leaf = make_leaf<Device>};
  return subject;
}

}  // namespace assay::harness::subject_list
